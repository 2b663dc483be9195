"""Scripted-expert demonstrations for the tiny policy's warm start: a rule is followed iff its chunk is shown.

The shown chunks are drawn at random, in many phrasings, among useless and harmful rules, negated rules, shuffled
words and invented words; so the policy must read a chunk to know what to do (a first recipe without the last
three gave a keyword detector: "Do not …" worked like "Do …").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import HARMFUL, TAUGHT, USEFUL, USELESS, phrasings, titles
from intraskill.environments.shopworld.plain.expert import RuleShopper
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call
from intraskill.method.randomness import uniform
from intraskill.method.skill.skill import Chunk, Skill

_Item = TypeVar("_Item")
_GENERIC_TITLES = ("Note", "Rule", "Tip", "Step", "Advice")
_PREAMBLES = ("# Shopping skill", "# Shopping", "# How to shop")
_NEGATIONS = ("Do not", "Never", "There is no need to")
_FILLER = [
    "the",
    "a",
    "of",
    "to",
    "in",
    "and",
    "is",
    "shop",
    "page",
    "user",
    "order",
    "item",
    "price",
    "good",
    "time",
    "day",
    "people",
    "always",
    "never",
    "please",
    "when",
    "then",
    "size",
    "color",
    "search",
    "click",
    "buy",
    "query",
    "brand",
    "wanted",
    "before",
    "money",
    "profile",
    "request",
    "happy",
    "fast",
]


@dataclass(frozen=True, slots=True)
class Mix:
    """How demonstrations are drawn; the options of the recipe.

    Attributes:
        unasked_rate: probability that a useful rule is followed although no chunk asks for it. It sets the bare
            success rate, and with it whether plain GRPO can find success at all.
        bare_rate: share of demonstrations without any chunk.
        full_rate: share that shows all useful chunks.
        junk_rate: share that also shows one or two meaningless chunks.
        held_out: draw the held-out phrasings instead of the training ones (probes only).
    """

    unasked_rate: float = 0.06
    bare_rate: float = 0.15
    full_rate: float = 0.25
    junk_rate: float = 0.40
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One conversation: the skill shown, and messages in the chat template's form."""

    skill_text: str
    messages: tuple[dict[str, str], ...]
    reward: float


class Draw:
    """A short stream of addressed draws for one demonstration."""

    def __init__(self, seed: int) -> None:
        self._seed, self._count = seed, 0

    def uniform(self) -> float:
        """Return the next number in [0, 1)."""
        self._count += 1
        return uniform(self._seed, self._count)

    def pick(self, options: Sequence[str]) -> str:
        """Return one of the options."""
        return options[int(self.uniform() * len(options))]

    def shuffle(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items in a drawn order; repeats allowed."""
        return [items[i] for i in sorted(range(len(items)), key=lambda _: self.uniform())]


def demonstrate(world: ShopWorld, task_id: str, mix: Mix, seed: int) -> Demonstration:
    """Return the demonstration at this address."""
    draw = Draw(seed)
    shown = _shown_rules(mix, draw)
    skill_text = _skill_text(shown, mix, draw)
    followed = set(shown) | {rule for rule in USEFUL if draw.uniform() < mix.unasked_rate}
    session = world.open()
    opening = session.reset(task_id)
    shopper = RuleShopper(opening, followed)
    messages = [{"role": "user", "content": f"{opening.request}\n\n{opening.observation}"}]
    state = dict(opening.state)
    while True:
        call = shopper.act(state)
        text = write_call(call.name, PARAMETERS[call.name], call.argument)
        outcome = session.step(text)
        messages.append({"role": "assistant", "content": text})
        if outcome.done:
            return Demonstration(skill_text, tuple(messages), outcome.reward)
        messages.append({"role": "tool", "content": outcome.observation})
        state = dict(outcome.state)


def draw_chunk(rule: str, draw: Draw, held_out: bool = False) -> Chunk:
    """Return one phrasing of a rule under one of its titles, or under a generic title."""
    names = titles(rule) if draw.uniform() < 0.6 else _GENERIC_TITLES
    return Chunk(draw.pick(names), draw.pick(phrasings(rule)[1 if held_out else 0]))


def _junk_chunk(draw: Draw) -> Chunk:
    """Return a chunk that must change nothing: a negated or shuffled rule, or known and invented words."""
    title = draw.pick(_GENERIC_TITLES + tuple(name for rule in TAUGHT for name in titles(rule)))
    kind = draw.uniform()
    if kind < 0.55:
        rule = draw.pick(TAUGHT)
        text = draw.pick(phrasings(rule)[0])
        return Chunk(title, _negated(text, draw) if kind < 0.35 else _shuffled(text, draw))
    count = 4 + int(draw.uniform() * 6)
    words = [draw.pick(_FILLER) if draw.uniform() < 0.4 else _invented_word(draw) for _ in range(count)]
    return Chunk(title, " ".join(words).capitalize() + ".")


def negated_chunk(rule: str, draw: Draw, held_out: bool = True) -> Chunk:
    """Return a phrasing of a rule with "Do not" or its like before it."""
    return Chunk(draw.pick(titles(rule)), _negated(draw.pick(phrasings(rule)[1 if held_out else 0]), draw))


def shuffled_chunk(rule: str, draw: Draw) -> Chunk:
    """Return the words of a held-out phrasing in a drawn order."""
    return Chunk(draw.pick(titles(rule)), _shuffled(draw.pick(phrasings(rule)[1]), draw))


def _negated(text: str, draw: Draw) -> str:
    return f"{draw.pick(_NEGATIONS)} {text[0].lower()}{text[1:]}"


def _shuffled(text: str, draw: Draw) -> str:
    return " ".join(draw.shuffle(text.rstrip(".").split())).capitalize() + "."


def _invented_word(draw: Draw) -> str:
    return "".join(draw.pick("abcdefghijklmnopqrstuvwxyz") for _ in range(2 + int(draw.uniform() * 6)))


def _shown_rules(mix: Mix, draw: Draw) -> list[str]:
    mode = draw.uniform()
    if mode < mix.bare_rate:
        return []
    share = 1.0 if mode < mix.bare_rate + mix.full_rate else 0.5
    useful = [rule for rule in USEFUL if share == 1.0 or draw.uniform() < share]
    harmful = [rule for rule in HARMFUL if draw.uniform() < 0.2]
    return useful + harmful + [rule for rule in USELESS if draw.uniform() < 0.15]


def _skill_text(shown: list[str], mix: Mix, draw: Draw) -> str:
    chunks = [draw_chunk(rule, draw, mix.held_out) for rule in shown]
    if mix.bare_rate < 1.0 and draw.uniform() < mix.junk_rate:
        chunks += [_junk_chunk(draw) for _ in range(1 + int(draw.uniform() * 2))]
    preamble = draw.pick(_PREAMBLES)
    unique = {chunk.id: chunk for chunk in chunks}
    order = draw.shuffle(sorted(unique))
    return Skill(preamble, tuple(unique[chunk_id] for chunk_id in order)).render()
