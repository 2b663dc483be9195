"""Placebo chunks: neutral text as extra columns of the gate; what they seem to contribute is the empirical null.

A placebo has the length of a real chunk and says nothing about any task: sentences about weather, stones, music. It is
shown and hidden like a chunk but is never eligible for admission. If placebos come out at +0.03, then so can noise.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from intraskill.method.attribution import Contributions
from intraskill.method.errors import ConfigError
from intraskill.method.placebo_texts import CHINESE, ENGLISH, TITLES
from intraskill.method.randomness import shuffled
from intraskill.method.skill import Chunk, ChunkId, Skill

_IDEOGRAPH = re.compile(r"[\u3400-\u9fff]")
_WIDE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")  # ideographs and their punctuation
_SENTENCES = frozenset(ENGLISH) | frozenset(CHINESE)


@dataclass(frozen=True, slots=True)
class EmpiricalNull:
    """What chunks that cannot help seemed to contribute.

    Attributes:
        mean: of their β̂, reward units; far from 0 it says that showing any text matters.
        spread: √ mean square of their β̂ about 0, to be compared with `expected`.
        expected: √ mean square of their standard errors: what `spread` would be if any text did nothing.
        largest: the largest β̂ of a placebo.
        count: number of placebos.
    """

    mean: float
    spread: float
    expected: float
    largest: float
    count: int


def placebo_chunks(skill: Skill, count: int, seed: int) -> tuple[Chunk, ...]:
    """Make neutral chunks, each as long as some chunk of ``skill``, body for body.

    Args:
        skill: the pool whose lengths and language they take; they go in the order of shuffled chunks, again and again.
        count: how many.
        seed: of the choice of sentences; equal arguments give equal chunks.

    Raises:
        ConfigError: for a negative count, more placebos than titles, or a skill without chunks.
    """
    if not 0 <= count <= len(TITLES):
        raise ConfigError(f"the number of placebos lies between 0 and {len(TITLES)}, got {count}")
    if count and not skill.chunks:
        raise ConfigError("a skill without chunks gives a placebo no length to take; use 0 placebos")
    bodies = {chunk.id: chunk.body for chunk in skill.chunks}
    order = shuffled(bodies, seed, "placebo lengths")
    return tuple(
        Chunk(TITLES[number], _neutral(bodies[order[number % len(order)]], seed, number)) for number in range(count)
    )


def with_placebos(pool_skill: Skill, placebos: Collection[Chunk]) -> Skill:
    """Return the pool with placebos at its end; they are slots of their own."""
    return Skill(pool_skill.preamble, (*pool_skill.chunks, *placebos))


def is_placebo(chunk: Chunk) -> bool:
    """Whether a chunk is made of nothing but neutral sentences; it needs no mark beside its text."""
    return chunk.title in TITLES and bool(chunk.body) and all(line in _SENTENCES for line in chunk.body.split("\n"))


def placebo_ids(skill: Skill) -> frozenset[ChunkId]:
    """Return the ids of a pool's placebos: never eligible for admission."""
    return frozenset(chunk.id for chunk in skill.chunks if is_placebo(chunk))


def empirical_null(contributions: Contributions, placebos: Collection[ChunkId]) -> EmpiricalNull | None:
    """Summarise what placebos seemed to contribute; ``None`` without any."""
    found = [
        (float(beta), float(se))
        for chunk_id, beta, se in zip(contributions.chunk_ids, contributions.beta_J, contributions.se_J, strict=True)
        if chunk_id in placebos
    ]
    if not found:
        return None
    betas = [beta for beta, _ in found]
    return EmpiricalNull(
        mean=math.fsum(betas) / len(betas),
        spread=math.sqrt(math.fsum(beta * beta for beta in betas) / len(betas)),
        expected=math.sqrt(math.fsum(se * se for _, se in found) / len(betas)),
        largest=max(betas),
        count=len(betas),
    )


def length(text: str) -> int:
    """Return the number of words between blanks; every ideograph is one, its punctuation none."""
    return len(_IDEOGRAPH.findall(text)) + len(_WIDE.sub(" ", text).split())


def _neutral(body: str, seed: int, number: int) -> str:
    """Return neutral sentences of the same length as ``body``, one a line, in its language."""
    bank = CHINESE if 2 * len(_IDEOGRAPH.findall(body)) > length(body) else ENGLISH
    left, lines = max(1, length(body)), list[str]()
    for lap in range(1 + left):
        for sentence in shuffled(bank, seed, "placebo", number, lap):
            if length(sentence) <= left:
                lines.append(sentence)
                left -= length(sentence)
        if not left:
            break
    return "\n".join(lines)
