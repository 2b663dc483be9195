"""Rules that concern sameness: the same actions lead to the same pages and rewards, whoever plays beside."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from intraskill.environments.contract.play import PlayedEpisode, difference, replay, session_of, step
from intraskill.environments.contract.rule import Broken, Complaints, ContractProbe, Rule, Skipped
from intraskill.environments.protocol import slots_of

THREADS = 8


def _same_reset(probe: ContractProbe) -> Complaints:
    for task_id in probe.task_ids:
        with session_of(probe.environment) as session:
            one = PlayedEpisode(task_id, session.reset(task_id))
        with session_of(probe.environment) as session:
            yield from _parted(one, PlayedEpisode(task_id, session.reset(task_id)))


def _same_steps(probe: ContractProbe) -> Complaints:
    for trace in probe.traces:
        yield from _parted(trace, replay(probe.environment, trace))


def _interleaved(probe: ContractProbe) -> Complaints:
    """Play traces at once, one action each in turn, then compare each with itself played alone."""
    if (short := _short_of(probe, 2)) is not None:
        yield short
        return
    traces = probe.traces[: slots_of(probe.environment)]
    with ExitStack() as stack:
        sessions = [stack.enter_context(session_of(probe.environment)) for _ in traces]
        played = [PlayedEpisode(t.task_id, s.reset(t.task_id)) for t, s in zip(traces, sessions, strict=True)]
        for turn in range(max((len(trace.actions) for trace in traces), default=0)):
            for row, trace in enumerate(traces):
                if turn < len(trace.actions) and played[row].fault is None:
                    played[row] = step(sessions[row], played[row], trace.actions[turn])
    for trace, again in zip(traces, played, strict=True):
        yield from _parted(trace, again)


def _threads(probe: ContractProbe) -> Complaints:
    if (short := _short_of(probe, THREADS)) is not None:
        yield short
        return
    rows = [probe.traces[number % len(probe.traces)] for number in range(max(THREADS, len(probe.traces)))]
    with ThreadPoolExecutor(THREADS) as pool:
        played = list(pool.map(lambda trace: replay(probe.environment, trace), rows))
    for trace, again in zip(rows, played, strict=True):
        yield from _parted(trace, again)


def _short_of(probe: ContractProbe, needed: int) -> Skipped | None:
    """Say why nothing can be played side by side: an environment may hold few episodes at once."""
    slots = slots_of(probe.environment)
    if slots is None or slots >= needed:
        return None
    return Skipped(f"it takes {needed} episodes at once, and env.options.slots={slots}")


def _snapshot(probe: ContractProbe) -> Complaints:
    with session_of(probe.environment) as session:
        offered = [hasattr(session, name) for name in ("snapshot", "restore")]
    if not any(offered):
        yield Skipped("it offers no snapshot and restore")
        return
    for trace in probe.traces:
        half = len(trace.actions) // 2
        with session_of(probe.environment) as session:
            first = PlayedEpisode(trace.task_id, session.reset(trace.task_id))
            for action in trace.actions[:half]:
                first = step(session, first, action)
            kept = session.snapshot()  # type: ignore[attr-defined]
            second = first
            for action in trace.actions[half:]:
                first = step(session, first, action)
            session.restore(kept)  # type: ignore[attr-defined]
            for action in trace.actions[half:]:
                second = step(session, second, action)
        yield from _parted(first, second)


def _parted(one: PlayedEpisode, other: PlayedEpisode) -> Complaints:
    found = difference(one, other)
    if found:
        where, _, what = found.partition(": ")
        yield Broken(where, what)


RULES = (
    Rule(
        "same_reset",
        "a task always opens the same way",
        "draw nothing in reset; make tasks from the seed when the environment is built",
        _same_reset,
        ("opening",),
    ),
    Rule(
        "same_steps",
        "the same actions lead to the same pages, states and rewards",
        "no random generator, clock or set order in step: state is a function of task and actions",
        _same_steps,
        ("opening", "same_reset"),
    ),
    Rule(
        "interleaved",
        "sessions that are played in turns do not touch each other",
        "keep what an episode changes in its session, not in the environment or a class",
        _interleaved,
        ("same_steps",),
    ),
    Rule(
        "threads",
        "eight threads that play at once see what one sees",
        "share only what never changes, or guard it with a lock",
        _threads,
        ("same_steps", "interleaved"),
    ),
    Rule(
        "snapshot",
        "where snapshot and restore are offered, what follows a restore is what followed the snapshot",
        "keep everything that an episode changes in the snapshot, as an immutable value",
        _snapshot,
        ("same_steps",),
    ),
)
