"""What a word on the command line names: a run, ``RUN@3``, ``RUN@HASH``, a round, or a skill's file or folder."""

from dataclasses import dataclass
from pathlib import Path

from intraskill.history.history import History, Version, read_history
from intraskill.method.errors import ArtifactError
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.agent_skill import read_reading
from intraskill.store.artifacts import PLAN, SKILL
from intraskill.store.bundles import bundle_of
from intraskill.store.run_directory import is_sealed, verify


@dataclass(frozen=True)
class SkillSource:
    """A skill and where it is from.

    Attributes:
        name: as it was written.
        path: of its document.
        skill: parsed, with only the chunk that was asked for, if one was.
        history: of its run; ``None`` for a loose file.
        version: of its round; ``None`` for a loose file.
        chunk: when the word names one.
    """

    name: str
    path: Path
    skill: Skill
    history: History | None = None
    version: Version | None = None
    chunk: Chunk | None = None


def skill_source(name: str) -> SkillSource:
    """Find what a word names.

    Raises:
        ArtifactError: when it is no run, no file, or the run has no such version; or a sealed file changed.
        SkillFormatError: for a file that is no skill.
    """
    path = Path(name)
    if path.exists() and not path.is_dir():
        skill = read_reading(path).parsed
        return SkillSource(name, skill_file(name), skill)
    if path.is_dir() and not PLAN.exists(path) and not path.name.startswith("round_") and bundle_of(path).skill_file:
        return SkillSource(name, path, read_reading(path).parsed)
    root, at, key = (name, "", "") if path.exists() else name.rpartition("@")
    if not at:
        root = name
    directory = Path(root)
    if not directory.exists():
        raise ArtifactError(f"{root} is neither a skill file nor a run; write RUN, RUN@ROUND, RUN@HASH or FILE")
    if not at and directory.name.startswith("round_") and not PLAN.exists(directory):
        if not is_sealed(directory):
            raise ArtifactError(f"{directory} is no finished round")
        directory, key = directory.parent, directory.name
    history = read_history(directory)
    found = history.find(key) if key else history.newest
    if isinstance(found, Chunk):
        holder = next(version for version in reversed(history.versions) if found.id in version.chunks)
        return SkillSource(name, SKILL.path(holder.directory), Skill("", (found,)), history, holder, found)
    return SkillSource(name, SKILL.path(found.directory), found.skill, history, found)


def run_version(name: str) -> tuple[History, Version]:
    """Return the run and the version that a word names.

    Raises:
        ArtifactError: as `skill_source`, and for a loose file or a single chunk.
    """
    if Path(name).is_file():
        raise ArtifactError(f"{name} is a file, which has no history; name a run")
    found = skill_source(name)
    if found.history is None or found.version is None or found.chunk is not None:
        raise ArtifactError(f"{name} names a chunk; name its run, and the chunk with --chunk")
    return found.history, found.version


def skill_file(name: str) -> Path:
    """Return the document that a word names, readable as a skill or not; a sealed one is verified.

    A round that is not sealed yet is a place to look at too.

    Raises:
        ArtifactError: as `skill_source`.
    """
    path = SKILL.path(Path(name)) if SKILL.path(Path(name)).is_file() else Path(name)
    if not path.is_file():
        return skill_source(name).path
    if is_sealed(path.parent):
        verify(path.parent, path.name)
    return path
