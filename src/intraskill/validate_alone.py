"""The gate alone: contributions of a skill's chunks at any checkpoint, measured anew, and what else the pairs say.

It commits nothing. It is not independent of the round's gate: same bare runs, whether reused or run anew, since they
have the round's address. Masks and masked rollouts have addresses of their own, shared by all gates alone of one seed
and round. Independence needs another seed; another policy or estimator of the same rows is a refit.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.assembly import Run
from intraskill.bare_reuse import BareRun, Wanted, dependence, take_bare_run
from intraskill.earlier_rounds import gate_rewards, query_count
from intraskill.evaluate import Source, at_directory
from intraskill.gate_arms import bare_episodes
from intraskill.gate_facts import GateFacts, gate_facts, with_slices, write_masks
from intraskill.gate_findings import Findings, find
from intraskill.gate_outputs import write_outputs
from intraskill.gate_power import check_power
from intraskill.method.queries import QueryCount
from intraskill.method.randomness import child_seed, content_hash
from intraskill.method.skill import Skill
from intraskill.run_sizes import check_gate_tasks
from intraskill.runtime.records import to_json
from intraskill.runtime.run_directory import read_json, write_json
from intraskill.runtime.run_lock import locked
from intraskill.validation import Validation, validate_skill


@dataclass(frozen=True, eq=False)
class GateAlone:
    """A finished gate alone.

    Attributes:
        validation: what it measured.
        findings: what else its pairs say.
        directory: where everything is.
        bare: where its bare rollouts come from.
        dependence: which gates share rollouts with this one, in words.
        queries: how often gates have read the validation split of its run, this one included, in words.
    """

    validation: Validation
    findings: Findings
    directory: Path
    bare: BareRun
    dependence: str
    queries: str

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for the end of a report."""
        return self.bare.words(), self.dependence, self.queries


def validate(run: Run, source: Source, skill: Skill, *, bare: Path | None = None) -> GateAlone:
    """Run the gate alone, or what is left of it; the same gate is never run twice.

    Args:
        run: from `assembly.bench`; files go under its root.
        source: checkpoint, and the run that it is from.
        skill: its chunks are measured.
        bare: a bare run to reuse; ``None`` looks for a matching one in the run directory.

    Raises:
        IntraSkillError: with one clear sentence; what was run stays, the same command continues.
    """
    check_gate_tasks(run.config.gate, len(run.environment.tasks("skill_validation")))
    run.learner.load(source.checkpoint)
    facts = facts_alone(run, source, skill)
    tasks = run.tasks("skill_validation", run.config.gate.tasks)
    check_power(run, facts, len(tasks), refuse=run.config.gate.require_power)
    fixed = [to_json(facts), run.config.seed, [task.id for task in tasks], run.learner.conditions]
    fixed += [run.config.gate.full_arm, run.config.rollout.attempts]
    name = f"{run.learner.checkpoint[:8]}-{skill.hash[:8]}-n{len(tasks)}-{content_hash(*fixed)[:6]}"
    with locked(run.root / name):
        run, directory = at_directory(run, name)
        write_masks(directory / "masks.json", facts, tasks, run.learner, run.config.seed)
        wanted = Wanted(bare_episodes(run, facts, tasks), facts.round_index, run.config.seed, run.learner)
        taken, dependent, queries = _context(
            directory, source.root, wanted, facts, bare, full_arm=run.config.gate.full_arm
        )
        run.monitor.say(taken.words())
        found = validate_skill(run, directory, facts, alone=True)
        findings = find(found)
        further: dict[str, Any] = {"bare": {"source": taken.source, "refused": list(taken.refused)}}
        further |= {"dependence": dependent, "queries": queries}
        write_outputs(directory, found, findings, tasks=tasks, further=further)
    return GateAlone(found, findings, directory, taken, dependent, queries)


def _context(
    directory: Path, root: Path | None, wanted: Wanted, facts: GateFacts, bare: Path | None, *, full_arm: bool
) -> tuple[BareRun, str, str]:
    """Look around once, before the first rollout; a resumed gate reads what was seen then."""
    path = directory / "context.json"
    if not path.exists():
        taken = take_bare_run(directory, root, wanted, bare)
        full = facts.skill.ids if full_arm and facts.skill.chunks else None
        count = (query_count(root) if root else QueryCount()).after(gate_rewards(directory, full))
        seen: dict[str, Any] = {"source": taken.source, "refused": list(taken.refused)}
        seen |= {"dependence": dependence(directory, root, wanted), "queries": f"Validation split: {count.words()}."}
        write_json(path, seen)
    seen = read_json(path)
    return BareRun(seen["source"], tuple(seen["refused"])), seen.get("dependence", ""), seen["queries"]


def facts_alone(run: Run, source: Source, skill: Skill) -> GateFacts:
    """Return the facts of the gate alone: masks of its own, the bare address of the checkpoint's round."""
    seed = child_seed(run.config.seed, "gate alone")
    number = round_of(source)
    gate = run.config.gate
    facts = gate_facts(gate, skill, (), round_index=number, seed=seed, root=source.root, everything=True)
    return with_slices(facts, run.tasks("skill_validation", gate.tasks), gate.slices)


def round_of(source: Source) -> int:
    """Return the round that a checkpoint belongs to; 0 for loose weights."""
    number = source.checkpoint.parent.name.removeprefix("round_")
    return int(number) if source.root is not None and number.isdigit() else 0
