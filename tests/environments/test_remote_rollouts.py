"""Episodes over HTTP: a technical failure drops its group, which the reserve replaces, and is never reward 0."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from environments.faulty_servers import Fault, LeaseShop, serving
from environments.test_remote_lease import client, oracle_calls
from rl.toy import tokenizer

from intraskill.config.config import Config
from intraskill.config.learning import RolloutConfig
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.shopworld.world import ShopWorld
from intraskill.method.curriculum.frontier import with_signal
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.rollouts import Episode, Group, Rollout
from intraskill.method.skill.skill import BARE, Chunk, Skill
from intraskill.rl.chat import ChatCodec
from intraskill.rl.policy import Generation
from intraskill.rl.rollout import in_batches, run_episodes
from intraskill.rounds.run import Run
from intraskill.rounds.training import run_step
from intraskill.store.metrics import Metrics, Silence

SKILL = Skill("# Skill", (Chunk("Search", "Search with words of the request."),))
LIMITS = RolloutConfig(max_turns=12, max_new_tokens=400, max_context=60_000)


class ScriptedEngine:
    """Plays a list of calls in every conversation, found by the request in its prompt."""

    def __init__(self, codec: ChatCodec, scripts: Mapping[str, Sequence[str]]) -> None:
        self.codec, self.scripts = codec, scripts

    def open(self, prompts: Sequence[tuple[int, ...]]) -> Any:
        texts = [self.codec.decode(prompt) for prompt in prompts]
        found = [next(s for request, s in self.scripts.items() if request in text) for text in texts]
        left = {row: iter(script) for row, script in enumerate(found)}

        def generate(rows: Mapping[int, tuple[int, ...]], seeds: Mapping[int, int]) -> dict[int, Generation]:
            actions = {row: self.codec.action(next(left[row])) for row in rows}
            return {row: Generation(ids, (0.0,) * len(ids), True) for row, ids in actions.items()}

        return SimpleNamespace(generate=generate)


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("tiny", language="plain")


def runner(remote: RemoteShop | ShopWorld, world: ShopWorld) -> Any:
    """Return what a learner does with episodes: all of them through the real rollout loop, two batches at once."""
    codec = ChatCodec(tokenizer(), remote.tools, system=remote.system)
    scripts = {world.shop_task(task.id).request: oracle_calls(world, task.id) for task in remote.tasks("train")}

    def run(episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        return run_episodes(episodes, remote, ScriptedEngine(codec, scripts), codec, LIMITS, "c0")

    return lambda episodes: in_batches(run, episodes, 2, 2)


def test_a_dropped_purchase_drops_its_group_which_the_reserve_replaces(world: ShopWorld) -> None:
    shop = LeaseShop(world)
    with serving(shop) as server:
        remote = client(server.url, slots=8)
        config = Config()
        config.grpo.group_size, config.grpo.groups_per_step, config.grpo.oversample = 2, 2, 1.0
        tasks = remote.tasks("train")[:3]
        groups = [Group(f"r000/s0000/g{i:02d}", 0, 0, i, task, "free", BARE) for i, task in enumerate(tasks)]
        learner = SimpleNamespace(run=runner(remote, world))
        run = Run(config, Path(), remote, learner, None, LeakFilter(), Metrics(Path("metrics.jsonl")), Silence())
        shop.queue("interact", None, None, Fault("drop"))
        results = run_step(run, groups, SKILL)
    faulted = [result for result in results if len(result.rewards) < 2]
    assert len(results) == 3 and len(faulted) == 1, "the reserve group was run for the one that was lost"
    assert [r.group.id for r in results][2] == groups[2].id
    broken = [rollout for rollout in faulted[0].rollouts if rollout.fault is not None]
    assert len(broken) == 1 and broken[0].reward is None and dict(broken[0].parts) == {}
    assert broken[0].fault.startswith("environment: RemoteFault: interact at http://127.0.0.1")
    assert "[dropped]" in broken[0].fault
    sound = [result for result in results if result is not faulted[0]]
    assert all(result.rewards == (1.0, 1.0) for result in sound), "scored 0, the lost rollout would stand out here"
    assert faulted[0] not in with_signal(results, 3)
    assert shop.requests["release_one"] == shop.requests["reset"] == 6 and not shop.episodes


def test_without_faults_every_rollout_equals_that_of_the_world_in_process(world: ShopWorld) -> None:
    shop = LeaseShop(world)
    with serving(shop) as server:
        remote = client(server.url, slots=3)  # fewer than episodes, and two batches of two wait for each other
        episodes = [
            Episode(task, SKILL, BARE, sample, sample) for task in remote.tasks("train")[:2] for sample in (0, 1)
        ]
        rollouts = runner(remote, world)(episodes)
    assert rollouts == runner(world, world)(episodes)
    assert [r.reward for r in rollouts] == [1.0] * 4 and all(r.fault is None for r in rollouts)
    assert all(set(r.parts) == set(remote.reward_parts) for r in rollouts)
    assert shop.requests["reset"] == 4 and shop.most_open <= 3
