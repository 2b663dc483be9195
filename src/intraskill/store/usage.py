"""What an LLM has cost so far, and what came of it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from intraskill.method.errors import counted

SPENDING = ("calls", "tokens_in", "tokens_out", "cost")
"""The parts of `Usage` that a run's metrics and summary hold: equal bytes after a kill and a resume."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A snapshot of what was spent, and of what came of it.

    What was spent belongs to the cache, so it counts the answers of earlier starts of the run too. Outcomes count the
    questions of this client alone, whether their answers were paid now or before.

    Attributes:
        calls: answers paid for.
        tokens_in: tokens read, as the endpoint counts them; estimated where it does not say.
        tokens_out: tokens written.
        cost: in the unit of the prices.
        cached: questions whose answer was there already.
        outcomes: ``answered``, ``not_json``, ``wrong_shape``, ``truncated``, ``refused``, ``too_long`` per answer;
            ``unwrapped`` (a fence or a think block was taken off), ``reasked``, ``dropped``; ``estimated`` (answers
            without a token count), ``retried`` (attempts that failed and passed), ``corrupt_cache``, ``unstructured``
            (1 when the server offers no structured output).
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    cached: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.tokens_in + self.tokens_out

    @property
    def spending(self) -> dict[str, Any]:
        """What metrics and summaries hold, by the names of `SPENDING`."""
        return {name: getattr(self, name) for name in SPENDING}

    def __add__(self, other: "Usage") -> "Usage":
        """Return what both have spent together; `sum` with ``Usage()`` as its start."""
        numbers = {name: getattr(self, name) + getattr(other, name) for name in (*SPENDING, "cached")}
        outcomes = dict(sorted((Counter(self.outcomes) + Counter(other.outcomes)).items()))
        return Usage(**numbers, outcomes=outcomes)

    def words(self) -> str:
        """Return ``37 answers, 52,310 tokens read, 4,120 written, cost 0.0123``; no cost where nothing has a price."""
        spent = f"{counted(self.calls, 'answer')}, {counted(self.tokens_in, 'token')} read, {self.tokens_out:,} written"
        return f"{spent}, cost {self.cost:.4g}" if self.cost else spent

    @property
    def dropped(self) -> int:
        """Questions that ended without an answer of use."""
        return self.outcomes.get("dropped", 0)
