"""One pass over the evidence, no reward: the skill that an editor compiles, and what it adds on held-out queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from intraskill.editor.actions import Attempt
from intraskill.editor.domain import Stream
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.scoring import answer_of, jobs_of
from intraskill.editor.setup import EditorRun
from intraskill.editor.states import Chain, EditState, next_state
from intraskill.method.errors import ArtifactError, EnvironmentFault, TooFewTasksError, counted, offenders
from intraskill.method.gate.bounded import bounded_interval, paired_interval
from intraskill.method.gate.intervals import Interval
from intraskill.method.randomness import child_seed, content_hash
from intraskill.method.rollouts import Episode, Rollout
from intraskill.method.skill.skill import BARE, Skill
from intraskill.rl.learner import Learner
from intraskill.store.run_directory import PartialLog

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


def compile_streams(run: EditorRun, streams: Sequence[Stream], log: PartialLog | None = None) -> list[Compiled]:
    """Return the skill that the editor makes of each stream; streams advance together, one answer per edit.

    Args:
        run: the editor.
        streams: evidence.
        log: keeps every answer, so that a killed pass goes on without asking twice.

    Raises:
        ArtifactError: when the log is of another editor or other evidence.
    """
    by = _pass_identity(run, streams)
    kept = [] if log is None else log.keep(2**62)
    if any(row["by"] != by for row in kept):
        raise ArtifactError(
            "the log of this pass is of another editor, skill or evidence; delete it or write elsewhere"
        )
    known = {(row["stream"], row["step"]): row["answer"] for row in kept}
    chains = {stream.id: run.begin(stream, 0) for stream in streams}
    rows: dict[str, list[dict[str, Any]]] = {stream.id: [] for stream in streams}
    while active := [stream_id for stream_id, chain in chains.items() if chain.rest]:
        states = [_state(run, chains[stream_id]) for stream_id in active]
        given = [known.get((stream_id, chains[stream_id].step)) for stream_id in active]
        open_ = [state for state, answer in zip(states, given, strict=True) if answer is None]
        asked = map(answer_of, answers_to(run.environment, run.learner, open_, run.config.seed, "compile"))
        fresh = []
        for stream_id, state, answer in zip(active, states, given, strict=True):
            chain, text = chains[stream_id], next(asked) if answer is None else answer
            made = run.environment.attempt(state, text)
            row = {"stream": stream_id, **_row(chain, state, text, made)}
            chains[stream_id] = chain.after(made.skill, len(state.units))
            rows[stream_id].append(row)
            fresh += [row | {"by": by}] if answer is None else []
        if log is not None and fresh:
            log.append(fresh)
    return [Compiled(stream.id, chains[stream.id].skill, tuple(rows[stream.id])) for stream in streams]


def _pass_identity(run: EditorRun, streams: Sequence[Stream]) -> str:
    """Return a hash of everything that decides what a pass answers."""
    editor, learner = run.config.editor, run.learner
    parts = [(s.id, s.skill.hash, [(u.id, u.text, [c.id for c in u.drafts]) for u in s.units]) for s in streams]
    conditions = sorted(learner.conditions.items())
    return content_hash(learner.checkpoint, conditions, repr(run.limits), editor.order, run.config.seed, repr(parts))


def _state(run: EditorRun, chain: Chain) -> EditState:
    return next_state(chain, run.workbench.domain, run.limits, run.size, anchors=0, seed=run.config.seed)


def answers_to(
    environment: EditorEnvironment, learner: Learner, states: Sequence[EditState], seed: int, stage: str
) -> tuple[Rollout, ...]:
    """Ask an editor once about every state.

    Args:
        environment: of the editor.
        learner: the editor.
        states: with ids that differ.
        seed: of the run.
        stage: with a state's id, the address of its answer's draws.

    Raises:
        EnvironmentFault: when an answer broke technically: nothing must go on as if the editor had said nothing.
    """
    tasks = environment.place(states) if states else ()
    episodes = [Episode(task, EMPTY, BARE, 0, child_seed(seed, stage, task.id)) for task in tasks]
    found = learner.run(episodes) if episodes else ()
    if faults := [rollout.fault for rollout in found if rollout.fault is not None]:
        raise EnvironmentFault(f"{counted(len(faults), 'answer')} of the editor broke, {offenders(faults)}")
    return found


def _row(chain: Chain, state: EditState, answer: str, made: Attempt) -> dict[str, Any]:
    return {
        "step": chain.step,
        "evidence": [unit.id for unit in state.units],
        "answer": answer,
        "action": made.action.name if made.action else "",
        "invalid": made.invalid,
        "message": made.message,
        "skill": made.skill.hash,
    }


def probe_means(run: EditorRun, pairs: Sequence[tuple[Stream, Skill]]) -> list[float | None]:
    """Return the worker's mean score on each stream's probes with each skill; ``None`` where no probe was scored."""
    repeats, seed = run.config.editor.eval_repeats, run.config.seed
    queries = {stream.id: [run.workbench.domain.query(probe) for probe in stream.probes] for stream, _ in pairs}
    batches = [jobs_of(queries[stream.id], skill, seed, repeats=repeats) for stream, skill in pairs]
    scores = iter(run.trials.scores([job for batch in batches for job in batch]))
    return [_mean([next(scores) for _ in batch]) for batch in batches]


def worth(run: EditorRun, streams: Sequence[Stream], skills: Sequence[Skill]) -> list[Worth]:
    """Score z_0 and z_T of every stream on its probes; streams without a scored probe on both sides are left out."""
    pairs = [(stream, skill) for stream, final in zip(streams, skills, strict=True) for skill in (stream.skill, final)]
    means = probe_means(run, pairs)
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
        raise TooFewTasksError(f"held-out streams with a score: {len(found)}; an interval needs two or more")
    before, after = [one.before for one in found], [one.after for one in found]
    return {
        "before": bounded_interval(before),
        "after": bounded_interval(after),
        "gain": paired_interval(before, after),
    }


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None
