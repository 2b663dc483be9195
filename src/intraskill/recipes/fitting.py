"""Fit a small language model to encoded examples: Muon for its matrices, AdamW for the rest, replicas over threads."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Qwen3ForCausalLM

from intraskill.rl.replicas import Replicas

_A, _B, _C = 3.4445, -4.7750, 2.0315  # quintic Newton–Schulz coefficients of the source
_ITERATIONS = 5


_MOMENTUM, _DECAY = 0.95, 0.01


class _Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised; for two-dimensional hidden weights only."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Apply one update; ``closure`` is not supported and must be None."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"])

    def _update(self, weight: torch.Tensor, gradient: torch.Tensor, lr: float) -> None:
        state = self.state[weight]
        average = state.setdefault("average", torch.zeros_like(weight))
        average.lerp_(gradient, 1 - _MOMENTUM)
        direction = _orthogonalize(gradient.lerp(average, _MOMENTUM))
        scale = max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5
        weight.mul_(1 - lr * _DECAY).add_(direction, alpha=-lr * scale)


def _orthogonalize(matrix: torch.Tensor) -> torch.Tensor:
    """Return a matrix (m, n) with nearly the same singular vectors and all singular values near 1."""
    wide: torch.Tensor = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(_ITERATIONS):
        gram = wide @ wide.T
        wide = _A * wide + (_B * gram + _C * gram @ gram) @ wide
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T


Example = tuple[list[int], list[int]]
"""Token ids (T,), and a mask (T,) that is 1 on what is to be learnt."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The options of model and optimizer that every recipe has.

    Attributes:
        steps: optimizer steps.
        batch: examples per step.
        micro_tokens: token budget of one forward pass.
        threads: replicas that share a step's micro-batches.
        learning_rate: AdamW, embeddings and norms.
        muon_rate: Muon, hidden matrices.
        auxiliary: weight of the next-token loss on tokens that are not to be learnt.
    """

    steps: int = 1000
    batch: int = 16
    micro_tokens: int = 1000
    threads: int = 2
    learning_rate: float = 2e-3
    muon_rate: float = 0.02
    auxiliary: float = 1.0
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    seed: int = 0


def fit(
    model: Qwen3ForCausalLM,
    examples: Iterator[Example],
    recipe: Fit,
    out: Path,
    log: Callable[[dict[str, float]], None],
) -> None:
    """Run the optimizer over encoded examples and write ``training.jsonl`` into ``out``.

    Args:
        model: moved in place.
        examples: token ids (T,) and masks (T,), 1 on what is to be learnt; endless.
        recipe: the optimizer's options.
        out: directory, made when missing.
        log: called with each logged row.
    """
    optimizers, replicas = _optimizers(recipe, model), Replicas(model, recipe.threads)
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "training.jsonl").open("w") as rows:
        for step in range(recipe.steps):
            scale = min(1.0, (step + 1) / 30) * min(1.0, max(0.02, 2 * (1 - step / recipe.steps)))
            row = _step(replicas, optimizers, [next(examples) for _ in range(recipe.batch)], recipe, scale)
            if (step + 1) % 20 == 0:
                row = {"step": step + 1, **row, "seconds": round(time.monotonic() - started, 1)}
                rows.write(json.dumps(row) + "\n")
                rows.flush()
                log(row)


def _optimizers(recipe: Fit, model: Qwen3ForCausalLM) -> list[torch.optim.Optimizer]:
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    muon = _Muon(matrices, lr=recipe.muon_rate)
    adam = torch.optim.AdamW(others, lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    for optimizer in (muon, adam):
        for group in optimizer.param_groups:
            group["base"] = group["lr"]
    return [muon, adam]


def _step(
    replicas: Replicas[Qwen3ForCausalLM],
    optimizers: list[torch.optim.Optimizer],
    batch: list[tuple[list[int], list[int]]],
    recipe: Fit,
    scale: float,
) -> dict[str, float]:
    batch.sort(key=lambda pair: len(pair[0]))
    actions = sum(sum(mask) for _, mask in batch)
    others = sum(len(ids) for ids, _ in batch) - actions

    def backward(index: int, part: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        model, (ids, mask) = replicas.models[index], part
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        targets, kind = ids[:, 1:], mask[:, 1:]
        action, other = (
            torch.nn.functional.cross_entropy(model.lm_head(hidden[kind == k]), targets[kind == k], reduction="sum") / n
            for k, n in ((1, actions), (0, others))
        )
        (action + recipe.auxiliary * other).backward()
        return torch.stack([action, other]).detach()

    total = torch.stack(replicas.map(backward, list(_micro_batches(batch, recipe.micro_tokens)))).sum(0)
    torch.nn.utils.clip_grad_norm_(replicas.models[0].parameters(), 1.0)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * scale
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return {"action_loss": round(float(total[0]), 5), "other_loss": round(float(total[1]), 4)}


def _micro_batches(
    batch: list[tuple[list[int], list[int]]], budget: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield right-padded (B, T) ids and masks; padding has mask -1. Causal attention needs no attention mask."""
    rest = list(batch)
    while rest:
        size = max(1, min(len(rest), budget // len(rest[0][0])))
        part, rest = rest[:size], rest[size:]
        length = max(len(ids) for ids, _ in part)
        ids = torch.tensor([row + [0] * (length - len(row)) for row, _ in part])
        mask = torch.tensor([row + [-1] * (length - len(row)) for _, row in part])
        yield ids, mask
