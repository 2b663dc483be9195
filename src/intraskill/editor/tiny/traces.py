"""Synthetic edit traces with known right answers, for the supervised warm start of an editor.

A world that knows what every skill is worth on its queries knows the best edit of a state: all valid actions on the
given drafts are tried on paper. A demonstrator that is careless now and then leaves something to be learnt by reward,
and a pass that goes astray now and then shows the states that a poor editor gets into.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from intraskill.editor.actions import ACTIONS, ActionError, ActionName, Attempt, applied, attempt, parse_action
from intraskill.editor.domain import Domain
from intraskill.editor.evidence import EvidenceLimits
from intraskill.editor.prompt import PromptSize
from intraskill.editor.states import Chain, EditState, next_state
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.randomness import uniform
from intraskill.method.skill.skill import Chunk, Skill

Value = Callable[[Skill], float]
LEAST_GAIN = 0.02
"""Expected gain below which the right edit is none: it would not repay the reading of one more chunk."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One demonstration.

    Attributes:
        state: what the editor sees.
        answer: what it should write; drafts are named, not copied.
        skill: with which the pass goes on.
        best: the best answer, which a careless demonstrator does not give.
    """

    state: EditState
    answer: str
    skill: Skill
    best: str


Show = Callable[[EditState], Trace]
Possible = Callable[[Skill, Sequence[Chunk], Sequence[ActionName]], Iterator[str]]


def possible_answers(skill: Skill, drafts: Sequence[Chunk], actions: Sequence[ActionName] = ACTIONS) -> Iterator[str]:
    """Yield every answer of the format that is about this skill and takes its text from a draft."""
    numbers = range(1, len(skill.chunks) + 1)
    texts = [f"draft {i}" for i in range(1, len(drafts) + 1)]
    if "NOOP" in actions:
        yield "NOOP"
    if "PRUNE" in actions:
        yield from (f"PRUNE {n}" for n in numbers)
    if "CREATE" in actions:
        yield from (f"CREATE\n{text}" for text in texts)
    if "UPDATE" in actions:
        yield from (f"UPDATE {n}\n{text}" for n in numbers for text in texts)
    if "MERGE" in actions:
        yield from (f"MERGE {a} {b}\n{text}" for a, b in itertools.combinations(numbers, 2) for text in texts)


def titled_alike(skill: Skill, drafts: Sequence[Chunk], actions: Sequence[ActionName] = ACTIONS) -> Iterator[str]:
    """Yield the `possible_answers` whose draft bears the title of every chunk that it replaces.

    Among the others are edits that overwrite a bad rule on one matter by a good one on another: two repairs at once,
    worth a little more on paper, and no habit to teach.
    """
    for answer in possible_answers(skill, drafts, actions):
        action = parse_action(answer, drafts=drafts, actions=actions)
        titles = {skill.chunks[number - 1].title for number in action.targets}
        if action.chunk is None or titles <= {action.chunk.title}:
            yield answer


def best_answer(
    state: EditState,
    value: Value,
    leak_filter: LeakFilter,
    actions: Sequence[ActionName] = ACTIONS,
    possible: Possible = possible_answers,
) -> tuple[str, Attempt]:
    """Return the answer that raises ``value`` most, and what it makes; NOOP when none raises it enough.

    Without NOOP there may be none at all, in a state without drafts say: the answer is then empty.

    Args:
        state: the edit state.
        value: expected score of a skill on the queries that matter.
        leak_filter: what no chunk may hold.
        actions: the actions that are allowed; without NOOP the best other one is taken, whatever it gains.
        possible: the answers to choose from.
    """
    bar = LEAST_GAIN if "NOOP" in actions else 0.0
    before = value(state.skill)
    gains: list[tuple[float, str]] = []
    for answer in possible(state.skill, state.drafts, actions):
        try:
            edit = parse_action(answer, drafts=state.drafts, actions=actions).to_edit(state.skill)
        except ActionError:
            continue
        gains.append((0.0 if edit is None else value(applied(state.skill, edit)) - before - bar, answer))
    for _, answer in sorted(gains, key=lambda pair: -pair[0]):  # stable: of equals the first
        made = attempt(answer, state.skill, leak_filter, drafts=state.drafts, actions=actions)
        if not made.invalid:
            return answer, made
    return "", Attempt(None, None, state.skill)


def any_answer(
    state: EditState, leak_filter: LeakFilter, seed: int, actions: Sequence[ActionName] = ACTIONS
) -> tuple[str, Attempt] | None:
    """Return a valid answer, every kind of action as likely as the others; ``None`` when none was found."""
    kinds: dict[str, list[str]] = {}
    for answer in possible_answers(state.skill, state.drafts, actions):
        kinds.setdefault(answer.split()[0], []).append(answer)
    for k in range(sum(map(len, kinds.values()))):
        own = kinds[list(kinds)[int(uniform(seed, "kind", state.id, k) * len(kinds))]]
        text = own[int(uniform(seed, "slip", state.id, k) * len(own))]
        made = attempt(text, state.skill, leak_filter, drafts=state.drafts, actions=actions)
        if not made.invalid:
            return text, made
    return None


def demonstrated(chain: Chain, domain: Domain, limits: EvidenceLimits, size: PromptSize, show: Show) -> Iterator[Trace]:
    """Yield one trace per step of a pass that follows its demonstrator; a step without an answer is passed over.

    Args:
        chain: the pass.
        domain: knows the queries.
        limits: sizes of the evidence.
        size: measures prompts.
        show: makes the trace of a state.
    """
    while chain.rest:
        trace = show(next_state(chain, domain, limits, size, anchors=0, seed=0))
        chain = chain.after(trace.skill, len(trace.state.units))
        if trace.answer:
            yield trace


def demonstrate(
    state: EditState,
    value: Value,
    leak_filter: LeakFilter,
    *,
    careless: float,
    seed: int,
    actions: Sequence[ActionName] = ACTIONS,
) -> Trace:
    """Return the best answer, or with probability ``careless`` any valid one.

    Args:
        state: the edit state.
        value: as `best_answer`.
        leak_filter: what no chunk may hold.
        careless: share of arbitrary answers.
        seed: address of the draws.
        actions: the actions that are allowed.
    """
    best = best_answer(state, value, leak_filter, actions)
    slip = uniform(seed, "careless", state.id) < careless
    answer, made = (any_answer(state, leak_filter, seed, actions) if slip else None) or best
    return Trace(state, answer, made.skill, best[0])
