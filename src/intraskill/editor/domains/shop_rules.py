"""First skills and drafts made of shop lessons, and what a skill of lessons is worth.

The shipped tiny policy was trained to do what a scripted shopper does that obeys the rules shown, and nothing else:
negated, shuffled, useless and unknown texts change nothing (docs/results/tiny_policy_probes.csv). So the shopper's
reward under a skill's rules says what the skill is worth to that policy.
"""

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

from intraskill.editor.domains.shop_worker import plain_shop
from intraskill.environments.shopworld.lessons import HARMFUL, TAUGHT, USEFUL, USELESS, mechanism_of
from intraskill.environments.shopworld.plain.difficulty import play
from intraskill.method.randomness import shuffled
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.recipes.demonstrations import Draw, draw_chunk, negated_chunk

PREAMBLE = "# Shopping skill"
HARMFUL_RATE, USELESS_RATE = 0.5, 0.5
_DECOYS = (("negated", 0.3), ("harmful", 0.2), ("useless", 0.2))
"""What may stand beside a true draft, and how often; the rest of the time nothing does."""


def first_skill(seed: int, held_out: bool) -> Skill:
    """Return z_0: one to three of the four useful lessons, sometimes the harmful and a useless one, in a drawn order.

    Args:
        seed: address of the draws.
        held_out: draw the held-out phrasings, which the streams to learn from never show.
    """
    draw = Draw(seed)
    useful = shuffled(USEFUL, seed, "useful")[: 1 + int(draw.uniform() * 3)]
    harmful = [rule for rule in HARMFUL if draw.uniform() < HARMFUL_RATE]
    useless = [draw.pick(USELESS)] if draw.uniform() < USELESS_RATE else []
    chunks = [draw_chunk(rule, draw, held_out) for rule in (*useful, *harmful, *useless)]
    return Skill(PREAMBLE, tuple(draw.shuffle(chunks)))


def drafts(mechanism: str, seed: int, held_out: bool) -> tuple[Chunk, ...]:
    """Return the lesson on a mechanism and often a decoy beside it, in a drawn order."""
    draw = Draw(seed)
    written = [draw_chunk(mechanism, draw, held_out)]
    level = draw.uniform()
    for kind, share in _DECOYS:
        if 0 <= level < share:
            written.append(_decoy(kind, mechanism, draw, held_out))
        level -= share
    return tuple(draw.shuffle(written))


def _decoy(kind: str, mechanism: str, draw: Draw, held_out: bool) -> Chunk:
    if kind == "negated":
        return negated_chunk(mechanism, draw, held_out)
    return draw_chunk(draw.pick(HARMFUL if kind == "harmful" else USELESS), draw, held_out)


def rules_of(skill: Skill) -> frozenset[str]:
    """Return the rules that a reader of the skill obeys: those of the catalogue whose very words stand in it."""
    return frozenset(TAUGHT) & {mechanism_of(chunk) for chunk in skill.chunks}


@lru_cache(maxsize=1024)
def shopper_reward(preset: str, world: int, tasks: Sequence[str], part: str, rules: frozenset[str]) -> float:
    """Return the mean reward of the scripted shopper that obeys some rules.

    Args:
        preset: size of the world.
        world: its seed.
        tasks: ids, a tuple.
        part: the reward component that counts.
        rules: what it obeys.
    """
    return fmean(play(plain_shop(preset, world), task, rules)[1][part] for task in tasks)
