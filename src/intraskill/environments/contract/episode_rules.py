"""Rules that concern an episode that runs: what is shown, what is paid and when, and that it plays the same again.

States are JSON, and neither states nor texts hold an answer. The same actions lead to the same pages and rewards,
whoever plays beside.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

from intraskill.environments.contract.action_rules import EXECUTED
from intraskill.environments.contract.play import PlayedEpisode, difference, listed_actions, replay, session_of, step
from intraskill.environments.contract.rule import Broken, Complaints, ContractProbe, Rule, Skipped, each
from intraskill.environments.contract.solutions import Solution
from intraskill.environments.leaks import ProductIds, leaks
from intraskill.environments.persona import without_identifiers
from intraskill.environments.protocol import boundary, offered, payment_of, slots_of
from intraskill.environments.shopworld.search import tokenize
from intraskill.environments.shopworld.world import Shop
from intraskill.method.errors import counted, offenders
from intraskill.method.rewards import Payment, success_of
from intraskill.method.tasks import OPENED, SPLITS

_SHORT_TITLE = 2
"""Words (or Han bigrams) of a title that is no secret."""
REASONS = ("action_limit", "generation_length")
THREADS = 8
_AS_WRITTEN = 1e-6
"""What a reward in a file may be off: people round."""


def _json_state(probe: ContractProbe) -> Complaints:
    return each(probe.shown, _json_states)


def _json_states(trace: PlayedEpisode) -> Complaints:
    for number, state in enumerate(trace.states):
        with boundary("not JSON") as crossing:
            same = json.loads(json.dumps(state, allow_nan=False)) == state
        if crossing.fault or not same:
            what = crossing.fault or "reads back from JSON as something else (a tuple, or a key not text)"
            yield Broken(f"task {trace.task_id}, state after action {number}", what)


def _private_state(probe: ContractProbe) -> Complaints:
    return each(probe.shown, _private_states)


def _private_states(trace: PlayedEpisode) -> Complaints:
    for number, state in enumerate(trace.states):
        for leak in leaks(state):
            yield Broken(f"task {trace.task_id}, state after action {number}", f"holds {leak}")


def _private_text(probe: ContractProbe) -> Complaints:
    return each(probe.shown, lambda trace: _private_texts(trace, _hidden(probe, trace.task_id)))


def _private_texts(trace: PlayedEpisode, hidden: Sequence[str]) -> Complaints:
    opening = {"instruction": trace.opening.instruction, "persona": trace.opening.persona}
    pages = [trace.opening.observation, *(outcome.observation for outcome in trace.outcomes)]
    shown: list[Any] = [opening, *pages]
    for number, text in enumerate(shown):
        state = trace.states[max(0, number - 1)]
        secrets = [secret for secret in hidden if number == 0 or not _named(secret, state)]
        where = "request" if number == 0 else f"page after action {number - 1}"
        for leak in leaks(text, secrets, trace.actions[: max(0, number - 1)]):
            yield Broken(f"task {trace.task_id}, {where}", f"shows {leak}")


def _hidden(probe: ContractProbe, task_id: str) -> list[str]:
    """Return what no text of a task may show; only a shop of this process says what that is.

    The gold product's id and title, before a page lists them, and the full instruction behind a short request. A title
    of a word or two is no secret: it is what everybody calls such a product.
    """
    if not isinstance(probe.environment, Shop):
        return []
    task = probe.environment.shop_task(task_id)
    title = [task.goal.title] if len(tokenize(task.goal.title)) > _SHORT_TITLE else []
    return [task.goal.product_id, *title, *([] if task.instruction in task.request else [task.instruction])]


def _named(secret: str, state: Mapping[str, Any]) -> bool:
    """The public state itself offers the secret: it was found by searching."""
    listed = [*state.get("products", ()), state.get("product", {})]
    return secret in listed_actions(state) or any(
        secret == row.get("id") or secret in row.get("title", "") for row in listed
    )


def _unnamed(probe: ContractProbe) -> Complaints:
    ids, named, marked, count = ProductIds(_product_ids(probe)), list[str](), list[str](), 0
    for task_id, request, persona in _requests(probe):
        count += 1
        if ids.within(f"{request}\n{persona or ''}"):
            named.append(task_id)
        if without_identifiers(persona)[1]:
            marked.append(task_id)
    problems = (("show a product id", named), ("have a persona with an identifier field", marked))
    if told := [f"{what}, {offenders(task_ids)}" for what, task_ids in problems if task_ids]:
        yield Broken(f"of all {count} tasks", "; ".join(told))


def _requests(probe: ContractProbe) -> Iterator[tuple[str, str, str | None]]:
    """Yield id, request and persona of every task; a shop's are read in all splits, and nothing is scored or played."""
    environment = probe.environment
    if isinstance(environment, Shop):
        tasks = [environment.shop_task(task.id) for split in SPLITS for task in environment.tasks(split)]
        yield from ((task.id, task.request, task.persona) for task in tasks)
        return
    for task in (task for split in OPENED for task in environment.tasks(split)):
        with session_of(environment) as session:
            opening = session.reset(task.id)
        yield task.id, opening.instruction, opening.persona


def _product_ids(probe: ContractProbe) -> Iterator[str]:
    """Yield what the environment calls product ids, and what became a button on the pages of results that were seen."""
    if (secrets := offered(probe.environment, "secrets")) is not None:
        yield from secrets.product_ids
    for state in (state for trace in probe.traces for state in trace.states):
        if state.get("page_type") == "search_results":
            yield from listed_actions(state)


def _running(probe: ContractProbe) -> Complaints:
    return each(probe.shown, _runs)


def _runs(trace: PlayedEpisode) -> Complaints:
    for number, outcome in enumerate(trace.outcomes, start=1):
        where = f"task {trace.task_id}, action {number}"
        texts = [outcome.observation, outcome.feedback, outcome.tool, outcome.argument, outcome.termination]
        if not all(isinstance(text, str) for text in texts):
            yield Broken(where, "observation, feedback, tool, argument and termination are not all texts")
        if not outcome.feedback or not isinstance(outcome.done, bool):
            yield Broken(where, f"feedback is {outcome.feedback!r} and done {outcome.done!r}")
        if not outcome.done and (outcome.reward != 0.0 or outcome.parts or outcome.termination):
            yield Broken(where, f"pays {outcome.reward}, {dict(outcome.parts)} before the end")


def _payment(probe: ContractProbe) -> Complaints:
    payment = payment_of(probe.environment)
    yield from each(probe.ended, lambda trace: _paid(trace, payment))
    for solution, trace in probe.solved:
        yield from each([trace], partial(_solves, probe, payment, solution))
    if not probe.ended and not probe.solved:
        yield Skipped(
            "no random episode came to its own end, and nothing says how one does: give the environment a method "
            "solution(task_id), or --actions a file of actions, or --tasks a larger number"
        )


def _paid(trace: PlayedEpisode, payment: Payment) -> Complaints:
    outcome, where = trace.outcomes[-1], f"task {trace.task_id}, action {len(trace.actions)}"
    try:
        payment.sound(outcome.reward, outcome.parts)
    except (TypeError, ValueError) as error:
        yield Broken(where, str(error))
    if not outcome.termination:
        yield Broken(where, "the end has no termination")


def _solves(probe: ContractProbe, payment: Payment, solution: Solution, trace: PlayedEpisode) -> Complaints:
    """Complain of actions that do not end the episode, pay something else than they say, or play another way again."""
    where = f"task {trace.task_id}, {solution.source}"
    if trace.fault is not None:
        yield Broken(where, f"action {len(trace.actions)} of {len(solution.actions)}: {trace.fault}")
        return
    if not trace.done:
        yield Broken(where, f"its {counted(len(trace.actions), 'action')} do not end the episode: {_feedbacks(trace)}")
        return
    yield from _paid(trace, payment)
    yield from _parted(trace, replay(probe.environment, trace))
    with boundary("payment") as unsound:
        reward, parts = payment.sound(trace.outcomes[-1].reward, trace.outcomes[-1].parts)
    if unsound.fault is not None:
        return
    if solution.reward is None and success_of(parts, reward) < 1.0:
        yield Broken(where, f"pays {reward:g}, which is no full success")
    elif solution.reward is not None and not math.isclose(reward, solution.reward, abs_tol=_AS_WRITTEN):
        yield Broken(where, f"pays {reward:g}, and {solution.reward:g} is due")


def _feedbacks(trace: PlayedEpisode) -> str:
    wrong = [f"action {i} {one.feedback}" for i, one in enumerate(trace.outcomes, 1) if one.feedback != EXECUTED]
    return f"not executed are {offenders(wrong)}" if wrong else "every one was executed"


def _terminate(probe: ContractProbe) -> Complaints:
    return each(probe.task_ids[:2], lambda task_id: _terminates(probe, task_id))


def _terminates(probe: ContractProbe, task_id: str) -> Complaints:
    zero = dict.fromkeys(probe.environment.reward_parts, 0.0)
    for reason in REASONS:
        with session_of(probe.environment) as session:
            session.reset(task_id)
            outcome = session.terminate(reason)
        where = f"task {task_id}, terminate({reason!r})"
        if not outcome.done or outcome.termination != reason:
            yield Broken(where, f"done is {outcome.done} and termination {outcome.termination!r}")
        if outcome.reward != 0.0 or dict(outcome.parts) != zero:
            yield Broken(where, f"pays {outcome.reward}, {dict(outcome.parts)}; every component is 0")


def _same_reset(probe: ContractProbe) -> Complaints:
    return each(probe.task_ids, lambda task_id: _opens_alike(probe, task_id))


def _opens_alike(probe: ContractProbe, task_id: str) -> Complaints:
    with session_of(probe.environment) as session:
        one = PlayedEpisode(task_id, session.reset(task_id))
    with session_of(probe.environment) as session:
        yield from _parted(one, PlayedEpisode(task_id, session.reset(task_id)))


def _same_steps(probe: ContractProbe) -> Complaints:
    return each(probe.traces, lambda trace: _parted(trace, replay(probe.environment, trace)))


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
    return Skipped(f"it takes {needed} episodes at once, and env.options.slots={slots} is the most", optional=True)


def _snapshot(probe: ContractProbe) -> Complaints:
    with session_of(probe.environment) as session:
        offered = [hasattr(session, name) for name in ("snapshot", "restore")]
    if not any(offered):
        yield Skipped("it offers no snapshot and restore", optional=True)
        return
    yield from each(probe.traces, lambda trace: _restores(probe, trace))


def _restores(probe: ContractProbe, trace: PlayedEpisode) -> Complaints:
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
        "json_state",
        "a public state is plain JSON and reads back as itself",
        "use dicts with text keys, lists, texts, finite numbers, booleans and None",
        _json_state,
        ("opening",),
    ),
    Rule(
        "private_state",
        "no public state has a key of an answer: goal, target, reward, …",
        "keep answers in the session, outside the state",
        _private_state,
        ("opening",),
    ),
    Rule(
        "private_text",
        "no request and no page names a private field; a shop's never give its wanted product or full instruction away",
        "render pages from the public state only",
        _private_text,
        ("opening", "private_state"),
    ),
    Rule(
        "unnamed",
        "no request and no persona, of all tasks, shows a product id or has an identifier field",
        "drop identifier fields such as 用户ID from personas, and tasks whose request names what is wanted by its id",
        _unnamed,
        ("opening", "private_text"),
    ),
    Rule(
        "running",
        "a step returns an Outcome, and a running episode pays nothing",
        "leave reward, parts and termination at their defaults until done",
        _running,
        ("opening",),
    ),
    Rule(
        "payment",
        "the end carries every reward part, all in the reward range; the reward is r_strict, and solutions succeed",
        "fill parts with every name of reward_parts, set reward to parts['r_strict'], and state a reward_range that "
        "holds both",
        _payment,
        ("opening",),
    ),
    Rule(
        "terminate",
        "terminate ends the episode with its reason and zero in every part",
        "return Outcome(…, done=True, reward=0.0, parts={name: 0.0 for every name}, termination=reason)",
        _terminate,
        ("opening",),
    ),
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
