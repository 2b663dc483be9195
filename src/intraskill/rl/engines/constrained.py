"""Constrained decoding: only tool calls that the page admits can be sampled, and log-probabilities account for it.

What a turn admits is a function of the public state before it, and which tokens may follow a function of that and of
the action's tokens so far. So the trainer rebuilds the very sets that sampling drew from, and a rollout stores no mask.

A set of tokens is packed: bit k of byte b, lowest first, stands for token 8 b + k.

Shape letters: n tokens, V vocabulary, W bytes of a packed set.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import torch

from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, offenders
from intraskill.method.rollouts import Rollout

_QUERY_CHARACTERS = 60
"""Longest free text, 15 to 60 tokens; an action that still meets ``max_new_tokens`` ends its episode, as ever."""
_KEPT_BYTES = 2**26
_HOLE = "FREE-TEXT-6172"
_PROBE = write_call("click", "value", "color=red 12")


class Constraint:
    """Which tokens may come next in an action.

    Args:
        tokenizer: of the policy; byte-level.
        vocabulary: rows of the policy's head, V.
        stop_id: the token that ends an action.

    Raises:
        ConfigError: if llguidance is missing, or the tokenizer rewrites text, so that its tokens do not spell it.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, stop_id: int) -> None:
        try:
            from llguidance.hf import from_tokenizer
        except ImportError as error:
            raise ConfigError(
                f"rollout.constrained needs the package llguidance ({error}); install it: "
                "pip install --no-deps llguidance, or set rollout.constrained=false"
            ) from error
        self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=stop_id)
        spelled = self._tokens.decode_str(tokenizer.encode(_PROBE, add_special_tokens=False))
        if spelled != _PROBE:
            raise ConfigError(
                f"rollout.constrained needs a byte-level tokenizer, but this one spells {_PROBE!r} as {spelled!r}; "
                "set rollout.constrained=false"
            )
        self.vocabulary, self.stop_id = vocabulary, stop_id
        self._known: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._lock = threading.Lock()

    def guide(self, state: Mapping[str, object]) -> "Guide":
        """Return the guide of one action on the page with this public state.

        Raises:
            ConfigError: if the state does not list what can be done.
        """
        return Guide(self, grammar(state))

    def allowed(self, rollouts: Iterable[Rollout]) -> torch.Tensor:
        """Return the packed sets (n, W) that the sampled tokens of some rollouts were drawn from, row by row.

        Raises:
            ValueError: if a token could not have been sampled under this constraint.
        """
        packed = [one for rollout in rollouts for one in self._replayed(rollout)]
        return torch.frombuffer(bytearray(b"".join(packed)), dtype=torch.uint8).view(len(packed), -1)

    def _replayed(self, rollout: Rollout) -> list[bytes]:
        pairs = zip(rollout.token_ids, rollout.loss_mask, strict=True)
        actions = [[token for token, _ in run] for kept, run in groupby(pairs, key=lambda pair: pair[1]) if kept]
        if len(actions) != len(rollout.turns):
            raise ValueError(
                f"rollout of {rollout.task_id} holds {len(actions)} actions and {len(rollout.turns)} turns; without "
                "the state before each action its constraint cannot be rebuilt"
            )
        sets: list[bytes] = []
        for tokens, turn in zip(actions, rollout.turns, strict=True):
            guide = self.guide(turn.state)
            for token in tokens:
                sets.append(guide.allowed())
                if not sets[-1][token >> 3] >> (token & 7) & 1:
                    raise ValueError(f"rollout of {rollout.task_id}: token {token} was not admitted where it stands")
                guide.advance(token)
        return sets

    def next_tokens(self, pattern: str, tokens: tuple[int, ...], held: list[Any]) -> bytes:
        """Return the packed set after some tokens; ``held`` keeps the matcher that was fed them, if it was needed."""
        key = (pattern, tokens)
        if (found := self._known.get(key)) is not None:
            return found
        from llguidance import LLMatcher

        if not held:
            held += [LLMatcher(self._tokens, LLMatcher.grammar_from_regex(pattern)), 0]
        matcher, fed = held
        matcher.consume_tokens(list(tokens[fed:]))
        held[1] = len(tokens)
        packed: bytes = matcher.compute_bitmask()[: -(-self.vocabulary // 8)]
        if matcher.is_error():
            raise ValueError(f"constrained decoding failed after {len(tokens)} tokens: {matcher.get_error()}")
        with self._lock:
            if len(self._known) * len(packed) > _KEPT_BYTES:
                self._known.clear()
            self._known[key] = packed
        return packed


class Guide:
    """Follows one action, token by token."""

    def __init__(self, constraint: Constraint, pattern: str) -> None:
        self._constraint, self._pattern = constraint, pattern
        self._tokens: tuple[int, ...] = ()
        self._held: list[Any] = []

    def allowed(self) -> bytes:
        """Return the packed set of tokens that may come next."""
        return self._constraint.next_tokens(self._pattern, self._tokens, self._held)

    def advance(self, token: int) -> None:
        """Append a token of the action."""
        self._tokens = (*self._tokens, token)


def grammar(state: Mapping[str, object]) -> str:
    """Return the regular expression of every action text that a page admits.

    Raises:
        ConfigError: if the public state does not list actions, or lists none and has no search.
    """
    actions = state.get("actions")
    if not isinstance(actions, Sequence) or isinstance(actions, str):
        raise ConfigError(
            f"rollout.constrained needs a public state that lists its 'actions'; this one holds "
            f"{offenders(sorted(state))}; set rollout.constrained=false"
        )
    texts = [_escaped(write_call("click", PARAMETERS["click"], str(action))) for action in actions]
    if state.get("search_available"):
        free = rf'[\p{{L}}\p{{N}}][^"\\\x00-\x1f]{{0,{_QUERY_CHARACTERS - 1}}}'
        texts.append(_escaped(write_call("search", PARAMETERS["search"], _HOLE)).replace(_escaped(_HOLE), free))
    if not texts:
        raise ConfigError(f"page {state.get('page_type')!r} admits no action, so rollout.constrained allows no token")
    return "|".join(texts)


def unpacked(packed_nW: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Return (n, V), true where a token may be sampled."""
    bits = torch.arange(8, dtype=torch.uint8, device=packed_nW.device)
    return (packed_nW[:, :, None] >> bits & 1).bool().flatten(1)[:, :vocabulary]


def _escaped(text: str) -> str:
    return "".join(c if c.isalnum() or ord(c) > 127 else f"\\x{ord(c):02x}" for c in text)
