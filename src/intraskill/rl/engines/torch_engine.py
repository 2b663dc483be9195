"""Batched sampling in torch, fast enough for one CPU thread.

Equal prompts are prefilled once; the key/value cache is kept across turns, so that a turn only prefills what the
environment appended; every row's cache is dense (no padding between turns), and rows that ended leave the batch.
A token is drawn by inverting the distribution function at one uniform number that depends on the action's seed and
the token's index alone; other rows can change it only through rounding.

Shape letters: B rows, n rows in use, Q new tokens, W cache width, D hidden width, V vocabulary.
"""

from collections.abc import Mapping, Sequence, Set
from threading import Lock
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from intraskill.method.errors import ConfigError, offenders
from intraskill.rl.engines.constrained import Guide, unpacked
from intraskill.rl.policy import Generation, Policy


class _Window:
    """Which slots and positions the next forward pass writes, and what it may read."""

    def __init__(self) -> None:
        self.slots = torch.empty(0, dtype=torch.long)
        self.positions = torch.empty(0, 0, dtype=torch.long)
        self.width = 0
        self.leading = True


class _RowLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer: one dense row per conversation, written in place."""

    keys: torch.Tensor | Any
    values: torch.Tensor | Any

    def __init__(self, window: _Window) -> None:
        super().__init__()
        self.window = window

    def reserve(self, rows: int, width: int, like: torch.Tensor) -> None:
        """Make room for ``rows`` × ``width`` positions shaped like ``like`` (·, heads, ·, width of a head)."""
        heads, head_width = like.shape[1], like.shape[3]
        held = (self.keys, self.values) if self.keys is not None else None
        self.keys = like.new_zeros(rows, heads, width, head_width)
        self.values = like.new_zeros(rows, heads, width, head_width)
        if held is not None:
            self.keys[:, :, : held[0].shape[2]] = held[0]
            self.values[:, :, : held[1].shape[2]] = held[1]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write (n, heads, Q, ·) at the window's slots and positions; return what these slots hold up to its width."""
        at = self.window
        rows = at.slots[:, None]
        self.keys[rows, :, at.positions] = key_states.transpose(1, 2)
        self.values[rows, :, at.positions] = value_states.transpose(1, 2)
        if at.leading:
            read: slice | torch.Tensor = slice(0, len(at.slots))
        else:
            read = at.slots
        return self.keys[read, :, : at.width], self.values[read, :, : at.width]

    def exchange(self, left: torch.Tensor, right: torch.Tensor, width: int) -> None:
        """Swap the rows of two lists of slots."""
        for held in (self.keys, self.values):
            kept = held[left, :, :width]
            held[left, :, :width] = held[right, :, :width]
            held[right, :, :width] = kept


_PREFILL_TOKENS = 8192
"""Most tokens, padding included, of one forward pass over prompts or observations."""
_WIDTH_STEP = 128
_SHRINK_AT = 0.25
_WASTE = 1.3


class TorchEngine:
    """Samples from a policy that lives in this process.

    Args:
        policy: the policy; its weights are read at every call, so an optimizer step needs no synchronisation.
        stop_id: the token that ends an action.
        temperature: sampling temperature; 0 takes the likeliest token, with log-probability 0.
        max_new_tokens: limit of one action.

    Attributes:
        prefilled: tokens forwarded so far that were not sampled: prompts and observations, without padding.

    Raises:
        ConfigError: if the model keeps anything but plain keys and values (sliding windows, recurrent states).
    """

    def __init__(
        self,
        policy: Policy,
        *,
        stop_id: int,
        temperature: float,
        max_new_tokens: int,
    ) -> None:
        config = policy.causal.config
        layers = DynamicCache(config=config).layers
        if odd := sorted({type(layer).__name__ for layer in layers if type(layer) is not DynamicLayer}):
            raise ConfigError(
                f"the torch engine serves only full-attention models, but this one caches {offenders(odd)}; "
                "use another engine for it"
            )
        self.policy = policy
        self.stop_id = stop_id
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens
        self.num_layers = int(config.num_hidden_layers)
        self.prefilled = 0
        self._counting = Lock()

    def serve(self, checkpoint: str) -> None:
        """Do nothing: the policy's own weights are read at every call."""

    def count(self, prefilled: int) -> None:
        """Add to ``prefilled``; threads may run conversations at once."""
        with self._counting:
            self.prefilled += prefilled

    def open(self, prompts: Sequence[tuple[int, ...]]) -> "TorchConversations":
        """Start one conversation per prompt; equal prompts are prefilled once."""
        return TorchConversations(self, prompts)

    def draw(self, logits_BV: torch.Tensor, uniform_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens (B,) and their log-probabilities (B,) under the sampling distribution."""
        if self.temperature == 0:
            return logits_BV.argmax(-1), torch.zeros(len(logits_BV), device=logits_BV.device)
        logprobs_BV = torch.log_softmax(logits_BV.float() / self.temperature, -1)
        cumulative_BV = logprobs_BV.exp().cumsum(-1, dtype=torch.float64)
        target_B1 = uniform_B[:, None] * cumulative_BV[:, -1:]
        token_B1 = torch.searchsorted(cumulative_BV, target_B1, right=True).clamp(max=logits_BV.shape[1] - 1)
        return token_B1[:, 0], logprobs_BV.gather(1, token_B1)[:, 0]


class TorchConversations:
    """A batch of growing conversations.

    Rows live in slots. The rows in use always fill the first slots, so that a forward pass reads a plain slice of
    the cache; a row that ends an action is swapped behind them.
    """

    def __init__(self, engine: TorchEngine, prompts: Sequence[tuple[int, ...]]) -> None:
        if empty := [row for row, prompt in enumerate(prompts) if not prompt]:
            raise ValueError(f"prompts without tokens, rows {offenders(empty)}")
        self._engine = engine
        self._window = _Window()
        self._layers = [_RowLayer(self._window) for _ in range(engine.num_layers)]
        self._cache = Cache(layers=self._layers)
        self._row_at = list(range(len(prompts)))
        # The last token of a row is always still to be fed: its output is what the next token is drawn from.
        self._pending = [prompt[-1:] for prompt in prompts]
        self._length = [len(prompt) - 1 for prompt in prompts]
        self._width = 0
        self._acted: set[int] = set()
        self._guides: Mapping[int, Guide] = {}
        if prompts:
            self._prefill([prompt[:-1] for prompt in prompts])

    def restrict(self, guides: Mapping[int, Guide]) -> None:
        """Let the next action of each row take only the tokens that its guide allows."""
        self._guides = guides

    @torch.no_grad()
    def generate(self, appended: Mapping[int, Sequence[int]], seeds: Mapping[int, int]) -> dict[int, Generation]:
        """Append tokens to the given rows and sample one action in each; rows left out are dropped for good."""
        if not appended:
            return {}
        engine = self._engine
        limit = engine.max_new_tokens
        active = self._gather({slot for slot, row in enumerate(self._row_at) if row in appended})
        for row, tokens in appended.items():
            self._pending[row] = (*self._pending[row], *tokens)
        # After an action, the first pending token was sampled.
        engine.count(sum(len(self._pending[row]) - (row in self._acted) for row in appended))
        self._acted.update(appended)
        draws = {row: np.random.Generator(np.random.Philox(key=seeds[row])).random(limit) for row in appended}
        uniforms = torch.from_numpy(np.stack([draws[row] for row in self._row_at[:active]])).to(engine.policy.device)
        tokens_of: dict[int, list[int]] = {row: [] for row in appended}
        logprobs_of: dict[int, list[float]] = {row: [] for row in appended}
        done: set[int] = set()
        logits = self._feed_pending(active)
        for index in range(limit):
            sampled, chosen = engine.draw(self._restricted(logits, done), uniforms[:, index])
            tokens, logprobs = sampled.tolist(), chosen.tolist()
            for slot, row in enumerate(self._row_at[:active]):
                if row not in done:
                    tokens_of[row].append(tokens[slot])
                    logprobs_of[row].append(logprobs[slot])
                    self._pending[row] = (tokens[slot],)
                    if row in self._guides:
                        self._guides[row].advance(tokens[slot])
                    if tokens[slot] == engine.stop_id:
                        done.add(row)
            running = [slot for slot, row in enumerate(self._row_at[:active]) if row not in done]
            if not running or index + 1 == limit:
                break
            if len(running) <= (1 - _SHRINK_AT) * active:
                order = {row: slot for slot, row in enumerate(self._row_at[:active])}
                active = self._gather(set(running))
                uniforms = uniforms[[order[row] for row in self._row_at[:active]]]
            logits = self._feed_sampled(active, done)
        return {
            row: Generation(tuple(tokens_of[row]), tuple(logprobs_of[row]), tokens_of[row][-1] == engine.stop_id)
            for row in appended
        }

    def _restricted(self, logits_BV: torch.Tensor, done: Set[int]) -> torch.Tensor:
        """Take the tokens that the guides forbid out of the distribution; rows that are done stay as they are."""
        if not self._guides:
            return logits_BV
        size = -(-logits_BV.shape[1] // 8)
        rows = self._row_at[: len(logits_BV)]
        sets = [b"\xff" * size if row in done else self._guides[row].allowed() for row in rows]
        packed = torch.frombuffer(bytearray(b"".join(sets)), dtype=torch.uint8).view(len(sets), size)
        return logits_BV.masked_fill(~unpacked(packed.to(logits_BV.device), logits_BV.shape[1]), float("-inf"))

    def _gather(self, wanted: set[int]) -> int:
        """Move the wanted slots to the front by pairwise swaps; return how many there are."""
        count = len(wanted)
        left = [slot for slot in range(count) if slot not in wanted]
        right = sorted(slot for slot in wanted if slot >= count)
        if left:
            for layer in self._layers:
                layer.exchange(torch.tensor(left), torch.tensor(right), self._width)
            for a, b in zip(left, right, strict=True):
                self._row_at[a], self._row_at[b] = self._row_at[b], self._row_at[a]
        return count

    @torch.no_grad()
    def _prefill(self, prompts: Sequence[tuple[int, ...]]) -> None:
        """Forward each distinct prompt once, right-padded, and copy its keys and values to its rows."""
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, prompt in enumerate(prompts):
            rows_of.setdefault(prompt, []).append(row)
        distinct = sorted((prompt for prompt in rows_of if prompt), key=len)
        self._width = max(len(prompt) for prompt in prompts)
        backbone, device = self._engine.policy.backbone, self._engine.policy.device
        self._engine.count(sum(map(len, distinct)))
        for chunk in _by_padded_size([len(prompt) for prompt in distinct], _PREFILL_TOKENS):
            batch = [distinct[index] for index in chunk]
            cache = DynamicCache(config=self._engine.policy.causal.config)
            backbone(input_ids=_right_padded(batch).to(device), past_key_values=cache, use_cache=True)
            source = torch.tensor([i for i, prompt in enumerate(batch) for _ in rows_of[prompt]])
            target = torch.tensor([row for prompt in batch for row in rows_of[prompt]])
            width = max(map(len, batch))
            for layer, filled in zip(self._layers, cache.layers, strict=True):
                if not layer.is_initialized:
                    layer.reserve(len(prompts), self._width + _WIDTH_STEP, filled.keys)
                layer.keys[target, :, :width] = filled.keys[source]
                layer.values[target, :, :width] = filled.values[source]

    def _feed_pending(self, active: int) -> torch.Tensor:
        """Forward the tokens each active row still owes; return logits (active, V) after its last one."""
        sizes = [len(self._pending[row]) for row in self._row_at[:active]]
        self._make_room(max(self._length[row] + max(sizes) for row in self._row_at[:active]))
        order = sorted(range(active), key=lambda slot: sizes[slot])
        chunks = _by_padded_size([sizes[slot] for slot in order], _PREFILL_TOKENS)
        if len(chunks) == 1 and max(sizes) * active <= _WASTE * sum(sizes):
            return self._feed(list(range(active)), leading=True)
        parts = [self._feed([order[index] for index in chunk], leading=False) for chunk in chunks]
        logits = torch.cat(parts)
        return logits[torch.tensor(order, device=logits.device).argsort()]

    def _feed(self, slots: list[int], *, leading: bool) -> torch.Tensor:
        """Forward pending tokens of some slots, right-padded: what padding writes is overwritten before it is read."""
        rows = [self._row_at[slot] for slot in slots]
        blocks = [self._pending[row] for row in rows]
        hidden = self._forward(slots, rows, _right_padded(blocks), leading=leading)
        last = torch.tensor([len(block) - 1 for block in blocks], device=hidden.device)
        for row, block in zip(rows, blocks, strict=True):
            self._length[row] += len(block)
        logits: torch.Tensor = self._engine.policy.head(hidden[torch.arange(len(rows), device=hidden.device), last])
        return logits

    def _feed_sampled(self, active: int, done: set[int]) -> torch.Tensor:
        """Forward the token each active row just sampled; rows that are done ride along and are not advanced."""
        rows = self._row_at[:active]
        self._make_room(max(self._length[row] for row in rows) + 1)
        tokens = torch.tensor([self._pending[row][-1:] for row in rows])
        hidden = self._forward(list(range(active)), rows, tokens, leading=True)
        for row in rows:
            self._length[row] += row not in done
        logits: torch.Tensor = self._engine.policy.head(hidden[:, 0])
        return logits

    def _forward(self, slots: list[int], rows: list[int], ids_nQ: torch.Tensor, *, leading: bool) -> torch.Tensor:
        """Return hidden states (n, Q, D); a query sees every position of its own row up to its own."""
        policy, at = self._engine.policy, self._window
        device = policy.device
        start = torch.tensor([self._length[row] for row in rows])
        positions = (start[:, None] + torch.arange(ids_nQ.shape[1])).to(device)
        at.slots, at.positions, at.leading = torch.tensor(slots, device=device), positions, leading
        at.width = int(start.max()) + ids_nQ.shape[1]
        self._width = max(self._width, at.width)
        visible = torch.arange(at.width, device=device) <= positions[:, None, :, None]
        dtype = policy.causal.dtype
        mask = torch.zeros(visible.shape, dtype=dtype, device=device).masked_fill_(~visible, torch.finfo(dtype).min)
        hidden: torch.Tensor = policy.backbone(
            input_ids=ids_nQ.to(device),
            attention_mask=mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        return hidden

    def _make_room(self, width: int) -> None:
        held = self._layers[0]
        if not held.is_initialized:
            # No prompt had more than one token, so no layer knows its shape yet; one forward pass tells it.
            cache = DynamicCache(config=self._engine.policy.causal.config)
            probe = torch.tensor([self._pending[0][:1]], device=self._engine.policy.device)
            self._engine.policy.backbone(input_ids=probe, past_key_values=cache, use_cache=True)
            for layer, filled in zip(self._layers, cache.layers, strict=True):
                layer.reserve(len(self._row_at), width + _WIDTH_STEP, filled.keys)
        elif width > held.keys.shape[2]:
            for layer in self._layers:
                layer.reserve(len(self._row_at), width + max(_WIDTH_STEP, width // 4), layer.keys)


def _right_padded(blocks: Sequence[Sequence[int]]) -> torch.Tensor:
    width = max(map(len, blocks))
    return torch.tensor([[*block, *([0] * (width - len(block)))] for block in blocks])


def _by_padded_size(sizes: Sequence[int], budget: int) -> list[list[int]]:
    """Cut indices of ascending ``sizes`` into chunks whose padded size fits the budget and wastes little."""
    chunks: list[list[int]] = []
    total = 0
    for index, size in enumerate(sizes):
        padded = (len(chunks[-1]) + 1) * size if chunks else 0
        if not chunks or padded > budget or padded > _WASTE * (total + size) + 64:
            chunks.append([])
            total = 0
        chunks[-1].append(index)
        total += size
    return chunks
