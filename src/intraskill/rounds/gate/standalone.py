"""The gate alone: contributions of a skill's chunks at any checkpoint, measured anew, and what else the pairs say.

It commits nothing. It is not independent of the round's gate: same bare runs, whether reused or run anew, since they
have the round's address. Masks and masked rollouts have addresses of their own, shared by all gates alone of one seed
and round. Independence needs another seed; another policy or estimator of the same rows is a refit.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.config.config import Config, check
from intraskill.method.errors import ArtifactError, ConfigError, offenders
from intraskill.method.gate.diagnostics.remeasure import QueryCount
from intraskill.method.randomness import child_seed, content_hash
from intraskill.method.skill.skill import Skill
from intraskill.method.tasks import Task
from intraskill.rounds.earlier_rounds import gate_rewards, query_count
from intraskill.rounds.evaluate import Source, at_directory
from intraskill.rounds.gate.assess import Validation, contributions_json, slice_rows
from intraskill.rounds.gate.bare_reuse import BareRun, Wanted, dependence, take_bare_run
from intraskill.rounds.gate.findings import Findings, chunk_table, find, findings_json
from intraskill.rounds.gate.outlook import check_power
from intraskill.rounds.gate.pairs_file import read_pairs, write_pairs
from intraskill.rounds.gate.plan import GateFacts, bare_episodes, facts_json, gate_facts, with_slices, write_masks
from intraskill.rounds.gate.run import validate_skill, write_verdict
from intraskill.rounds.run import Run
from intraskill.rounds.sizes import check_gate_tasks
from intraskill.store.artifacts import CONTEXT, CONTRIBUTIONS_TABLE, GATE, MASKS, PAIRS, SLICES_TABLE
from intraskill.store.contents import StandaloneContext
from intraskill.store.run_directory import locked, make_directory


def _write_outputs(
    directory: Path,
    found: Validation,
    findings: Findings,
    *,
    tasks: Sequence[Task] | None,
    further: Mapping[str, Any] | None = None,
) -> None:
    """Write every table of a gate; equal gates give equal bytes.

    Args:
        directory: where.
        found: the gate.
        findings: from `intraskill.rounds.gate.findings.find`.
        tasks: with their public features, for ``pairs.parquet``; ``None`` writes none, as after a refit.
        further: other keys of ``gate.json``.
    """
    rows = chunk_table(found)
    content = contributions_json(found.assessment, found.pairs, list(found.excluded))
    write_verdict(directory, found.assessment, content | {"chunks": rows})
    CONTRIBUTIONS_TABLE.write(directory, _csv(rows))
    if found.assessment.slices is not None:
        SLICES_TABLE.write(directory, _csv(slice_rows(found.assessment.slices)))
    if tasks is not None:
        write_pairs(PAIRS.path(directory), found, tasks)
    GATE.write(directory, {**findings_json(found, findings), **(further or {})})


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV; numbers keep every digit, what a row lacks stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["id"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


_REFITTED = ("estimator", "policy", "top_k", "admit", "retire", "fdr", "effect")
"""Options of the section ``gate`` that a refit may set."""


def refit(path: Path, changes: Mapping[str, Any], out: Path | None = None) -> tuple[Validation, Findings, Path]:
    """Recompute everything from recorded rows and write it.

    Args:
        path: ``pairs.parquet`` of a gate.
        changes: options of the section ``gate`` by name; those of `_REFITTED` only.
        out: where to write; a directory beside ``path`` by default, named by the changes.

    Raises:
        ConfigError: for a option that the rows have already fixed, or a value that makes no sense.
        ArtifactError: when ``path`` is not the file of a gate, or ``out`` holds the results of another one.
        PairingError: when its rows are not pairs, each kind by name.
        SplitError: for a row of another split.
    """
    if fixed := sorted(set(changes) - set(_REFITTED)):
        names = [f"gate.{name}" for name in fixed]
        raise ConfigError(
            f"a refit cannot change what its rows have fixed, {offenders(names)}; it can set "
            + ", ".join(f"gate.{name}" for name in _REFITTED)
        )
    config = Config()
    for name, value in changes.items():
        setattr(config.gate, name, value)
    check(config)
    found = read_pairs(path, **changes)
    findings = find(found)
    name = f"refit-{content_hash(dict(changes))[:6]}" if changes else "refit"
    directory = out if out is not None else path.parent / name
    _refuse_another_gate(directory, path)
    make_directory(directory)
    _write_outputs(directory, found, findings, tasks=None, further={"refitted_from": str(path)})
    return found, findings, directory


def _refuse_another_gate(directory: Path, path: Path) -> None:
    """A refit replaces an earlier refit of the same rows, and nothing else."""
    another = GATE.exists(directory) and GATE.read(directory).get("refitted_from") != str(path)
    if MASKS.exists(directory) or another:
        raise ArtifactError(f"{directory} holds the results of another gate; choose another --out")


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
    facts = _facts_alone(run, source, skill)
    tasks = run.tasks("skill_validation", run.config.gate.tasks)
    check_power(run, facts, len(tasks), refuse=run.config.gate.require_power)
    fixed = [facts_json(facts), run.config.seed, [task.id for task in tasks], run.learner.conditions]
    fixed += [run.config.gate.full_arm, run.config.rollout.attempts]
    name = f"{run.learner.checkpoint[:8]}-{skill.hash[:8]}-n{len(tasks)}-{content_hash(*fixed)[:6]}"
    with locked(run.root / name):
        run, directory = at_directory(run, name)
        write_masks(directory, facts, tasks, run.learner, run.config.seed)
        wanted = Wanted(bare_episodes(run, facts, tasks), facts.round_index, run.config.seed, run.learner)
        taken, dependent, queries = _context(
            directory, source.root, wanted, facts, bare, full_arm=run.config.gate.full_arm
        )
        run.monitor.say(taken.words())
        found = validate_skill(run, directory, facts, alone=True)
        findings = find(found)
        further: dict[str, Any] = {"bare": {"source": taken.source, "refused": list(taken.refused)}}
        further |= {"dependence": dependent, "queries": queries}
        _write_outputs(directory, found, findings, tasks=tasks, further=further)
    return GateAlone(found, findings, directory, taken, dependent, queries)


def _context(
    directory: Path, root: Path | None, wanted: Wanted, facts: GateFacts, bare: Path | None, *, full_arm: bool
) -> tuple[BareRun, str, str]:
    """Look around once, before the first rollout; a resumed gate reads what was seen then."""
    if not CONTEXT.exists(directory):
        taken = take_bare_run(directory, root, wanted, bare)
        full = facts.skill.ids if full_arm and facts.skill.chunks else None
        count = (query_count(root) if root else QueryCount()).after(gate_rewards(directory, full))
        dependent = dependence(directory, root, wanted)
        queries = f"Validation split: {count.words()}."
        CONTEXT.write(directory, StandaloneContext(taken.source, taken.refused, dependent, queries))
    seen = CONTEXT.read(directory)
    return BareRun(seen.source, seen.refused), seen.dependence, seen.queries


def _facts_alone(run: Run, source: Source, skill: Skill) -> GateFacts:
    """Return the facts of the gate alone: masks of its own, the bare address of the checkpoint's round."""
    seed = child_seed(run.config.seed, "gate alone")
    number = _round_of(source)
    gate = run.config.gate
    facts = gate_facts(gate, skill, (), round_index=number, seed=seed, root=source.root, everything=True)
    return with_slices(facts, run.tasks("skill_validation", gate.tasks), gate.slices)


def _round_of(source: Source) -> int:
    """Return the round that a checkpoint belongs to; 0 for loose weights."""
    number = source.checkpoint.parent.name.removeprefix("round_")
    return int(number) if source.root is not None and number.isdigit() else 0
