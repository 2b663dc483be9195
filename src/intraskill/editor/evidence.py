"""Evidence for a skill editor: documents and experience as the same units, with the published limits as defaults.

A document becomes its paragraphs in order; experience becomes one compact view per trajectory: what the task was, the
key steps, what the environment answered. Units are packed into batches, and one batch is what an editor reads per step.
Nothing is lost silently: what does not fit into a batch opens the next one, and what is cut inside a unit is marked.
Source: Skill-α, arXiv 2608.01678 (batches of at most 4 trajectories, 8 steps and 3,000 characters each, 8,192 tokens).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from intraskill.method.errors import ConfigError
from intraskill.method.randomness import shuffled
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.skill import Chunk

Source = Literal["document", "experience"]
Order = Literal["source", "shuffled", "reverse"]
EXECUTED = "executed"
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_HEADING = re.compile(r"^#{1,6} ")


@dataclass(frozen=True, slots=True)
class EvidenceLimits:
    """How much an editor reads at once.

    Attributes:
        batch: most units of one batch.
        steps: most steps of one trajectory's view.
        characters: most characters of one unit.
        tokens: most tokens of an editor's whole prompt.

    Raises:
        ConfigError: for a limit below 1, or fewer than 40 characters.
    """

    batch: int = 4
    steps: int = 8
    characters: int = 3000
    tokens: int = 8192

    def __post_init__(self) -> None:
        if min(self.batch, self.steps, self.tokens) < 1 or self.characters < 40:
            raise ConfigError("evidence: batch, steps and tokens must be at least 1, characters at least 40")


@dataclass(frozen=True, slots=True)
class Unit:
    """One piece of evidence.

    Attributes:
        id: where it comes from: a task, or a document and the paragraph's number.
        source: what kind it is.
        text: what the editor reads.
        anchors: ids of the queries on which an edit that answers it is tried; they come from trajectories that failed
            or succeeded in part.
        drafts: chunks that somebody wrote for it; an editor may take one as it is.
    """

    id: str
    source: Source
    text: str
    anchors: tuple[str, ...] = ()
    drafts: tuple[Chunk, ...] = ()


def document_units(name: str, text: str, limits: EvidenceLimits, *, anchors: Sequence[str] = ()) -> tuple[Unit, ...]:
    """Return a document's paragraphs in order; a heading goes with the paragraph below it.

    A code block is one paragraph. A paragraph longer than the limit is cut into several units, at sentence ends where
    there are any.

    Args:
        name: the document's name.
        text: its text.
        limits: `EvidenceLimits.characters` counts here.
        anchors: queries about this document.
    """
    pieces = [piece for part in _paragraphs(text) for piece in _pieces(part, limits.characters)]
    return tuple(
        Unit(f"{name}#{number}", "document", piece, tuple(anchors)) for number, piece in enumerate(pieces, start=1)
    )


def experience_unit(rollout: Rollout, limits: EvidenceLimits, *, drafts: Sequence[Chunk] = ()) -> Unit | None:
    """Return the compact view of a trajectory, or ``None`` for one without a reward.

    Key steps are, in this order of precedence: the last, the first, those that the environment refused, then the
    others by time; they are shown in their own order, and what is left out is counted. Only a trajectory short of
    full reward is an anchor.

    Args:
        rollout: the trajectory.
        limits: `EvidenceLimits.steps` and ``characters`` count here.
        drafts: chunks that a proposer wrote for it.
    """
    if rollout.reward is None:
        return None
    kept = key_steps(rollout.turns, limits.steps)
    lines = [f"Task: {' '.join(rollout.request.split())}"]
    for index in kept:
        turn = rollout.turns[index]
        lines.append(f"{index + 1}. {turn.page}: {' '.join(turn.action.split())} -> {turn.feedback}")
    if left := len(rollout.turns) - len(kept):
        lines.append(f"({left} more steps)")
    parts = ", ".join(f"{name} {value:g}" for name, value in sorted(rollout.parts.items()))
    lines.append(f"Reward: {rollout.reward:g}" + (f" ({parts})" if parts else ""))
    text = _fitted(lines, limits.characters)
    anchors = (rollout.task_id,) if rollout.reward < 1.0 else ()
    return Unit(rollout.task_id, "experience", text, anchors, tuple(drafts))


def spelt(turn: Turn) -> Turn:
    """Return a turn whose action is its call in two words, tool and argument; what is no call stays as written."""
    return replace(turn, action=f"{turn.tool} {turn.argument}".strip()) if turn.tool else turn


def key_steps(turns: Sequence[Turn], limit: int) -> list[int]:
    """Return the indices of at most ``limit`` key steps, in order."""
    last, refused = len(turns) - 1, [i for i, turn in enumerate(turns) if turn.feedback != EXECUTED]
    ranked = dict.fromkeys([*([last, 0] if turns else []), *refused, *range(len(turns))])
    return sorted(list(ranked)[:limit])


def arranged(units: Sequence[Unit], order: Order, seed: int) -> tuple[Unit, ...]:
    """Return units as they came, reversed, or shuffled by an address.

    Raises:
        ConfigError: for an unknown order.
    """
    if order == "source":
        return tuple(units)
    if order == "reverse":
        return tuple(reversed(units))
    if order != "shuffled":
        raise ConfigError(f"unknown evidence order {order!r}; use source, shuffled or reverse")
    by_key = {f"{number}/{unit.id}": unit for number, unit in enumerate(units)}
    return tuple(by_key[key] for key in shuffled(by_key, seed, "evidence"))


def batches(
    units: Sequence[Unit], limits: EvidenceLimits, tokens: Callable[[str], int], *, room: int | None = None
) -> tuple[tuple[Unit, ...], ...]:
    """Pack units, in order, into batches of at most ``limits.batch`` units and ``room`` tokens.

    Args:
        units: the evidence.
        limits: sizes.
        tokens: counts the tokens of a text.
        room: tokens that are left for evidence; ``None`` is `EvidenceLimits.tokens`.

    Returns:
        The batches. A unit that alone exceeds the room stands cut in a batch of its own.

    Raises:
        ConfigError: when there is no room at all.
    """
    room = limits.tokens if room is None else room
    if room < 1:
        raise ConfigError(
            f"skill, drafts and instructions take {limits.tokens - room} of editor.prompt_tokens={limits.tokens} and "
            "leave nothing for evidence; shorten the skill or raise the limit"
        )
    packed: list[list[Unit]] = []
    used = 0
    for unit in units:
        size = tokens(unit.text)
        if size > room:
            unit = _cut_to(unit, room, tokens)
            size = room
        if not packed or len(packed[-1]) >= limits.batch or used + size > room:
            packed.append([])
            used = 0
        packed[-1].append(unit)
        used += size
    return tuple(tuple(batch) for batch in packed)


def _cut_to(unit: Unit, room: int, tokens: Callable[[str], int]) -> Unit:
    """Return the unit with the longest beginning that fits, marked as cut."""
    low, high = 0, len(unit.text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(unit.text[:middle] + " […]") <= room else (low, middle - 1)
    return Unit(unit.id, unit.source, unit.text[:low] + " […]", unit.anchors, unit.drafts)


def _paragraphs(text: str) -> list[str]:
    """Split at blank lines outside code fences; a heading waits for what follows it."""
    blocks: list[list[str]] = [[]]
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        if line.strip() or fence:
            blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    joined: list[str] = []
    waiting: list[str] = []
    for block in blocks:
        if not block:
            continue
        waiting.append("\n".join(block))
        if not all(_HEADING.match(line) for line in block):
            joined.append("\n\n".join(waiting))
            waiting = []
    return joined + ["\n\n".join(waiting)] * bool(waiting)


def _pieces(paragraph: str, limit: int) -> list[str]:
    pieces = []
    while len(paragraph) > limit:
        cut = max(paragraph.rfind(mark, limit // 2, limit) for mark in (". ", "。", "! ", "? ", "\n"))
        cut = cut + 1 if cut > 0 else limit
        pieces.append(paragraph[:cut].strip())
        paragraph = paragraph[cut:].strip()
    return [piece for piece in [*pieces, paragraph] if piece]


def _fitted(lines: list[str], limit: int) -> str:
    """Join lines; past the limit the longest ones are cut in the middle until all fits."""
    while (over := len("\n".join(lines)) - limit) > 0:
        index = max(range(len(lines)), key=lambda i: len(lines[i]))
        line = lines[index]
        keep = max(len(line) - over - 5, 10)
        if keep >= len(line) - 5:
            return "\n".join(lines)[:limit]
        lines[index] = f"{line[: keep - keep // 2]} […] {line[len(line) - keep // 2 :]}"
    return "\n".join(lines)
