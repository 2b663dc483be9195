"""The gate alone: contributions of a skill's chunks at any checkpoint, measured anew, and what else the pairs say.

It commits nothing. Its masks and masked rollouts have addresses of their own, so it is an independent measurement of
what a round's gate has measured before; the bare rollouts have the round's address and may be reused.
"""

from dataclasses import dataclass
from pathlib import Path

from intraskill.assembly import Run
from intraskill.bare_reuse import BareRun, Wanted, take_bare_run
from intraskill.earlier_rounds import query_count
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
        queries: how often gates have read the validation split of its run, this one included, in words.
    """

    validation: Validation
    findings: Findings
    directory: Path
    bare: BareRun
    queries: str


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
        taken, queries = _context(directory, source.root, wanted, facts, bare)
        run.monitor.say(taken.words())
        found = validate_skill(run, directory, facts, alone=True)
        findings = find(found)
        further = {"bare": {"source": taken.source, "refused": list(taken.refused)}, "queries": queries}
        write_outputs(directory, found, findings, tasks=tasks, further=further)
    return GateAlone(found, findings, directory, taken, queries)


def _context(
    directory: Path, root: Path | None, wanted: Wanted, facts: GateFacts, bare: Path | None
) -> tuple[BareRun, str]:
    """Look around once, before the first rollout; a resumed gate reads what was seen then."""
    path = directory / "context.json"
    if not path.exists():
        taken = take_bare_run(directory, root, wanted, bare)
        before, runs = query_count(root) if root else QueryCount(), facts.design
        tasks = {episode.task.id for episode in wanted.episodes}
        count = before.after(tasks, rollouts_per_task=runs.bare_replicates + runs.masked_replicates)
        write_json(
            path,
            {"source": taken.source, "refused": list(taken.refused), "queries": f"Validation split: {count.words()}."},
        )
    seen = read_json(path)
    return BareRun(seen["source"], tuple(seen["refused"])), seen["queries"]


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
