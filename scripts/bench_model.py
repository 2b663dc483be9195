"""What the policy benches share: a random Qwen3 of 6 layers × 256, its groups of rollouts, timing in turns, results."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from csv_rows import write_csv
from transformers import Qwen3Config, Qwen3ForCausalLM

from intraskill.method.rollouts import Group, GroupResult, Rollout
from intraskill.method.skill.skill import BARE
from intraskill.method.tasks import Task
from intraskill.rl.policy import Policy, _use_grouped_attention

RESULTS = Path(__file__).parents[1] / "docs" / "results"
WIDTH, LAYERS, INNER = 256, 6, 768


def config(vocabulary: int, positions: int = 4096) -> Qwen3Config:
    """Return the architecture: 8 query heads on 2 key heads of 32."""
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=0,
        bos_token_id=None,
    )


def random_policy(vocabulary: int, tokenizer: Any = None) -> Policy:
    """Return the random model as `load_policy` would set it up on a CPU."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config(vocabulary)).eval()
    _use_grouped_attention(model)
    return Policy(model, tokenizer, f"bench-{vocabulary}")


def random_group(prompt: int, suffix: int, size: int, vocabulary: int) -> GroupResult:
    """Return one group of random tokens; nothing coincides beyond the prompt, and every second rollout is rewarded."""
    generator = torch.Generator().manual_seed(1)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(3, vocabulary, (length,), generator=generator).tolist())

    shared = ids(prompt)
    rollouts = [
        Rollout("t", BARE, "", k, shared, ids(suffix), (1,) * suffix, (-7.0,) * suffix, float(k % 2))
        for k in range(size)
    ]
    task = Task("t", "bench", "train")
    return GroupResult(Group("r000/s0000/g00", 0, 0, 0, task, "skill_free", BARE), tuple(rollouts))


def flops(segments: Sequence[tuple[int, int]], sampled: int, vocabulary: int) -> float:
    """Multiply-adds of one forward pass.

    Args:
        segments: (tokens, pairs of query and visible key) of each part.
        sampled: tokens that reach the head.
        vocabulary: rows of the head.
    """
    layer = WIDTH * (8 * 32) * 2 + WIDTH * (2 * 32) * 2 + 3 * WIDTH * INNER
    tokens, pairs = (sum(column) for column in zip(*segments, strict=True))
    return float(LAYERS * (tokens * layer + pairs * 2 * 8 * 32) + sampled * WIDTH * vocabulary)


def in_turns(
    variants: Mapping[str, Callable[[], object]], repeats: int, note: Callable[[dict[str, Any]], None]
) -> dict[str, float]:
    """Run each variant once to warm up, then all of them in turns; return the median processor seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for repeat in range(-1, repeats):
        for name, work in variants.items():
            wall, began = time.perf_counter(), time.process_time()
            work()
            spent = time.process_time() - began
            if repeat >= 0:
                times[name].append(spent)
                wall = time.perf_counter() - wall
                note({"variant": name, "repeat": repeat, "cpu_s": round(spent, 3), "wall_s": round(wall, 3)})
    return {name: median(found) for name, found in times.items()}


def write_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write ``docs/results/<name>.csv``."""
    write_csv(RESULTS / f"{name}.csv", rows, list(dict.fromkeys(key for row in rows for key in row)))
