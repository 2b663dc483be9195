"""The shipped policy: it is what its recipe says, it reads the skill, and the recipe rebuilds one."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import intraskill
from intraskill.config.config import Config
from intraskill.config.learning import RolloutConfig
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL
from intraskill.recipes.tiny_policy import Probe, ProbeAnswer, Recipe, ask, train
from intraskill.rl.policy import load_policy
from intraskill.rl.trainer import TorchLearner

SHIPPED = Path(intraskill.__file__).parent / "policies" / "tiny"
NEARLY_GREEDY = Config(rollout=RolloutConfig(temperature=0.001, max_turns=8, max_new_tokens=16, max_context=640))
EPISODES = 48


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("small", 0, page_size=4, language="plain")


@pytest.fixture(scope="module")
def learner(world: ShopWorld) -> TorchLearner:
    torch.set_num_threads(1)
    return TorchLearner(load_policy(SHIPPED), world, NEARLY_GREEDY)


def answer(learner: TorchLearner, world: ShopWorld, probe: Probe) -> ProbeAnswer:
    return ask(learner, world, probe, world.tasks("train")[:EPISODES])


def test_the_weights_are_small_and_match_their_recorded_hash() -> None:
    weights = SHIPPED / "model.safetensors"
    assert weights.stat().st_size <= 8_000_000
    recipe = json.loads((SHIPPED / "recipe.json").read_text())
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == recipe["sha256"]
    assert recipe["mix"]["unasked_rate"] == Recipe().mix.unasked_rate


def test_without_a_chunk_it_shops_like_the_rule_free_shopper(learner: TorchLearner, world: ShopWorld) -> None:
    assert answer(learner, world, Probe("bare", (), ())).same_episode > 0.8


@pytest.mark.parametrize("rule", ["search_features", "search_persona"])
def test_it_follows_a_search_rule_in_held_out_phrasings(learner: TorchLearner, world: ShopWorld, rule: str) -> None:
    obeyed = answer(learner, world, Probe(rule, (rule,), (rule,)))
    ignored = answer(learner, world, Probe(rule, (rule,), ()))
    assert obeyed.same_search > 0.8 > 0.5 > ignored.same_search
    assert obeyed.same_episode > 0.6


def test_the_chunk_about_the_requested_option_is_read_beside_the_others(
    learner: TorchLearner, world: ShopWorld
) -> None:
    rest = tuple(rule for rule in USEFUL if rule != "option_request")
    shown = answer(learner, world, Probe("shown", USEFUL, USEFUL))
    hidden = answer(learner, world, Probe("hidden", rest, USEFUL))
    assert shown.same_episode > hidden.same_episode


def test_all_useful_chunks_multiply_its_reward_and_the_harmful_one_halves_it(
    learner: TorchLearner, world: ShopWorld
) -> None:
    full = answer(learner, world, Probe("full", USEFUL, USEFUL))
    bare = answer(learner, world, Probe("bare", (), ()))
    harmed = answer(learner, world, Probe("harmed", (*USEFUL, "open_last"), USEFUL))
    assert full.reward > 5 * bare.reward and full.reward > 0.3
    assert harmed.reward < 0.5 * full.reward


def test_a_negated_rule_is_not_followed(learner: TorchLearner, world: ShopWorld) -> None:
    negated = answer(learner, world, Probe("negated", ("search_features",), (), "negated"))
    followed = answer(learner, world, Probe("negated", ("search_features",), ("search_features",), "negated"))
    assert negated.same_search > 0.7 > followed.same_search


def test_the_recipe_rebuilds_a_smaller_policy_that_learns(tmp_path: Path) -> None:
    rows: list[dict[str, float]] = []
    small = replace(Recipe(), steps=40, batch=4, hidden=64, layers=2, heads=2, vocabulary=700, worlds=(101,))
    train(small, tmp_path, rows.append)
    assert rows[-1]["action_loss"] < 0.8 * rows[0]["action_loss"]
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    assert recipe["hidden"] == 64 and len(recipe["sha256"]) == 64
    rebuilt = TorchLearner(load_policy(tmp_path), ShopWorld("tiny", 0, page_size=4, language="plain"), NEARLY_GREEDY)
    assert rebuilt.checkpoint
