"""``skill show`` and ``skill lint``: read a skill from a run or a file, and say what is wrong with it."""

from pathlib import Path

from intraskill.method.errors import ArtifactError, SkillFormatError
from intraskill.method.firewall import Firewall
from intraskill.method.skill import Skill, parse_skill
from intraskill.runtime.run_directory import is_sealed, read_text

MAX_LINES = 500


def skill_path(run_or_file: str) -> Path:
    """Return the skill file of a run's last finished round, of a round, or the file itself.

    Raises:
        ArtifactError: when there is none.
    """
    path = Path(run_or_file)
    if path.is_file():
        return path
    rounds = [directory for directory in sorted(path.glob("round_*")) if is_sealed(directory)]
    found = (rounds[-1] if rounds else path) / "skill.md"
    if not found.is_file():
        raise ArtifactError(f"{run_or_file} is neither a skill file nor a run with a finished round")
    return found


def lint(path: Path) -> tuple[list[str], Skill | None]:
    """Return what is wrong with a skill file, one line each, and the skill when it can be read."""
    text = read_text(path)
    try:
        skill = parse_skill(text)
    except SkillFormatError as error:
        return [f"{path}: {error}"], None
    problems = []
    if len(text.splitlines()) > MAX_LINES:
        problems.append(f"{path}: {len(text.splitlines())} lines; keep a skill under {MAX_LINES}")
    firewall = Firewall()
    for chunk in skill.chunks:
        if not chunk.body:
            problems.append(f"{path}: chunk {chunk.title!r} has no body")
        others = [other for other in skill.chunks if other.id != chunk.id]
        problems += [f"{path}: chunk {chunk.title!r}: {rejection}" for rejection in firewall.inspect(chunk, others)]
    return problems, skill
