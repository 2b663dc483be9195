"""Placebo chunks: neutral text as extra columns of the gate; what they seem to contribute is the empirical null.

A placebo has the length of a real chunk and says nothing about any task: sentences about weather, stones, music. It is
shown and hidden like a chunk but is never eligible for admission. If placebos come out at +0.03, then so can noise.
"""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from intraskill.method.errors import ConfigError
from intraskill.method.gate.regression import Contributions
from intraskill.method.randomness import shuffled
from intraskill.method.skill.skill import Chunk, ChunkId, Skill

TITLES = (
    "Background",
    "Weather",
    "Stones",
    "Music",
    "Rivers",
    "Moss",
    "Trees",
    "Tides",
    "Bridges",
    "Fog",
    "Islands",
    "Valleys",
    "Clouds",
    "Gardens",
    "Birds",
    "Harbours",
)
ENGLISH = (
    "Dusk.",
    "Snow falls.",
    "Owls fly.",
    "Rain fell softly.",
    "Moss is green.",
    "Rivers follow the valley.",
    "Basalt cools into columns.",
    "Cellos sound lower than violins.",
    "Lighthouses stand on rocky capes.",
    "Paper was once made from rags.",
    "The moon has no wind at all.",
    "Old maps show monsters in the sea.",
    "Granite is harder than limestone or chalk.",
    "A pendulum swings slower when it is longer.",
    "Some ferns unroll their leaves like small spirals.",
    "In winter the lake is covered by thin ice.",
    "The old bridge has three arches of grey stone.",
    "Swallows come back to the same barn every spring.",
    "Copper roofs turn green after many years of rain.",
    "Most deserts are cold at night and warm by day.",
    "The orchestra tunes to the note of the first oboe.",
    "A river carries sand from the hills to the sea.",
    "The library keeps its oldest letters in a dark room.",
    "Bees tell one another where the clover grows by dancing.",
    "A rainbow is always opposite to the sun in the sky.",
    "The tower clock was built by two brothers from the village.",
    "Tides are higher when the moon is full or when it is new.",
    "Amber is the hardened resin of trees that grew long ago in forests.",
    "The path along the coast passes a chapel, a mill and two small harbours.",
    "Fog forms over the meadow when the air cools quickly after a warm day.",
    "Ink was mixed from soot, water and gum, and it kept its colour for centuries.",
    "Glaciers move a few centimetres a day and leave long ridges of stone behind them.",
    "The museum shows a wooden boat, a loom and a bell that was cast in the town.",
)
CHINESE = (
    "雪。",
    "下雨。",
    "天亮了。",
    "月光如水。",
    "山上有松树。",
    "河水流向大海。",
    "老钟每天响两次。",
    "冬天湖面结了薄冰。",
    "石桥有三个灰色的拱。",
    "燕子每年春天回到屋檐。",
    "花岗岩比石灰岩更加坚硬。",
    "古人用墨和宣纸书写长信。",
    "大提琴的声音比小提琴低沉。",
    "沙漠的夜晚很冷而白天很热。",
    "满月和新月的时候潮水会更高。",
    "清晨的雾气慢慢从草地上散开了。",
    "彩虹总是出现在太阳对面的天空里。",
    "图书馆把最旧的书信放在阴暗的房间。",
    "海边的小路经过一座磨坊和两个小港口。",
    "琥珀是很久以前森林里的树脂变硬而成的。",
)


_IDEOGRAPH = re.compile(r"[\u3400-\u9fff]")
_WIDE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")  # ideographs and their punctuation


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
