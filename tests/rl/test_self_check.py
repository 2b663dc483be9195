"""The first update compares the shared prefix with the dense path, and a disagreement is never silent."""

import warnings
from pathlib import Path

import pytest
import torch
from rl.test_prefix_cache import FAMILIES, SMALL, made, rollout
from rl.test_trainer import groups_of, learner
from transformers import AutoModelForCausalLM, MistralConfig

from intraskill.method.errors import ConfigError
from intraskill.rl import logprobs
from intraskill.rl.logprobs import prefix_cache
from intraskill.rl.policy import LoraSettings, Policy
from intraskill.rl.self_check import BOUNDS, COARSE, PrefixWarning, disagreement, probe

GROUP = [rollout(50, length, 7 * length) for length in (9, 17, 30)]


def forgets_the_prefix(config):
    """A cache that repeats zeros, as a change in Transformers might."""
    cache = prefix_cache(config)
    whole = cache.batch_repeat_interleave

    def repeat(repeats: int) -> None:
        whole(repeats)
        for layer in cache.layers:
            if hasattr(layer, "keys"):
                layer.keys = torch.zeros_like(layer.keys)

    cache.batch_repeat_interleave = repeat
    return cache


def compared(policy: Policy, *, checkpoints: bool = False) -> str | None:
    return disagreement(policy, probe(GROUP), "prefix", temperature=0.8, checkpoint_activations=checkpoints)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_sound_models_agree_and_keep_no_gradient(family: str, checkpoints: bool, dtype: torch.dtype) -> None:
    policy = made(family, adapted=False)
    policy.model.to(dtype)
    drawn = torch.get_rng_state()
    assert compared(policy, checkpoints=checkpoints) is None
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(p.grad is None for p in policy.model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_lost_prefix_is_noticed_in_coarse_numbers_too(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = made("qwen3", adapted=True)
    policy.model.to(dtype)
    with torch.no_grad():  # a random model hardly reads its context
        for name, parameter in policy.model.named_parameters():
            if parameter.ndim == 2 and "lora" not in name:
                parameter.mul_(8)
    assert compared(policy) is None
    monkeypatch.setattr(logprobs, "prefix_cache", forgets_the_prefix)
    found = compared(policy)
    assert found is not None and f"bound {BOUNDS.get(dtype, COARSE)[0]:g}" in found


def test_the_probe_is_two_short_different_rollouts_of_one_prompt() -> None:
    longer = [rollout(60, 2, 5), rollout(60, 3, 5)]
    assert probe([*longer, GROUP[2], GROUP[0], GROUP[0], GROUP[1]]) == [GROUP[0], GROUP[1]]
    assert probe([GROUP[2], GROUP[2]]) == [GROUP[2]]


def test_a_model_whose_cache_cannot_be_shared_goes_on_dense() -> None:
    torch.manual_seed(0)
    sliding = MistralConfig(num_hidden_layers=1, sliding_window=8, **SMALL)
    found = compared(Policy(AutoModelForCausalLM.from_config(sliding).eval(), None, ""))
    assert found is not None and "DynamicSlidingWindowLayer" in found


@pytest.mark.parametrize("lora", [None, LoraSettings(4, 8, "all-linear")])
def test_the_check_changes_nothing_that_is_learned(model_dir: Path, lora: LoraSettings | None) -> None:
    students = [learner(model_dir, lora, self_check=mode) for mode in ("error", "off")]
    groups = [groups_of(student) for student in students][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrefixWarning)
        metrics = [student.update(groups) for student in students]
    assert metrics[0] == metrics[1]
    assert metrics[0]["train/dense_fallback"] == 0.0 and "train/warning" not in metrics[0]
    assert students[0].checkpoint == students[1].checkpoint


def test_a_failed_check_is_loud_and_trains_as_the_dense_path_does_after_a_resume_too(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dense, shared, strict = (
        learner(model_dir, shared_prefix=False), learner(model_dir), learner(model_dir, self_check="error"),
    )  # fmt: skip
    groups = groups_of(dense)
    dense.update(groups)
    monkeypatch.setattr(logprobs, "prefix_cache", forgets_the_prefix)
    with pytest.warns(PrefixWarning, match=r"every rollout is forwarded whole: log-probabilities differ by"):
        metrics = shared.update(groups)
    assert metrics["train/dense_fallback"] == 1.0 and "forwarded whole" in metrics["train/warning"]
    assert shared.checkpoint == dense.checkpoint
    with pytest.raises(ConfigError, match=r"failed its self-check: .* set grpo\.shared_prefix=false"):
        strict.update(groups)
    assert strict.checkpoint != dense.checkpoint
    shared.save(tmp_path)
    monkeypatch.undo()
    resumed = learner(model_dir)
    with pytest.warns(PrefixWarning, match="forwarded whole"):
        resumed.load(tmp_path)
    later = groups_of(dense, 1)
    assert resumed.update(later)["train/dense_fallback"] == 1.0
    dense.update(later)
    assert resumed.checkpoint == dense.checkpoint


def test_an_unchecked_lost_prefix_would_train_something_else(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dense, broken = learner(model_dir, shared_prefix=False), learner(model_dir, self_check="off")
    groups = groups_of(dense)
    norm = dense.update(groups)["train/grad_norm"]
    monkeypatch.setattr(logprobs, "prefix_cache", forgets_the_prefix)
    assert abs(broken.update(groups)["train/grad_norm"] / norm - 1) > 1e-2
