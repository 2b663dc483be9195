"""Conversations for engines that keep no state: every action is asked for with all token ids so far.

An engine's prefix cache makes that cheap. What the environment said is appended as ids and never tokenised again.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from intraskill.method.errors import EngineError
from intraskill.rl.policy import Generation


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """One action to sample; the answer depends on ids, seed and weights alone (other requests change rounding only).

    Only the temperature shapes the distribution beside these: no top-p, no top-k, no penalties.

    Attributes:
        prompt_ids: every token of the conversation so far.
        seed: seed of this one action.
        salt: requests share cached prefixes only under one salt, see `StatelessConversations`.
        max_new_tokens: limit of the action.
        stop_id: the token that ends the action, and no other does; ``None`` = none.
        lane: share of the batch that this row belongs to, see `lanes_of`.
    """

    prompt_ids: tuple[int, ...]
    seed: int
    salt: str
    max_new_tokens: int
    stop_id: int | None
    lane: int = 0


class StatelessConversations:
    """A batch of growing conversations; implements `policy.Conversations`.

    Each batch has a salt of its own, so that nothing cached by another batch is read: a batch that is run again after
    a kill meets the same cache as the first time, and its log-probabilities are the same to the last bit.

    Args:
        sample: answers a list of requests, in order.
        prompts: one per row.
        max_new_tokens: limit of one action.
        stop_id: the token that ends an action.
        lanes: number of lanes that the rows are shared among.
    """

    def __init__(
        self,
        sample: Callable[[Sequence[ActionRequest]], Sequence[Generation]],
        prompts: Sequence[tuple[int, ...]],
        *,
        max_new_tokens: int,
        stop_id: int,
        lanes: int = 1,
    ) -> None:
        self._sample, self._limit, self._stop_id = sample, max_new_tokens, stop_id
        self._history = [list(prompt) for prompt in prompts]
        self._lanes = lanes_of(prompts, lanes)
        self._salt = secrets.token_hex(8)

    def generate(self, appended: Mapping[int, Sequence[int]], seeds: Mapping[int, int]) -> dict[int, Generation]:
        """Append tokens to the given rows and let the policy act in each."""
        if not appended:
            return {}
        for row, tokens in appended.items():
            self._history[row] += tokens
        requests = [
            ActionRequest(
                tuple(self._history[row]), seeds[row], self._salt, self._limit, self._stop_id, self._lanes[row]
            )
            for row in appended
        ]
        answers = dict(zip(appended, self._sample(requests), strict=True))
        for row, answer in answers.items():
            self._history[row] += answer.token_ids
        return answers


def lanes_of(prompts: Sequence[tuple[int, ...]], count: int) -> list[int]:
    """Share rows among lanes: as evenly as can be, equal prompts side by side, and by nothing but the batch itself.

    A group's prompt is then prefilled by one server (two where a boundary falls into the group), and a row stays with
    the server that has its prefix.
    """
    first: dict[tuple[int, ...], int] = {}
    for row, prompt in enumerate(prompts):
        first.setdefault(prompt, row)
    order = sorted(range(len(prompts)), key=lambda row: (first[prompts[row]], row))
    lanes = [0] * len(prompts)
    for position, row in enumerate(order):
        lanes[row] = position * count // len(prompts)
    return lanes


def generation_of(
    token_ids: Sequence[int], logprobs: Sequence[float | None], request: ActionRequest, where: str
) -> Generation:
    """Return an engine's answer as a `Generation`.

    Raises:
        EngineError: for an answer that no policy can have sampled.
    """
    if not token_ids or len(token_ids) != len(logprobs) or len(token_ids) > request.max_new_tokens:
        raise EngineError(
            f"{where} answered with {len(token_ids)} tokens and {len(logprobs)} log-probabilities; as many of each are "
            f"needed, and 1 to {request.max_new_tokens}"
        )
    stopped = token_ids[-1] == request.stop_id
    early = request.stop_id in token_ids[:-1] or (not stopped and len(token_ids) < request.max_new_tokens)
    known = [value for value in logprobs if value is not None and -float("inf") < value <= 0.0]
    if early or len(known) != len(logprobs):
        raise EngineError(
            f"{where} ended an action at another token than {request.stop_id}, or gave no log-probability for a token "
            f"(tokens {list(token_ids)[-3:]}, log-probabilities {list(logprobs)[-3:]}); such an answer cannot be "
            "trained on"
        )
    return Generation(tuple(token_ids), tuple(known), stopped)
