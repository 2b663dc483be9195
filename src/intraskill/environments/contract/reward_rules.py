"""Rules that concern what is paid, and when."""

import math

from intraskill.environments.contract.play import session_of
from intraskill.environments.contract.rule import Broken, Complaints, ContractProbe, Rule, Skipped
from intraskill.environments.protocol import Outcome
from intraskill.method.gate.pairs import MAIN_PART

REASONS = ("action_limit", "generation_length")


def _running(probe: ContractProbe) -> Complaints:
    for trace in probe.traces:
        for number, outcome in enumerate(trace.outcomes, start=1):
            where = f"task {trace.task_id}, action {number}"
            texts = [outcome.observation, outcome.feedback, outcome.tool, outcome.argument, outcome.termination]
            if not isinstance(outcome, Outcome) or not all(isinstance(text, str) for text in texts):
                yield Broken(where, "observation, feedback, tool, argument and termination are not all texts")
            elif not outcome.feedback or not isinstance(outcome.done, bool):
                yield Broken(where, f"feedback is {outcome.feedback!r} and done {outcome.done!r}")
            elif not outcome.done and (outcome.reward != 0.0 or outcome.parts or outcome.termination):
                yield Broken(where, f"pays {outcome.reward}, {dict(outcome.parts)} before the end")


def _payment(probe: ContractProbe) -> Complaints:
    names = set(probe.environment.reward_parts)
    for trace in probe.ended:
        outcome, where = trace.outcomes[-1], f"task {trace.task_id}, action {len(trace.actions)}"
        if lost := sorted(names - set(outcome.parts)):
            yield Broken(where, f"the end carries no {', '.join(lost)}")
        elif wrong := [name for name, value in outcome.parts.items() if not _finite(value)]:
            yield Broken(where, f"{wrong[0]} is {outcome.parts[wrong[0]]!r}, not a finite number")
        elif not _finite(outcome.reward) or not 0.0 <= outcome.reward <= 1.0:
            yield Broken(where, f"the reward {outcome.reward!r} is not from 0 to 1")
        elif outcome.reward != outcome.parts[MAIN_PART]:
            yield Broken(where, f"the reward is {outcome.reward}, its {MAIN_PART} is {outcome.parts[MAIN_PART]}")
        elif not outcome.termination:
            yield Broken(where, "the end has no termination")
    if not probe.ended:
        yield Skipped("no random episode came to its own end; give more tasks, or another seed")


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _terminate(probe: ContractProbe) -> Complaints:
    for task_id, reason in ((task_id, reason) for task_id in probe.task_ids[:2] for reason in REASONS):
        with session_of(probe.environment) as session:
            session.reset(task_id)
            outcome = session.terminate(reason)
        where = f"task {task_id}, terminate({reason!r})"
        zero = dict.fromkeys(probe.environment.reward_parts, 0.0)
        if not outcome.done or outcome.termination != reason:
            yield Broken(where, f"done is {outcome.done} and termination {outcome.termination!r}")
        elif outcome.reward != 0.0 or dict(outcome.parts) != zero:
            yield Broken(where, f"pays {outcome.reward}, {dict(outcome.parts)}; every component is 0")


RULES = (
    Rule(
        "running",
        "a step returns an Outcome, and a running episode pays nothing",
        "leave reward, parts and termination at their defaults until done",
        _running,
        ("opening",),
    ),
    Rule(
        "payment",
        "the end carries every reward part, all finite, and the reward, from 0 to 1, is r_strict",
        "fill parts with every name of reward_parts and set reward to parts['r_strict']",
        _payment,
        ("running",),
    ),
    Rule(
        "terminate",
        "terminate ends the episode with its reason and zero in every part",
        "return Outcome(…, done=True, reward=0.0, parts={name: 0.0 for every name}, termination=reason)",
        _terminate,
        ("opening",),
    ),
)
