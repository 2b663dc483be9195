"""Demonstrations of a shop in any of its languages, for warm starts.

In the plain language a scripted shopper obeys exactly the rules that are shown; in the others a lexical shopper reads
only what the policy reads, and no skill is shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.session import PARAMETERS, SYSTEM
from intraskill.environments.shopworld.shoppers import MAX_ACTIONS, GreedyShopper
from intraskill.environments.tool_calls import write_call
from intraskill.method.randomness import child_seed, uniform
from intraskill.recipes.demonstrations import Demonstration, Mix, demonstrate
from intraskill.recipes.tiny_policy import encode
from intraskill.rl.chat import ChatCodec

WORLD_SEEDS = (101, 102, 103)
"""Worlds that demonstrations come from; experiments use seeds below 100."""


def shop_examples(
    start: Path, preset: str, options: Mapping[str, Any], count: int, seed: int = 0
) -> list[tuple[list[int], list[int]]]:
    """Return encoded demonstrations, (T,) token ids and (T,) masks, as a policy of this directory would read them.

    Args:
        start: a model directory; its tokenizer and chat template are used.
        preset: size of the worlds.
        options: of the worlds, such as their language.
        count: how many.
        seed: which ones.
    """
    worlds = [ShopWorld(preset, world_seed, **options) for world_seed in WORLD_SEEDS]
    codec = ChatCodec(AutoTokenizer.from_pretrained(start, local_files_only=True), worlds[0].tools, system=SYSTEM)
    return [encode(demo, codec) for demo in islice(demonstrations(worlds, Mix(), seed), count)]


def demonstrations(worlds: Sequence[ShopWorld], mix: Mix, seed: int = 0) -> Iterator[Demonstration]:
    """Yield an endless, addressed stream over the train tasks of some worlds."""
    pools = [[task.id for task in world.tasks("train")] for world in worlds]
    number = 0
    while True:
        k = int(uniform(seed, "world", number) * len(worlds))
        task_id = pools[k][int(uniform(seed, "task", number) * len(pools[k]))]
        if worlds[k].settings.language == "plain":
            yield demonstrate(worlds[k], task_id, mix, child_seed(seed, "demo", number))
        elif (found := greedy_demonstration(worlds[k], task_id)) is not None:
            yield found
        number += 1


def greedy_demonstration(world: ShopWorld, task_id: str) -> Demonstration | None:
    """Return a lexical shopper's episode, or ``None`` where it finds nothing to buy."""
    session = world.open()
    opening = session.reset(task_id)
    shopper = GreedyShopper(opening, world.strings)
    messages = [{"role": "user", "content": f"{opening.request}\n\n{opening.observation}"}]
    for _ in range(MAX_ACTIONS):
        call = shopper.act(session.state)
        text = write_call(call.name, PARAMETERS[call.name], call.argument)
        outcome = session.step(text)
        messages.append({"role": "assistant", "content": text})
        if outcome.done:
            return Demonstration("", tuple(messages), outcome.reward)
        messages.append({"role": "tool", "content": outcome.observation})
    return None
