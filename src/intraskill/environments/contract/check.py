"""Run every rule of the contract against an environment, each on its own, and say which it breaks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from intraskill.environments.contract import action_rules, episode_rules, world_rules
from intraskill.environments.contract.rule import Broken, ContractProbe, Rule, Skipped
from intraskill.environments.contract.solutions import Solution
from intraskill.environments.protocol import Environment, boundary
from intraskill.method.errors import IntraSkillError

Status = Literal["ok", "violated", "skipped"]
SHOWN = 20
"""Breaches of one rule that are told beside its first."""
RULES = tuple(rule for module in (world_rules, action_rules, episode_rules) for rule in module.RULES)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one rule.

    Attributes:
        rule: its short name.
        promise: what every environment promises by it, in plain words.
        status: ``ok``, ``violated`` or ``skipped``.
        where: which task and action, or which member, broke it first.
        what: what was seen there, or why it was skipped.
        remedy: what to do; empty unless violated.
        count: number of breaches.
        more: further breaches, ``where: what``; at most `SHOWN`, other kinds before more of one kind.
        optional: it was skipped because it is about what no environment need offer.
    """

    rule: str
    promise: str
    status: Status
    where: str = ""
    what: str = ""
    remedy: str = ""
    count: int = 0
    more: tuple[str, ...] = ()
    optional: bool = False


def check_environment(
    environment: Environment,
    *,
    again: Callable[[], Environment] | None = None,
    tasks: int = 6,
    seed: int = 0,
    solutions: Sequence[Solution] = (),
) -> list[Finding]:
    """Check every rule of the contract by playing; nothing is opened from the test split.

    The version is asked for first: an environment that cannot be reached or built breaks no rule.

    A rule that builds on a broken one is skipped, so that one mistake is named once.

    Args:
        environment: what to check.
        again: builds the same environment a second time; without it, only one construction is looked at.
        tasks: number of tasks to play.
        seed: of tasks and actions: the same seed plays the same episodes.
        solutions: actions to play beside those that the environment's own ``solution`` knows.

    Raises:
        IntraSkillError: what the environment raises about itself, such as `EnvironmentFault` for a server that is down.
    """
    _contact(environment)
    probe, findings, broken = ContractProbe(environment, again, tasks, seed, solutions), list[Finding](), set[str]()
    for rule in RULES:
        lost = [name for name in rule.needs if name in broken]
        if lost:
            found = Finding(rule.name, rule.promise, "skipped", what=f"means nothing before {lost[0]} holds")
        else:
            found = _finding(rule, probe)
        if found.status == "violated" or lost:
            broken.add(rule.name)
        findings.append(found)
    return findings


def _contact(environment: Environment) -> None:
    trouble: IntraSkillError | None = None
    with boundary("contact"):
        try:
            _ = environment.version
        except IntraSkillError as error:
            trouble = error
    if trouble is not None:
        raise trouble


def _finding(rule: Rule, probe: ContractProbe) -> Finding:
    complaints: list[Broken | Skipped] = []
    with boundary("raised") as crossing:
        complaints += rule.check(probe)
    broken = [complaint for complaint in complaints if isinstance(complaint, Broken)]
    if crossing.fault is not None:
        broken.append(Broken("", crossing.fault))
    if broken:
        return _violated(rule, broken)
    skips = [complaint for complaint in complaints if isinstance(complaint, Skipped)]
    what, optional = "; ".join(skip.why for skip in skips), bool(skips) and all(skip.optional for skip in skips)
    return Finding(rule.name, rule.promise, "skipped" if skips else "ok", what=what, optional=optional)


def _violated(rule: Rule, broken: Sequence[Broken]) -> Finding:
    count, first = len(broken), {one.what: one for one in reversed(broken)}
    kinds = [one for one in broken if first[one.what] is one]
    ranked = [*kinds, *(one for one in broken if first[one.what] is not one)]
    more = tuple(f"{one.where}: {one.what}" if one.where else one.what for one in ranked[1 : 1 + SHOWN])
    what = ranked[0].what + (f" (and {count - 1} more)" if count > 1 else "")
    return Finding(rule.name, rule.promise, "violated", ranked[0].where, what, rule.remedy, count, more)


def violated(findings: Sequence[Finding]) -> list[str]:
    """Return the names of the broken rules."""
    return [finding.rule for finding in findings if finding.status == "violated"]


def untested(findings: Sequence[Finding]) -> list[str]:
    """Return the names of the rules that could not be checked, though the environment offers what they are about."""
    return [finding.rule for finding in findings if finding.status == "skipped" and not finding.optional]
