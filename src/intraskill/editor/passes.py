"""One pass over the evidence, no reward: the skill that an editor compiles, and what it adds on held-out queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

from intraskill.editor.assembly import EditorRun
from intraskill.editor.domain import Stream
from intraskill.editor.scoring import jobs_of
from intraskill.editor.states import Chain, begin, next_state
from intraskill.method.errors import TooFewTasksError
from intraskill.method.evidence import Order
from intraskill.method.intervals import Interval, mean_interval
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode
from intraskill.method.skill import BARE, Skill

EMPTY = Skill("")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What one pass over a stream made.

    Attributes:
        stream: its id.
        skill: z_T.
        log: one row per edit: step, evidence, answer, action, and why it was invalid.
    """

    stream: str
    skill: Skill
    log: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """A skill on a stream's probes.

    Attributes:
        stream: its id.
        before: mean score with z_0.
        after: mean score with z_T.
        chunks: how many chunks z_T has.
    """

    stream: str
    before: float
    after: float
    chunks: int


def compile_streams(run: EditorRun, streams: Sequence[Stream]) -> list[Compiled]:
    """Return the skill that the editor makes of each stream; streams advance together, one answer per edit."""
    order, seed = cast(Order, run.config.editor.order), run.config.seed
    chains = {stream.id: begin(stream, 0, order=order, seed=seed) for stream in streams}
    logs: dict[str, list[dict[str, Any]]] = {stream.id: [] for stream in streams}
    while active := [stream_id for stream_id, chain in chains.items() if chain.rest]:
        for stream_id, (chain, row) in zip(active, _advance(run, [chains[s] for s in active]), strict=True):
            chains[stream_id] = chain
            logs[stream_id].append(row)
    return [Compiled(stream.id, chains[stream.id].skill, tuple(logs[stream.id])) for stream in streams]


def _advance(run: EditorRun, chains: Sequence[Chain]) -> list[tuple[Chain, dict[str, Any]]]:
    seed, domain = run.config.seed, run.workbench.domain
    states = [next_state(chain, domain, run.limits, run.size, anchors=0, seed=seed) for chain in chains]
    episodes = [
        Episode(task, EMPTY, BARE, 0, child_seed(seed, "compile", task.id)) for task in run.environment.place(states)
    ]
    found = []
    for chain, state, rollout in zip(chains, states, run.learner.run(episodes), strict=True):
        answer = rollout.turns[0].action if rollout.turns else ""
        made = run.environment.attempt(state, answer)
        row = {
            "step": chain.step,
            "evidence": [unit.id for unit in state.units],
            "answer": answer,
            "action": made.action.name if made.action else "",
            "invalid": made.invalid,
            "message": made.message,
            "skill": made.skill.hash,
        }
        found.append((chain.after(made.skill, len(state.units)), row))
    return found


def worth(run: EditorRun, streams: Sequence[Stream], skills: Sequence[Skill]) -> list[Worth]:
    """Score z_0 and z_T of every stream on its probes; streams without a scored probe on both sides are left out."""
    repeats, seed = run.config.editor.eval_repeats, run.config.seed
    pairs = [(stream, skill) for stream, final in zip(streams, skills, strict=True) for skill in (stream.skill, final)]
    queries = {stream.id: [run.workbench.domain.query(probe) for probe in stream.probes] for stream in streams}
    batches = [jobs_of(queries[stream.id], skill, seed, repeats=repeats) for stream, skill in pairs]
    scores = iter(run.trials.scores([job for batch in batches for job in batch]))
    means = [_mean([next(scores) for _ in batch]) for batch in batches]
    return [
        Worth(stream.id, before, after, len(skill.chunks))
        for stream, skill, before, after in zip(streams, skills, means[::2], means[1::2], strict=True)
        if before is not None and after is not None
    ]


def summary(found: Sequence[Worth]) -> dict[str, Interval]:
    """Return the means over streams of ``before``, ``after`` and their difference, with 95 % intervals.

    Raises:
        TooFewTasksError: for fewer than two streams.
    """
    if len(found) < 2:
        raise TooFewTasksError(f"{len(found)} held-out streams were scored; an interval needs two or more")
    return {
        "before": mean_interval([one.before for one in found]),
        "after": mean_interval([one.after for one in found]),
        "gain": mean_interval([one.after - one.before for one in found]),
    }


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None
