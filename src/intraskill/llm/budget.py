"""What an LLM may cost and what it has cost: limits, a snapshot of the use, and the meter that stops at a limit."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from intraskill.config.proposing import ProposerConfig
from intraskill.llm.cache import Completion
from intraskill.method.errors import ConfigError, IntraSkillError, counted
from intraskill.store.usage import Usage

_MILLION = 1_000_000


class BudgetError(IntraSkillError, RuntimeError):
    """A limit of calls, tokens or money is reached; the run stops and goes on when the limit is raised."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may spend on an endpoint; ``None`` is no limit.

    Attributes:
        max_calls: answers of the endpoint.
        max_tokens: tokens read and written, together.
        max_cost: money, in the unit of the prices.
        price_in: price of a million tokens read.
        price_out: price of a million tokens written.
        section: dotted name of the configuration that sets them, which messages name.

    Raises:
        ConfigError: for a cost limit without prices, which would never be reached.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    section: str = "proposer"

    def __post_init__(self) -> None:
        if self.max_cost is not None and not (self.price_in or self.price_out):
            raise ConfigError(
                f"a cost limit of {self.max_cost:g} without prices is never reached; set {self.section}.price_in and "
                f"{self.section}.price_out, per million tokens"
            )

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the price of so many tokens."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / _MILLION


def limits_of(settings: ProposerConfig, section: str = "proposer") -> Limits:
    """Return the limits that a section of a configuration sets; 0 there is no limit.

    Raises:
        ConfigError: for a cost limit without prices.
    """
    tokens, cost = settings.budget_tokens or None, settings.budget_cost or None
    return Limits(None, tokens, cost, settings.price_in, settings.price_out, section)


class Meter:
    """Counts what is spent, and lets nothing be asked beyond the limits; safe among threads.

    A limit of calls is exact. Tokens are known only once an answer is there, so a limit of tokens or of cost may be
    passed by the answers that were under way when it was reached.

    Attributes:
        limits: of the endpoint.
        watch: called by `tell`; may be set later.
    """

    def __init__(self, limits: Limits, watch: Callable[[Usage], None] | None = None) -> None:
        self.limits = limits
        self.watch = watch
        self._lock, self._watching = threading.Lock(), threading.Lock()
        self._calls = self._tokens_in = self._tokens_out = self._cached = self._under_way = 0
        self._outcomes: Counter[str] = Counter()

    @property
    def usage(self) -> Usage:
        """What was spent until now."""
        with self._lock:
            spent = self._tokens_in, self._tokens_out
            outcomes = dict(sorted(self._outcomes.items()))
            return Usage(self._calls, *spent, self.limits.cost(*spent), self._cached, outcomes)

    def count(self, outcome: str) -> None:
        """Count an outcome."""
        with self._lock:
            self._outcomes[outcome] += 1

    def found(self) -> None:
        """Count a question whose answer was there already."""
        with self._lock:
            self._cached += 1

    def begin(self) -> None:
        """Reserve one call; `end` must follow.

        Raises:
            BudgetError: when a limit is reached.
        """
        usage = self.usage
        with self._lock:
            reached = self._reached(usage)
            self._under_way += not reached
        if reached:
            raise BudgetError(
                f"the budget is used up: {reached}. Paid and kept: {counted(usage.calls, 'answer')}, "
                f"{counted(usage.tokens, 'token')}, cost {usage.cost:.4g}; raise the limit and run the "
                "same command again, no answer is paid twice"
            )

    def end(self, answer: Completion | None) -> None:
        """Count what a begun call gave; ``None`` when it failed."""
        with self._lock:
            self._under_way -= 1
            if answer is not None:
                self._pay(answer)

    def earlier(self, answer: Completion) -> None:
        """Count an answer that an earlier start of the run has paid."""
        with self._lock:
            self._pay(answer)

    def tell(self) -> None:
        """Tell the watcher, one thread at a time."""
        if self.watch is not None:
            with self._watching:
                self.watch(self.usage)

    def _pay(self, answer: Completion) -> None:
        self._calls += 1
        self._tokens_in += answer.tokens_in
        self._tokens_out += answer.tokens_out

    def _reached(self, usage: Usage) -> str:
        limits = self.limits
        if limits.max_calls is not None and self._calls + self._under_way >= limits.max_calls:
            return f"{limits.max_calls} calls are allowed, {self._calls} are made and {self._under_way} under way"
        if limits.max_tokens is not None and usage.tokens >= limits.max_tokens:
            return f"{limits.section}.budget_tokens={limits.max_tokens} and {usage.tokens} tokens are spent"
        if limits.max_cost is not None and usage.cost >= limits.max_cost:
            return f"{limits.section}.budget_cost={limits.max_cost:g} and {usage.cost:.4g} are spent"
        return ""
