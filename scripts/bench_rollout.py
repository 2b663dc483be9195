"""A multi-turn rollout that keeps its cache beside one that gives `generate` the whole conversation every turn.

python scripts/bench_rollout.py [--prompt 400 --turns 6 --action 16 --page 80 --size 4] [--repeats 5]

Both sample exactly the same number of tokens: every action runs to its limit, every page has the same length. The
other side is Transformers' own `generate` on the batch of a whole group, with its cache inside each call; it is given
the pages of the same lengths. The limit counts forwarded tokens; a sampled token costs both sides the same, so the
ratio stays below it. Time is processor time of one thread, in turns. Writes docs/results/bench_rollout.csv.
"""

import argparse
from typing import Any

import torch
from bench_model import in_turns, merge, random_policy, write_rows

from intraskill.runtime.policy import Policy
from intraskill.runtime.torch_engine import TorchEngine

NEVER = -1


def page(turn: int, row: int, length: int) -> tuple[int, ...]:
    """Return what the environment shows after an action."""
    return tuple(3 + (131 * turn + 17 * row + 7 * k) % 1200 for k in range(length)) if turn else ()


def kept(policy: Policy, sizes: argparse.Namespace) -> int:
    """Roll out with the torch engine; return how many tokens were sampled."""
    engine = TorchEngine(policy, stop_id=NEVER, max_new_tokens=sizes.action)
    rows = range(sizes.size)
    conversations = engine.open([tuple(3 + k % 1200 for k in range(sizes.prompt))] * sizes.size)
    sampled = 0
    for turn in range(sizes.turns):
        shown = {row: page(turn, row, sizes.page) for row in rows}
        found = conversations.generate(shown, {row: 1000 * row + turn for row in rows})
        sampled += sum(len(generation.token_ids) for generation in found.values())
    return sampled


@torch.no_grad()
def again(policy: Policy, sizes: argparse.Namespace) -> int:
    """Roll out with `generate`, every turn from the first token on; return how many tokens were sampled."""
    torch.manual_seed(0)
    rows = range(sizes.size)
    history = torch.tensor([[3 + k % 1200 for k in range(sizes.prompt)]]).expand(sizes.size, -1)
    options: dict[str, Any] = {"do_sample": True, "top_k": 0, "top_p": 1.0, "pad_token_id": 0, "eos_token_id": None}
    sampled = 0
    for turn in range(sizes.turns):
        shown = torch.tensor([page(turn, row, sizes.page) for row in rows], dtype=torch.long)
        history = torch.cat([history, shown.view(sizes.size, -1)], 1)
        before = history.shape[1]
        # Log-probabilities of the sampled tokens are part of a rollout.
        found = policy.causal.generate(
            history,
            attention_mask=torch.ones_like(history),
            max_new_tokens=sizes.action,
            return_dict_in_generate=True,
            output_logits=True,
            **options,
        )
        history = found.sequences
        sampled += (history.shape[1] - before) * sizes.size
        for step, logits in enumerate(found.logits):
            torch.log_softmax(logits, -1).gather(1, history[:, before + step, None])
    return sampled


def limit(sizes: argparse.Namespace) -> float:
    """Return the ratio of forwarded tokens."""
    steps = sizes.page + sizes.action
    unique = sizes.prompt + sizes.size * (sizes.turns * sizes.action + (sizes.turns - 1) * sizes.page)
    repeated = sum(sizes.prompt + turn * steps + sizes.action for turn in range(sizes.turns)) * sizes.size
    return float(repeated / unique)


def main() -> None:
    """Measure and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("prompt", 400), ("turns", 6), ("action", 16), ("page", 80), ("size", 4), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    policy = random_policy(1280)
    expected = sizes.size * sizes.turns * sizes.action

    def same(sampled: int) -> None:
        assert sampled == expected, f"{sampled} tokens sampled, not {expected}"

    shape = f"{sizes.prompt}x{sizes.turns}x{sizes.action}x{sizes.page}x{sizes.size}"
    facts = {"shape": shape, "limit_tokens": round(limit(sizes), 3)}
    rows: list[dict[str, Any]] = []
    spent = in_turns(
        {"cache_kept": lambda: same(kept(policy, sizes)), "generate_again": lambda: same(again(policy, sizes))},
        sizes.repeats,
        lambda row: rows.append(facts | row),
    )
    ratio = spent["generate_again"] / spent["cache_kept"]
    write_rows("bench_rollout", rows)
    merge({"rollout_vs_reprefill": round(ratio, 2)})
    print(
        f"prompt x turns x action x page x group = {shape}: {ratio:.2f} x faster (limit {limit(sizes):.2f} by tokens)"
    )


if __name__ == "__main__":
    main()
