"""The reader of shops, whatever server or file their episodes come from; see `intraskill.environments.evidence`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from intraskill.environments.evidence import Reading
from intraskill.environments.shop_evidence.diagnosis import findings_of
from intraskill.environments.shop_evidence.habits import sightings_of
from intraskill.environments.shop_evidence.purchases import read_vocabulary
from intraskill.environments.shop_evidence.states import read_states
from intraskill.environments.shopworld.lessons import MECHANISMS, lesson_chunk, mechanism_of
from intraskill.method.leakage.text import is_han
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import Chunk

_HAN_SHARE = 0.2
"""Share of Han letters in the requests from which the pages count as Chinese."""


@dataclass(frozen=True, slots=True)
class ShopReader:
    """An `intraskill.environments.evidence.Reader`.

    Attributes:
        language: of the shop's pages; ``plain`` has lessons of its own, other pages say their language themselves.
    """

    language: str = "en"

    def read(self, rollouts: Sequence[Rollout]) -> tuple[Reading | None, ...]:
        """Return what each episode shows; ``None`` for one with a page that cannot be read."""
        stated = [read_states(rollout) for rollout in rollouts]
        seen = [
            None
            if states is None
            else replace(
                one, turns=tuple(replace(turn, state=state) for turn, state in zip(one.turns, states, strict=True))
            )
            for one, states in zip(rollouts, stated, strict=True)
        ]
        vocabulary = read_vocabulary(one for one in seen if one is not None)
        return tuple(
            None if one is None else Reading(findings_of(one, vocabulary), tuple(sightings_of(one, vocabulary)))
            for one in seen
        )

    def lessons(self, mechanism: str, rollouts: Sequence[Rollout]) -> tuple[Chunk, ...]:
        """Return two wordings in the language of the requests."""
        if mechanism not in MECHANISMS:
            return ()
        letters = [letter for one in rollouts for letter in one.request if letter.isalpha()]
        han = sum(map(is_han, letters)) >= _HAN_SHARE * len(letters) > 0
        language = "zh" if han else "plain" if self.language == "plain" else "en"
        return tuple(lesson_chunk(mechanism, variant, language) for variant in (0, 1))

    def mechanism_of(self, chunk: Chunk) -> str | None:
        """Return the mechanism whose catalogue holds this chunk's body."""
        return mechanism_of(chunk)
