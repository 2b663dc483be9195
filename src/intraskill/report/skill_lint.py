"""``skill lint``: say what is wrong with a skill, by the rules of the firewall and of the file format."""

from pathlib import Path

from intraskill.assembly import environment_of
from intraskill.config import unflatten
from intraskill.method.errors import SkillFormatError
from intraskill.method.firewall import Firewall
from intraskill.method.skill import Skill, parse_skill
from intraskill.provenance import plan_record
from intraskill.runtime.run_directory import read_text
from intraskill.runtime.trace2skill import secrets_of

MAX_LINES = 500


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
    problems += [f"{path}: chunk {chunk.title!r} has no body" for chunk in skill.chunks if not chunk.body]
    found = firewall_beside(path).inspect_skill(skill)
    problems += [f"{path}: {where}: {rejection}" for where, rejection in found]
    return problems, skill


def firewall_beside(path: Path) -> Firewall:
    """Return the firewall of the run that a round's skill belongs to; a loose file is checked without secrets."""
    plan = path.parent.parent / "plan.json"
    if not plan.exists():
        return Firewall()
    return Firewall(secrets_of(environment_of(unflatten(plan_record(plan.parent)["plan"]))))
