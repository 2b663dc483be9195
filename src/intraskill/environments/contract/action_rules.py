"""Rules that concern how an episode begins, what an action may be, and how an episode is over."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from intraskill.environments.contract.play import PlayedEpisode, call, session_of
from intraskill.environments.contract.rule import Broken, Complaints, ContractProbe, Rule, Skipped, each
from intraskill.environments.contract.world_rules import raises
from intraskill.environments.protocol import Opening, Outcome, ToolSpec, boundary
from intraskill.environments.tool_calls import example_call, takes_text
from intraskill.method.errors import EnvironmentFault, SplitError

EXECUTED = "executed"
_NONSENSE = "no such value 7f3a"
_NESTING = 100_000
"""More brackets than any JSON reader opens."""


def _opening(probe: ContractProbe) -> Complaints:
    return each(probe.task_ids, lambda task_id: _opens(probe, task_id))


def _opens(probe: ContractProbe, task_id: str) -> Complaints:
    with session_of(probe.environment) as session:
        opening = session.reset(task_id)
    where = f"task {task_id}"
    if not isinstance(opening, Opening):
        yield Broken(where, f"reset returned {type(opening).__name__}, not Opening")
        return
    if not (isinstance(opening.instruction, str) and opening.instruction.strip()):
        yield Broken(where, f"its instruction is {opening.instruction!r}")
    if opening.persona is not None and not isinstance(opening.persona, str):
        yield Broken(where, f"its persona is {type(opening.persona).__name__}, not a text or None")
    if not isinstance(opening.observation, str) or not isinstance(opening.state, Mapping):
        yield Broken(where, "its observation is not a text or its state not a mapping")


def _single_use(probe: ContractProbe) -> Complaints:
    one, other = (probe.task_ids * 2)[:2]
    with session_of(probe.environment) as session:
        early = raises((RuntimeError,), session.step, "too early")
        if early:
            yield Broken("step before reset", f"{early} instead of raising RuntimeError")
    with session_of(probe.environment) as session:
        session.reset(one)
        answer = raises((RuntimeError,), session.reset, other)
        if answer:
            yield Broken(f"task {other} in the session of task {one}", f"{answer} instead of raising RuntimeError")


def _unknown_task(probe: ContractProbe) -> Complaints:
    with session_of(probe.environment) as session:
        answer = raises((SplitError, EnvironmentFault), session.reset, "no such task 7f3a")
    if answer:
        yield Broken("reset('no such task 7f3a')", f"{answer} instead of raising SplitError or EnvironmentFault")


def _over(probe: ContractProbe) -> Complaints:
    with session_of(probe.environment) as session:
        session.reset(probe.task_ids[0])
        session.terminate("action_limit")
        answer = raises((RuntimeError,), session.step, "once more")
        if answer:
            yield Broken("step after terminate", f"{answer} instead of raising RuntimeError")
    for trace in probe.ended[:1]:
        with session_of(probe.environment) as session:
            session.reset(trace.task_id)
            for action in trace.actions:
                session.step(action)
            answer = raises((RuntimeError,), session.step, trace.actions[-1])
        if answer:
            yield Broken(f"task {trace.task_id}, action {len(trace.actions) + 1}", f"{answer} instead of RuntimeError")


def _one_call(probe: ContractProbe) -> Complaints:
    tools = probe.environment.tools
    if not tools:
        yield Skipped("it offers no tools")
        return
    for text, expected, wrong in _malformed(tools):
        for task_id in probe.task_ids[:1]:
            with session_of(probe.environment) as session:
                session.reset(task_id)
                with boundary("raised") as crossing:
                    outcome = session.step(text)
            if crossing.fault:
                yield Broken(f"task {task_id}, {wrong}", crossing.fault)
            elif outcome.feedback != expected or outcome.done:
                yield Broken(f"task {task_id}, {wrong}", f"feedback is {outcome.feedback}, not {expected}")


def _malformed(tools: Collection[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    """Yield texts that are not one call, the feedback code of each, and what is wrong with it."""
    first = example_call(next(iter(tools)), "1")
    example = call(first.name, first.arguments)
    yield "Let me think first.", "invalid_format", "no call"
    yield example + "\n" + example, "multiple_actions_not_allowed", "two calls"
    yield example.replace("}\n</tool_call>", "\n</tool_call>"), "invalid_format", "broken JSON"
    yield call("no_such_tool", {"value": "1"}), "invalid_format", "unknown tool"
    yield call(first.name, {**first.arguments, "no_such_argument": "1"}), "invalid_format", "unknown argument"
    if '"1"' in example:
        yield example.replace('"1"', r'"1 \ud83d"'), "invalid_format", "half a character"
    yield f"<tool_call>{'[' * _NESTING}</tool_call>", "invalid_format", f"{_NESTING} opened brackets"
    for tool in tools:
        if takes_text(tool["function"]):
            blank = example_call(tool, " ")
            yield call(blank.name, blank.arguments), "empty_argument", "empty argument"


def _wrong_action(probe: ContractProbe) -> Complaints:
    yield from each(probe.traces, _stays)
    tools = probe.environment.tools
    nonsense = [example_call(tool, _NONSENSE) for tool in tools]
    texts = [call(one.name, one.arguments) for one in nonsense if _NONSENSE in one.arguments.values()]
    for task_id in probe.task_ids[:1] if tools else ():
        yield from _nonsense(probe, task_id, [*texts, *(text for text, _, _ in _malformed(tools))])


def _stays(trace: PlayedEpisode) -> Complaints:
    if trace.fault is not None:
        yield Broken(f"task {trace.task_id}, action {len(trace.actions)}", trace.fault)
    for number, outcome in enumerate(trace.outcomes, start=1):
        if outcome.feedback != EXECUTED:
            yield from _page_left(f"task {trace.task_id}, action {number}", outcome, trace.states[number - 1])


def _nonsense(probe: ContractProbe, task_id: str, texts: list[str]) -> Complaints:
    accepted, listing = [], False
    for text in texts:
        with session_of(probe.environment) as session:
            state = session.reset(task_id).state
            listing = "actions" in state
            with boundary("raised") as crossing:
                outcome = session.step(text)
        if crossing.fault and _NONSENSE in text:
            yield Broken(f"task {task_id}, {text!r}", crossing.fault)
        elif not crossing.fault and outcome.feedback == EXECUTED:
            accepted.append(text)
        elif not crossing.fault:
            yield from _page_left(f"task {task_id}, {text!r}", outcome, state)
    asked = [text for text in texts if _NONSENSE in text]
    if listing and set(asked) <= set(accepted):
        yield Broken(f"task {task_id}", "the state lists actions, yet every tool accepts a value that is not listed")


def _page_left(where: str, outcome: Outcome, before: Mapping[str, Any]) -> Complaints:
    changed = [key for key in {**before, **outcome.state} if before.get(key) != outcome.state.get(key)]
    moved = [key for key in changed if key != "last_action"]
    if moved or outcome.done:
        what = f"changes {', '.join(sorted(moved))}" if moved else "ends the episode"
        yield Broken(where, f"feedback {outcome.feedback}, yet the action {what}")


RULES = (
    Rule(
        "opening",
        "reset returns an Opening: a request, a persona or None, the first page, its state",
        "return intraskill.environments.protocol.Opening",
        _opening,
        ("members", "splits", "tools"),
    ),
    Rule(
        "single_use",
        "a session serves one episode: a step before reset and a second reset are a RuntimeError",
        "keep the task id in the session, and raise when it is missing or already there",
        _single_use,
        ("opening",),
    ),
    Rule(
        "unknown_task",
        "a task that it does not hold is refused: SplitError, or EnvironmentFault",
        "look the id up in reset and raise SplitError",
        _unknown_task,
        ("opening",),
    ),
    Rule(
        "over",
        "after the end, step is a RuntimeError",
        "remember that the episode is over, by itself or by terminate, and raise",
        _over,
        ("opening",),
    ),
    Rule(
        "one_call",
        "an action is exactly one tool call; anything else has its own feedback code and never raises",
        "inherit from intraskill.environments.tool_session.ToolSession, which reads actions by the tools' schemas",
        _one_call,
        ("opening",),
    ),
    Rule(
        "wrong_action",
        "an action that cannot be done is reported by its feedback, never raised, and leaves the page as it is",
        "return an Outcome with a feedback code, the same state apart from last_action, and done=False",
        _wrong_action,
        ("opening",),
    ),
)
