"""Local edit states: the skill so far, the next evidence, and the anchors on which an edit of it is tried."""

from collections.abc import Sequence
from dataclasses import dataclass

from intraskill.editor.domain import Domain, Query, Stream
from intraskill.editor.evidence import EvidenceLimits, Order, Unit, arranged, batches
from intraskill.editor.prompt import PromptSize, user_prompt
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import shuffled
from intraskill.method.skill.skill import Chunk, Skill


@dataclass(frozen=True, slots=True)
class Chain:
    """One pass over one stream, between two edits.

    Attributes:
        id: address of the pass, such as ``train/world-3/pass-0``.
        skill: z_{t−1}.
        rest: evidence not yet read, in the order of this pass.
        step: t, from 0.
    """

    id: str
    skill: Skill
    rest: tuple[Unit, ...]
    step: int = 0

    def after(self, skill: Skill, read: int) -> "Chain":
        """Return the chain with z_t and without the ``read`` units that were just read."""
        return Chain(self.id, skill, self.rest[read:], self.step + 1)


@dataclass(frozen=True, slots=True)
class EditState:
    """What one edit decision sees, and what it is tried on: (z_{t−1}, x_t, q, V).

    Attributes:
        id: unique in a run.
        skill: z_{t−1}.
        units: x_t, cut to the prompt's size.
        anchors: queries to try an edit on; empty when the evidence names none, and then nothing can be learnt here.
    """

    id: str
    skill: Skill
    units: tuple[Unit, ...]
    anchors: tuple[Query, ...]

    @property
    def drafts(self) -> tuple[Chunk, ...]:
        """The drafts that came with the evidence, each text once, in order."""
        return drafts_of(self.units)

    @property
    def prompt(self) -> str:
        """What the editor reads."""
        return user_prompt(self.skill, self.units, self.drafts)


def begin(stream: Stream, number: int, *, order: Order, seed: int) -> Chain:
    """Return pass ``number`` over a stream, its evidence arranged."""
    return Chain(f"{stream.id}/pass-{number}", stream.skill, arranged(stream.units, order, seed))


def next_state(
    chain: Chain, domain: Domain, limits: EvidenceLimits, size: PromptSize, *, anchors: int, seed: int
) -> EditState:
    """Return what the chain's next edit sees.

    Args:
        chain: with evidence left.
        domain: knows the queries.
        limits: sizes of a batch.
        size: measures prompts.
        anchors: most queries to try an edit on, drawn by address from those that the evidence names.
        seed: of the run.

    Raises:
        ConfigError: when the skill alone fills the prompt.
    """
    units = next_units(chain, limits, size)
    named = {query_id for unit in units for query_id in unit.anchors}
    chosen = shuffled(named, seed, "anchors", chain.id, chain.step)[:anchors]
    return EditState(f"{chain.id}/step-{chain.step}", chain.skill, units, tuple(map(domain.query, chosen)))


def next_units(chain: Chain, limits: EvidenceLimits, size: PromptSize) -> tuple[Unit, ...]:
    """Return as much of the next evidence as one prompt holds, drafts included; one unit at least, cut if need be.

    Raises:
        ConfigError: when the skill, or the skill with one unit's drafts, leaves no room for evidence.
    """
    for count in range(min(limits.batch, len(chain.rest)), 0, -1):
        units = chain.rest[:count]
        if size.of(chain.skill, units, drafts_of(units)) <= limits.tokens:
            return units
    first = chain.rest[:1]
    room = limits.tokens - size.of(chain.skill, (), drafts_of(first))
    # Tokens of parts do not add up to those of the whole: what joins them costs a few more.
    for spare in (0, 1, 2, 4, 8, 16):
        units = batches(first, limits, size.tokens, room=room - spare)[0]
        if size.of(chain.skill, units, drafts_of(units)) <= limits.tokens:
            return units
    raise ConfigError(f"the skill leaves {room} tokens for evidence; shorten it or raise editor.prompt_tokens")


def drafts_of(units: Sequence[Unit]) -> tuple[Chunk, ...]:
    """Return the drafts that come with some evidence, each text once, in order."""
    return tuple({chunk.id: chunk for unit in units for chunk in unit.drafts}.values())
