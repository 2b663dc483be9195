"""A multi-turn rollout that keeps its cache beside one that gives `generate` the whole conversation every turn.

python scripts/bench_rollout.py [--shapes 700x8x16x120x8 400x6x16x80x4] [--repeats 3]

A shape is prompt × turns × tokens of an action × tokens of a page × rollouts of the group. The first is the published
one: the quickstart's groups of eight, a prompt with a skill, as many turns as an episode may have. The second is small
on purpose: there sampling, which costs both sides the same, is most of what is left to do.

Both sides sample exactly the same number of tokens: every action runs to its limit, every page has the same length, so
that nothing is padded. The other side is Transformers' own `generate` on the batch of a whole group, with its cache
inside each call. Time is processor time of one thread, in turns. Two limits stand beside the ratio: that of forwarded
tokens, and the one that counts a sampled token as what it costs, several times a token that is only read (measured
with the engine in the middle of an episode). Writes docs/results/bench_rollout.csv.
"""

import argparse
import time
from statistics import median
from typing import Any, NamedTuple

import torch
from bench_model import in_turns, random_policy, write_rows

from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.policy import Policy

NEVER = -1


class Sizes(NamedTuple):
    """Tokens of the prompt, turns, tokens of an action and of a page, rollouts of the group."""

    prompt: int
    turns: int
    action: int
    page: int
    size: int

    @property
    def sampled(self) -> int:
        """Tokens that a group samples."""
        return self.size * self.turns * self.action


def page(turn: int, row: int, length: int) -> tuple[int, ...]:
    """Return what the environment shows after an action."""
    return tuple(3 + (131 * turn + 17 * row + 7 * k) % 1200 for k in range(length)) if turn else ()


def kept(policy: Policy, sizes: Sizes) -> int:
    """Roll out with the torch engine; return how many tokens were sampled."""
    engine = TorchEngine(policy, stop_id=NEVER, temperature=1.0, max_new_tokens=sizes.action)
    rows = range(sizes.size)
    conversations = engine.open([tuple(3 + k % 1200 for k in range(sizes.prompt))] * sizes.size)
    sampled = 0
    for turn in range(sizes.turns):
        shown = {row: page(turn, row, sizes.page) for row in rows}
        found = conversations.generate(shown, {row: 1000 * row + turn for row in rows})
        sampled += sum(len(generation.token_ids) for generation in found.values())
    return sampled


@torch.no_grad()
def again(policy: Policy, sizes: Sizes) -> int:
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


def sampled_cost(policy: Policy, sizes: Sizes, repeats: int = 3) -> float:
    """Return what sampling a token costs in the middle of an episode, in tokens read there."""
    middle = sizes.prompt + sizes.turns * (sizes.page + sizes.action) // 2

    def seconds(page: int, action: int) -> float:
        began = time.process_time()
        kept(policy, Sizes(middle, 2, action, page, sizes.size))
        return time.process_time() - began

    kept(policy, Sizes(9, 2, 2, 9, sizes.size))
    base, paged, acted = (
        median(seconds(*lengths) for _ in range(repeats)) for lengths in ((1, 1), (1 + sizes.page, 1), (1, 17))
    )
    return float((acted - base) / 32 / ((paged - base) / sizes.page))


def limits(sizes: Sizes, cost: float) -> tuple[float, float]:
    """Return the largest possible ratio, by forwarded tokens and with sampled ones at what they cost."""
    repeated = sum(sizes.prompt + turn * (sizes.page + sizes.action) for turn in range(sizes.turns)) * sizes.size
    unique = sizes.prompt + sizes.size * (sizes.turns - 1) * sizes.page
    by_tokens, by_cost = ((repeated + each * sizes.sampled) / (unique + each * sizes.sampled) for each in (1, cost))
    return by_tokens, by_cost


def compare(policy: Policy, shape: str, repeats: int, rows: list[dict[str, Any]]) -> None:
    """Measure one shape, add its rows and print what was found."""
    sizes = Sizes(*map(int, shape.split("x")))

    def same(sampled: int) -> None:
        assert sampled == sizes.sampled, f"{sampled} tokens sampled, not {sizes.sampled}"

    cost = sampled_cost(policy, sizes)
    by_tokens, by_cost = limits(sizes, cost)
    facts = {"shape": shape, "limit_tokens": round(by_tokens, 3), "limit_cost": round(by_cost, 3)}
    spent = in_turns(
        {"cache_kept": lambda: same(kept(policy, sizes)), "generate_again": lambda: same(again(policy, sizes))},
        repeats,
        lambda row: rows.append(facts | row),
    )
    ratio = spent["generate_again"] / spent["cache_kept"]
    print(
        f"prompt x turns x action x page x group = {shape}: {ratio:.2f} x faster (limit {by_tokens:.2f} by tokens, "
        f"{by_cost:.2f} when a sampled token costs {cost:.1f} read ones, as measured)",
        flush=True,
    )


def main() -> None:
    """Measure every shape and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["700x8x16x120x8", "400x6x16x80x4"])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    policy = random_policy(1280)
    rows: list[dict[str, Any]] = []
    for shape in arguments.shapes:
        compare(policy, shape, arguments.repeats, rows)
        write_rows("bench_rollout", rows)


if __name__ == "__main__":
    main()
