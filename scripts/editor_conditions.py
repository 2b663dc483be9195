"""The conditions of `editor_experiments.py`, and one run of one condition: train, compile held-out streams, score.

A condition is one override of ``full``, or a line to hold it against that is not trained. What an override changes in
reading (batch, order, actions) holds in training and in evaluation, so every such condition has a twin: the shipped
weights, not trained further, that read in the same way. Editors are evaluated greedily, and where the worth of a skill
is known also as they are sampled in training, which is what the reward acts on.
"""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from intraskill.config.config import Config
from intraskill.config.overrides import compose
from intraskill.editor.actions import ACTIONS
from intraskill.editor.domain import KnowsWorth, Stream
from intraskill.editor.passes import compile_streams, probe_means
from intraskill.editor.setup import EditorRun, assemble_editor, editor_bench, streams_of
from intraskill.editor.tiny.traces import demonstrate, demonstrated
from intraskill.editor.training import train_editor
from intraskill.method.errors import ArtifactError, ConfigError, counted
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.randomness import content_hash
from intraskill.method.skill.skill import Skill
from intraskill.rl.start import policy_directory
from intraskill.store.provenance import plan_of
from intraskill.store.run_directory import PartialLog, file_hash, read_json, write_json, write_text

Row = dict[str, Any]
FULL = ("editor.reward=margin", "editor.anchors=4", "editor.order=source")
"""What every condition is held against: the published form with a graded reward and four anchors."""
NOT_READ = ("editor.reward", "editor.anchors")
"""Options that only training meets."""
EVIDENCE = (1, 2, 4, 8)
EPISODES = "episodes.partial.jsonl"
GREEDY = 1e-3
"""Temperature at which the likeliest token is taken; a run's own may not be 0, where nothing could be learnt."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One line of the comparison.

    Attributes:
        name: also that of its directory.
        label: the same in words.
        kind: ``no_skill``, ``z0``, ``oracle``, ``sft`` (shipped weights) or ``trained``.
        overrides: what differs from ``full``; empty for ``full`` and lines without an editor.
        twin: the condition of the same reading that is not trained; empty for one that is not trained itself.
    """

    name: str
    label: str
    kind: str
    overrides: tuple[str, ...] = ()
    twin: str = ""


LINES = (
    Condition("no_skill", "no skill", "no_skill"),
    Condition("z0", "z₀, the first skill", "z0"),
    Condition("sft", "SFT only", "sft"),
    Condition("full", "full", "trained", twin="sft"),
)
ABLATIONS = {
    "published": (
        "as published: binary reward, 1 anchor",
        ("editor.reward=binary", "editor.anchors=1"),
    ),
    "plain": ("plain verifier reward, no rollback", ("editor.reward=plain",)),
    "no_merge_prune": ("no MERGE, no PRUNE", ("editor.actions=[CREATE,UPDATE,NOOP]",)),
    "no_noop": ("no NOOP", ("editor.actions=[CREATE,UPDATE,MERGE,PRUNE]",)),
}
FURTHER = {
    **{f"evidence_{n}": (f"{counted(n, 'piece')} of evidence per edit", (f"editor.batch={n}",)) for n in EVIDENCE},
    "shuffled": ("evidence shuffled", ("editor.order=shuffled",)),
    "reverse": ("evidence reversed", ("editor.order=reverse",)),
    "binary": ("binary reward", ("editor.reward=binary",)),
    "anchors_1": ("1 anchor per edit", ("editor.anchors=1",)),
}
ORACLE = Condition("oracle", "oracle: the best edit at every step", "oracle")


def conditions(domain: str, batch: int) -> tuple[Condition, ...]:
    """Return the conditions of a domain, what is not trained first.

    Args:
        domain: ``planted`` has them all, another one the published ablations only.
        batch: ``editor.batch`` of ``full``, which needs no condition of its own.
    """
    options = ABLATIONS | (FURTHER if domain == "planted" else {})
    trained, twins = [], []
    for name, (label, overrides) in options.items():
        if overrides == (f"editor.batch={batch}",):
            continue
        twin = "sft"
        if any(not word.startswith(NOT_READ) for word in overrides):
            twin = f"sft_{name}"
            twins.append(Condition(twin, f"SFT only, {label}", "sft", overrides))
        trained.append(Condition(name, label, "trained", overrides, twin))
    found = [*LINES, *trained, *twins, ORACLE]
    return tuple(sorted(found, key=lambda one: one.kind == "trained"))


@dataclass(frozen=True, slots=True)
class Grid:
    """What all runs share.

    Attributes:
        runs: directory of the runs.
        base: overrides of ``full``; a later one of the same option wins.
        worlds: held-out streams, the first so many.
    """

    runs: Path
    base: tuple[str, ...]
    worlds: int

    def config(self, *overrides: str) -> Config:
        """Return ``full`` with further overrides; nothing is evaluated inside the training itself."""
        by_knob = {word.split("=")[0]: word for word in (*self.base, *overrides, "editor.eval_streams=0")}
        return compose(list(by_knob.values()))

    def root(self, condition: Condition, seed: int) -> Path:
        """Return where one run lives."""
        return self.runs / f"{condition.name}_{seed}"

    def rows_file(self, condition: Condition, seed: int) -> Path:
        """Return the file whose presence says that a run is finished."""
        return self.root(condition, seed) / "rows.json"

    def identity(self) -> str:
        """Return a hash of everything that the runs of one table share: plan, start weights, worlds."""
        config = self.config()
        weights = sorted(policy_directory(config.policy.path).glob("*.safetensors"))
        return content_hash(plan_of(config), [file_hash(path) for path in weights], self.worlds)


def run_one(grid: Grid, condition: Condition, seed: int, identity: str) -> float:
    """Train, unless the condition is not trained, evaluate, and write the rows; return the seconds it took.

    Raises:
        IntraSkillError: also when the directory holds rows of another grid.
    """
    began, done = time.perf_counter(), grid.rows_file(condition, seed)
    root = grid.root(condition, seed)
    root.mkdir(parents=True, exist_ok=True)
    config = grid.config(*condition.overrides, f"seed={seed}", f"run_dir={root / 'train'}")
    if condition.kind == "trained":
        assemble_editor(
            config
        ).metrics.close()  # a run takes an empty directory only, so it takes it before it is lent to
        _lend(grid.runs, root / "train")
        train_editor(config)
        _lend(root / "train", grid.runs)
    _lend(grid.runs, root)
    rows = _evaluated(config, condition, root, grid.worlds)
    _lend(root, grid.runs)
    write_json(done, {"grid": identity, "rows": rows})
    return time.perf_counter() - began


def _lend(source: Path, target: Path) -> None:
    """Copy episodes that were played as evidence to where the target has fewer: every run of a grid needs the same."""
    given, held = source / EPISODES, target / EPISODES
    if given.exists() and (not held.exists() or held.stat().st_size < given.stat().st_size):
        write_text(held, given.read_text(encoding="utf-8"))


def finished_rows(grid: Grid, condition: Condition, seed: int, identity: str) -> list[Row] | None:
    """Return the rows of a finished run, ``None`` for one that is not.

    Raises:
        ArtifactError: when they are of another grid.
    """
    path = grid.rows_file(condition, seed)
    if not path.exists():
        return None
    found = read_json(path)
    if found["grid"] != identity:
        raise ArtifactError(
            f"{path} was made with other steps, settings, weights or worlds; give the same ones, name another --runs, "
            f"or delete {grid.runs}"
        )
    rows: list[Row] = found["rows"]
    return rows


def _evaluated(config: Config, condition: Condition, root: Path, worlds: int) -> list[Row]:
    """Return one row per held-out stream."""
    run = _bench(config, condition, root, GREEDY)
    streams = streams_of(run, "held_out")[:worlds]
    if len(streams) < worlds:
        raise ConfigError(f"{worlds} held-out worlds are wanted, the domain has {len(streams)}; lower --worlds")
    made = _skills(run, condition.kind, streams, "edits")
    scores = probe_means(run, [(stream, skill) for stream, (skill, _) in zip(streams, made, strict=True)])
    values = sampled = [_value(run, stream, skill) for stream, (skill, _) in zip(streams, made, strict=True)]
    if condition.kind in ("sft", "trained") and isinstance(run.workbench.domain, KnowsWorth):
        again = _bench(config, condition, root, config.rollout.temperature)
        drawn = _skills(again, condition.kind, streams, "edits_sampled")
        sampled = [_value(again, stream, skill) for stream, (skill, _) in zip(streams, drawn, strict=True)]
    steps = config.editor.steps if condition.kind == "trained" else 0
    shared = {
        "condition": condition.name,
        "seed": config.seed,
        "evidence": config.editor.batch,
        "anchors": config.editor.anchors,
        "steps": steps,
        "answers": steps * config.grpo.groups_per_step * config.grpo.group_size,
        "worker_calls": PartialLog(root / "train" / "trials.jsonl").count(),
    }
    return [
        shared | {"world": stream.id, "value": value} | _row(run, skill, actions) | {"score": score, "sampled": worth}
        for stream, (skill, actions), value, score, worth in zip(streams, made, values, scores, sampled, strict=True)
    ]


def _bench(config: Config, condition: Condition, root: Path, temperature: float) -> EditorRun:
    """Return an editor that answers at a temperature, after its training if it had one."""
    rollout = dataclasses.replace(config.rollout, temperature=temperature)
    run = editor_bench(dataclasses.replace(config, rollout=rollout), root)
    if condition.kind == "trained":
        run.learner.load(root / "train" / "editor" / "checkpoint")
    return run


def _value(run: EditorRun, stream: Stream, skill: Skill) -> float | None:
    domain = run.workbench.domain
    return domain.value(stream.id)(skill) if isinstance(domain, KnowsWorth) else None


def _row(run: EditorRun, skill: Skill, actions: Sequence[str]) -> Row:
    """Return how long one skill is, and which actions made it."""
    return {
        "tokens": run.size.tokens(skill.to_markdown()),
        "chunks": len(skill.chunks),
        "edits": len(actions),
        **{name.lower(): actions.count(name) for name in (*ACTIONS, "INVALID")},
    }


def _skills(run: EditorRun, kind: str, streams: Sequence[Stream], log: str) -> list[tuple[Skill, list[str]]]:
    """Return each stream's skill, and the names of the actions that led to it."""
    if kind == "no_skill":
        return [(Skill(""), []) for _ in streams]
    if kind == "z0":
        return [(stream.skill, []) for stream in streams]
    if kind == "oracle":
        return [_best(run, stream) for stream in streams]
    found = compile_streams(run, streams, PartialLog(run.root / f"{log}.jsonl"))
    return [(one.skill, ["INVALID" if row["invalid"] else row["action"] for row in one.log]) for one in found]


def _best(run: EditorRun, stream: Stream) -> tuple[Skill, list[str]]:
    """Pass over a stream with the edit that raises its known worth most at every step."""
    domain, leak_filter = run.workbench.domain, LeakFilter(run.workbench.domain.secrets)
    if not isinstance(domain, KnowsWorth):
        raise ConfigError(f"the domain {domain.family} does not know what a skill is worth, so it has no oracle")
    show = partial(demonstrate, value=domain.value(stream.id), leak_filter=leak_filter, careless=0.0, seed=0)
    traces = list(demonstrated(run.begin(stream, 0), domain, run.limits, run.size, show))
    return traces[-1].skill, [trace.answer.split()[0] for trace in traces]
