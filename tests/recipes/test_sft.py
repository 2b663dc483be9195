"""Warm starts by supervised fine-tuning with TRL."""

import json
from itertools import groupby
from pathlib import Path

import pytest
import torch
from rl.shop_model import shop, write_shop_model

from intraskill import cli
from intraskill.environments.shopworld import ShopWorld
from intraskill.method.errors import ConfigError, NothingToLearnError
from intraskill.recipes.demonstrations import Mix
from intraskill.recipes.sft import SftSettings, fine_tune
from intraskill.recipes.shop_demonstrations import demonstrations, greedy_demonstration, shop_examples
from intraskill.recipes.tiny_policy import encode
from intraskill.rl.chat import ChatCodec
from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.policy import LoraSettings, load_policy

LEARNT, UNLEARNT = 0.1, 3.0
"""Mean loss in nats per token of a demonstration known by heart, and of one never seen."""
OPTIONS = {"page_size": 2, "language": "plain"}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop_model(tmp_path_factory.mktemp("shop_model"))


@pytest.mark.slow
def test_a_policy_learns_the_actions_of_a_demonstration_and_how_to_end_them(start: Path, tmp_path: Path) -> None:
    # Two lengths in a batch: the shorter one is padded with the very token that ends an action.
    examples = sorted(shop_examples(start, "tiny", OPTIONS, 6), key=lambda example: len(example[0]))[::5]
    assert len(examples[0][0]) < len(examples[1][0])
    settings = SftSettings(learning_rate=1e-2, batch=2, micro_batch=2, epochs=60, lora=None)
    rows = fine_tune(start, examples, tmp_path / "warm", settings)
    assert [row["step"] for row in rows] == [*range(1, 61)]
    assert rows[0]["loss"] > UNLEARNT and rows[-1]["loss"] < LEARNT
    policy = load_policy(tmp_path / "warm")
    engine = TorchEngine(policy, stop_id=policy.tokenizer.eos_token_id, temperature=0.0, max_new_tokens=80)
    for ids, mask in examples:
        first = mask.index(1)
        prompt, shown = tuple(ids[:first]), tuple(ids[first : first + mask[first:].index(0)])
        found = engine.open([prompt]).generate({0: ()}, {0: 0})[0]
        assert found.token_ids == shown and found.stopped


def test_an_adapter_is_merged_once_and_leaves_the_embeddings_alone(start: Path, tmp_path: Path) -> None:
    examples = shop_examples(start, "tiny", OPTIONS, 2)
    settings = SftSettings(learning_rate=1e-2, batch=2, epochs=8, lora=LoraSettings(8, 16))
    rows = fine_tune(start, examples, tmp_path / "warm", settings)
    assert rows[-1]["loss"] < 0.9 * rows[0]["loss"]
    before, after = load_policy(start).causal.state_dict(), load_policy(tmp_path / "warm").causal.state_dict()
    assert before.keys() == after.keys()
    same = {name for name in before if torch.equal(before[name].bfloat16().float(), after[name])}
    assert "model.embed_tokens.weight" in same and "model.norm.weight" in same
    assert not any("proj" in name for name in same)


def test_the_first_loss_is_that_of_the_action_tokens_alone(start: Path, tmp_path: Path) -> None:
    examples = shop_examples(start, "tiny", OPTIONS, 2)
    settings = SftSettings(batch=2, micro_batch=2, lora=None)
    logged = fine_tune(start, examples, tmp_path / "warm", settings)[0]["loss"]
    model = load_policy(start).causal
    terms = []
    for ids, _ in examples:
        with torch.no_grad():
            logprobs = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1], -1)
        terms.append(-logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0])
    kept = torch.cat([torch.tensor(mask[1:]) == 1 for _, mask in examples])
    assert logged == pytest.approx(torch.cat(terms)[kept].mean().item(), abs=1e-3)
    assert logged != pytest.approx(torch.cat(terms).mean().item(), abs=1e-3)


def test_a_warm_start_leaves_what_it_started_from_and_says_how_it_came_to_be(start: Path, tmp_path: Path) -> None:
    before = (start / "model.safetensors").read_bytes()
    examples = shop_examples(start, "tiny", OPTIONS, 3)
    fine_tune(start, examples, tmp_path / "a", SftSettings(batch=1))
    fine_tune(start, examples, tmp_path / "b", SftSettings(batch=1))
    assert (start / "model.safetensors").read_bytes() == before
    same = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ab"]
    assert same[0] == same[1] and same[0] != before
    record = json.loads((tmp_path / "a" / "warm_start.json").read_text())
    assert record["examples"] == 3 and len(record["rows"]) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert not (tmp_path / "a" / "trainer").exists()


def test_a_warm_start_refuses_what_it_cannot_learn_from(start: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        fine_tune(start, [([1, 2], [0, 1])], tmp_path, SftSettings())
    with pytest.raises(NothingToLearnError, match="1 of 2 demonstrations teach nothing, 1: 1"):
        fine_tune(start, [([1, 2], [0, 1]), ([1, 2], [1, 0])], tmp_path / "new", SftSettings())
    with pytest.raises(ConfigError, match="more tokens than the model's 2048 positions, 1: number 1 with 3000"):
        fine_tune(start, [([1] * 3000, [1] * 3000)], tmp_path / "new", SftSettings())
    with pytest.raises(ConfigError, match="micro_batch=3 does not divide batch=4"):
        SftSettings(micro_batch=3)
    assert not (tmp_path / "new").exists()


def test_a_demonstration_is_learnt_action_by_action_each_with_its_end(start: Path) -> None:
    codec = ChatCodec(load_policy(start).tokenizer, shop().tools, system=shop().system)
    demo = next(demonstrations([shop()], Mix(), seed=3))
    ids, mask = encode(demo, codec)
    runs = [(kept, [t for t, _ in run]) for kept, run in groupby(zip(ids, mask, strict=True), key=lambda pair: pair[1])]
    learnt = [tokens for kept, tokens in runs if kept]
    assert [codec.decode(tokens) for tokens in learnt] == [m["content"] for m in demo.messages[1::2]]
    assert all(tokens[-1] == codec.stop_id for tokens in learnt)
    assert not any(tokens[-1] == codec.stop_id for kept, tokens in runs if not kept)
    assert tuple(runs[0][1]) == codec.prompt(demo.skill_text, demo.messages[0]["content"])
    assert '{"name": "search", "arguments": {"query": "..."}}' in codec.decode(runs[0][1])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_other_languages_are_demonstrated_by_a_shopper_that_reads_only_public_text(language: str) -> None:
    world = ShopWorld("tiny", 101, page_size=5, language=language)
    shown = [greedy_demonstration(world, task.id) for task in world.tasks("train")[:8]]
    bought = [demo for demo in shown if demo is not None]
    assert len(bought) >= 4
    assert all(demo.messages[-1]["content"].count(world.strings.buy) == 1 for demo in bought)
    assert all(demo.messages[-1]["role"] == "assistant" and demo.skill_text == "" for demo in bought)


def test_one_command_makes_the_start_weights_of_an_experiment(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "start"
    words = ["warmstart", "+exp=smollm", "env.preset=tiny", f"policy.path={out}", "policy.lora_rank=4"]
    assert cli.main([*words, "--from", str(start), "--demonstrations", "3"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("3 demonstrations, ") and f"Start weights: {out}" in printed
    assert load_policy(out).tokenizer.chat_template == load_policy(start).tokenizer.chat_template
    assert cli.main([*words, "--from", str(start)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert cli.main(["warmstart", "+exp=quickstart"]) == 2
    assert "set policy.path or --out" in capsys.readouterr().err
    assert cli.main(["warmstart", "+exp=planted", "--out", str(tmp_path / "x")]) == 2
    assert "env.name=shopworld only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"learning_rate": 0.0}, "=0.0"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_a_setting_that_cannot_be_is_named(options: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SftSettings(**options)


def test_demonstrations_that_are_too_long_are_counted_and_named(start: Path, tmp_path: Path) -> None:
    examples = [([1, 2], [0, 1]), ([1] * 9, [1] * 9), ([1] * 8, [1] * 8)]
    wanted = "2 of 3 demonstrations have more tokens than the 5 allowed, 2: number 2 with 9, number 3 with 8"
    with pytest.raises(ConfigError, match=wanted):
        fine_tune(start, examples, tmp_path / "warm", SftSettings(lora=None, max_tokens=5))
    assert not (tmp_path / "warm").exists()
