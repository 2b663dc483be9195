"""The torch learner: it learns, continues bit-identically, and refuses what it cannot use."""

import dataclasses
import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rl.toy import SKILL, CountingWorld, config_of, episode, group_of, write_model

from intraskill.config.config import check
from intraskill.method.errors import CheckpointError, ConfigError, NothingToLearnError
from intraskill.method.rollouts import GroupResult
from intraskill.method.skill.skill import BARE
from intraskill.rl.policy import LoraSettings, Policy, load_policy
from intraskill.rl.trainer import TorchLearner, rate_factor

SETTINGS = {
    **{"lr": 3e-3, "clip_low": 0.2, "clip_high": 0.2, "micro_batch_tokens": 1500},
    **{"temperature": 1.0, "max_turns": 4, "max_new_tokens": 24, "max_context": 600, "batch": 64},
}
GRADIENT_TOLERANCE = 1e-4


def learner(model_dir: Path, lora: LoraSettings | None = None, **changes) -> TorchLearner:
    return TorchLearner(load_policy(model_dir, lora=lora), CountingWorld(), config_of(**SETTINGS | changes))


def groups_of(learner: TorchLearner, step: int = 0, size: int = 5) -> list[GroupResult]:
    """Two groups of one step: one bare, one assisted."""
    episodes = [
        episode(task_id, 100 * step + sample, visible)
        for task_id, visible in (("bbbb", BARE), ("ccccc", frozenset(SKILL.ids)))
        for sample in range(size)
    ]
    rollouts = learner.run(episodes)
    return [group_of(rollouts[:size], 0), group_of(rollouts[size:], 1)]


def test_training_raises_the_reward(model_dir: Path) -> None:
    student = learner(model_dir)
    rewards = []
    for step in range(7):
        groups = groups_of(student, step, size=8)
        rewards.append(sum(sum(group.rewards) for group in groups) / 16)
        student.update(groups)
    assert sum(rewards[-3:]) > 1.5 * sum(rewards[:3])


def test_an_update_reports_what_happened(model_dir: Path) -> None:
    student = learner(model_dir, warmup_steps=4)
    groups = groups_of(student)
    constant = dataclasses.replace(
        groups[0], rollouts=tuple(dataclasses.replace(r, reward=0.5) for r in groups[0].rollouts)
    )
    metrics = student.update([*groups, constant])
    assert set(metrics) >= {
        "train/loss", "train/grad_norm", "train/clip_share", "train/zero_variance_groups", "train/logprob_gap",
        "train/tokens", "train/entropy", "train/lr",
    }  # fmt: skip
    assert metrics["train/zero_variance_groups"] == 1.0
    assert metrics["train/logprob_gap"] < 1e-5
    assert metrics["train/clip_share"] == 0.0, "the first step on fresh rollouts is on-policy"
    assert metrics["train/lr"] == pytest.approx(SETTINGS["lr"] / 4)
    assert metrics["train/tokens"] == sum(sum(r.loss_mask) for group in groups for r in group.rollouts)
    assert 0 < metrics["train/entropy"] < math.log(512)
    assert all(math.isfinite(value) for value in metrics.values())
    assert student.update(groups)["train/logprob_gap"] > 1e-5, "after a step the old rollouts are off-policy"


def test_several_updates_on_one_batch_leave_the_old_policy_and_clip(model_dir: Path) -> None:
    student = learner(model_dir, updates_per_batch=3, clip_low=0.05, clip_high=0.05, lr=1e-2)
    metrics = student.update(groups_of(student))
    assert metrics["train/clip_share"] > 0
    assert metrics["train/logprob_gap"] < 1e-5, "the gap is measured against the weights that sampled"


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo", "bnpo", "cispo"])
def test_cutting_the_batch_changes_no_gradient(model_dir: Path, loss: str) -> None:
    norms = []
    layouts = ({"shared_prefix": False}, {})
    for budget, layout in itertools.product((10**6, 300), layouts):
        student = learner(model_dir, loss=loss, micro_batch_tokens=budget, clip_high=2.0, **layout)
        norms.append(student.update(groups_of(student))["train/grad_norm"])
    assert norms == pytest.approx([norms[0]] * 4, rel=GRADIENT_TOLERANCE)
    half = learner(model_dir, loss=loss, clip_high=2.0)
    assert half.update(groups_of(half)[:1])["train/grad_norm"] != pytest.approx(norms[0], rel=GRADIENT_TOLERANCE)


def test_a_faulted_rollout_is_left_out_of_its_group(model_dir: Path) -> None:
    student, other = learner(model_dir), learner(model_dir)
    groups = groups_of(student)
    broken = dataclasses.replace(groups[0].rollouts[0], reward=None, fault="environment: KeyError")
    with_fault = [dataclasses.replace(groups[0], rollouts=(broken, *groups[0].rollouts[1:])), groups[1]]
    without = [dataclasses.replace(groups[0], rollouts=groups[0].rollouts[1:]), groups[1]]
    found = {name: value for name, value in student.update(with_fault).items() if not name.startswith("rollout/")}
    assert found == {**other.update(without), "train/fault_rollouts": 1.0}
    assert student.checkpoint == other.checkpoint


def test_rollouts_that_a_limit_cut_off_can_stay_out_of_the_loss_and_in_the_mean(model_dir: Path) -> None:
    plain, masking = learner(model_dir), learner(model_dir, mask_truncated=True)
    groups = groups_of(plain)
    cut = [
        dataclasses.replace(
            result, rollouts=(dataclasses.replace(result.rollouts[0], truncated=True), *result.rollouts[1:])
        )
        for result in groups
    ]
    whole, masked = plain._updater._batch(cut), masking._updater._batch(cut)
    kept = [i for i, rollout in enumerate(whole.rollouts) if not rollout.truncated]
    assert 0 < len(kept) <= len(whole.rollouts) - 2
    assert masked.rollouts == [whole.rollouts[i] for i in kept]
    assert masked.advantages == [whole.advantages[i] for i in kept]
    before = masking.checkpoint
    masking.update(cut)
    plain.update(cut)
    assert before != masking.checkpoint != plain.checkpoint


def test_the_learning_rate_warms_up_and_decays_to_nothing_at_the_last_step(model_dir: Path) -> None:
    def rates(**changes):
        grpo = config_of(lr_decay="none", **changes).grpo
        return [rate_factor(grpo, step, 10) for step in range(11)]

    assert rates() == [1.0] * 11
    assert rates(warmup_steps=4)[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    linear, cosine = (
        dataclasses.replace(config_of(warmup_steps=2).grpo, lr_decay=kind) for kind in ("linear", "cosine")
    )
    assert [rate_factor(linear, step, 10) for step in (1, 2, 6, 10, 99)] == [1.0, 1.0, 0.5, 0.0, 0.0]
    assert [rate_factor(cosine, step, 10) for step in (2, 6, 10)] == pytest.approx([1.0, 0.5, 0.0])
    student = learner(model_dir, lr_decay="linear", rounds=2, steps_per_round=2)
    seen = []
    for step in range(4):
        student.update(groups_of(student, step))
        seen.append(student._updater.optimizer.param_groups[0]["lr"] / student._updater.grpo.lr)
    assert seen == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_nothing_to_learn_is_an_error_and_changes_no_weight(model_dir: Path) -> None:
    student = learner(model_dir)
    before = student.checkpoint
    faulted = student.run([episode("broken-reset", sample) for sample in range(4)])
    for groups in ([], [group_of(faulted)]):
        with pytest.raises(NothingToLearnError, match="carries signal"):
            student.update(groups)
    assert student.checkpoint == before


def test_a_group_with_two_prompts_is_refused(model_dir: Path) -> None:
    student = learner(model_dir)
    first, second = groups_of(student)
    mixed = dataclasses.replace(first, rollouts=(*first.rollouts[:2], *second.rollouts[:2]))
    with pytest.raises(ValueError, match=r"r000/s0000/g00: its rollouts do not share one prompt"):
        student.update([mixed])


@pytest.mark.parametrize("lora", [None, LoraSettings(4, 8, "all-linear")], ids=["full", "lora"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"updates_per_batch": 3, "workers": 2},
        {"updates_per_batch": 2, "checkpoint_activations": True, "kl_beta": 0.1},
    ],
    ids=["one step", "three steps, two workers", "two steps, recomputed, KL"],
)
def test_training_continues_bit_identically_after_a_reload(
    model_dir: Path, tmp_path: Path, lora: LoraSettings | None, changes: dict[str, Any]
) -> None:
    changes = {"warmup_steps": 5, **changes}
    straight = learner(model_dir, lora, **changes)
    straight.update(groups_of(straight, 0))
    straight.save(tmp_path)
    resumed = learner(model_dir, lora, **changes)
    assert resumed.checkpoint != straight.checkpoint
    resumed.load(tmp_path)
    assert resumed.checkpoint == straight.checkpoint
    for step in (1, 2):
        ours, theirs = groups_of(straight, step), groups_of(resumed, step)
        assert ours == theirs
        assert straight.update(ours) == resumed.update(theirs)
        assert straight.checkpoint == resumed.checkpoint
    forgetful = learner(model_dir, lora, **changes)
    forgetful.load(tmp_path)
    forgetful._updater.optimizer.state.clear()
    forgetful.update(groups_of(forgetful, 1))
    forgetful.update(groups_of(forgetful, 2))
    assert forgetful.checkpoint != straight.checkpoint, "the optimizer's state matters"


def test_saving_twice_writes_the_same_bytes_and_the_manifest_last(model_dir: Path, tmp_path: Path) -> None:
    student = learner(model_dir)
    student.update(groups_of(student))
    written = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        student.save(tmp_path / name)
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {"manifest.json", "weights.safetensors", "optimizer.safetensors"}
    assert json.loads(written[0]["manifest.json"])["checkpoint"] == student.checkpoint


def test_a_broken_checkpoint_is_refused_with_its_reason_and_changes_nothing(model_dir: Path, tmp_path: Path) -> None:
    source, student = learner(model_dir), learner(model_dir)
    source.update(groups_of(source))
    good = tmp_path / "good"
    good.mkdir()
    source.save(good)
    before = student.checkpoint

    def spoiled(name: str) -> Path:
        shutil.copytree(good, tmp_path / name)
        return tmp_path / name

    missing, flipped, garbled = spoiled("missing"), spoiled("flipped"), spoiled("garbled")
    (missing / "manifest.json").unlink()
    data = bytearray((flipped / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (flipped / "weights.safetensors").write_bytes(data)
    (garbled / "manifest.json").write_text("{")
    for directory, message in ((missing, "no finished checkpoint"), (flipped, "corrupt"), (garbled, "cannot be read")):
        with pytest.raises(CheckpointError, match=message):
            student.load(directory)
    assert student.checkpoint == before
    student.load(good)
    assert student.checkpoint == source.checkpoint


def test_a_checkpoint_of_another_model_is_refused(model_dir: Path, tmp_path: Path) -> None:
    student = learner(model_dir)
    student.save(tmp_path)
    wider = learner(write_model(tmp_path / "wider", hidden=64))
    adapted = learner(model_dir, LoraSettings(4, 32, "all-linear"))
    for other in (wider, adapted):
        with pytest.raises(CheckpointError, match="another model"):
            other.load(tmp_path)


def test_an_adapter_on_other_frozen_weights_is_refused(model_dir: Path, tmp_path: Path) -> None:
    learner(model_dir, LoraSettings(4, 32, "all-linear")).save(tmp_path)
    other = learner(write_model(tmp_path / "other", seed=1), LoraSettings(4, 32, "all-linear"))
    with pytest.raises(CheckpointError, match="frozen"):
        other.load(tmp_path)


def test_an_adapter_moves_and_the_weights_below_stay(model_dir: Path) -> None:
    student = learner(model_dir, LoraSettings(4, 8, "all-linear"))
    frozen = {name: p.detach().clone() for name, p in student.policy.frozen().items()}
    before = student.checkpoint
    assert frozen and all("lora_" in name for name in student.policy.trainable())
    student.update(groups_of(student))
    assert student.checkpoint != before
    assert all(torch.equal(p, frozen[name]) for name, p in student.policy.frozen().items())


@pytest.mark.parametrize("lora", [None, LoraSettings(4, 8, "all-linear")])
def test_a_kl_penalty_holds_the_policy_near_its_start(model_dir: Path, lora: LoraSettings | None) -> None:
    gaps = []
    for beta in (0.0, 50.0):
        student = learner(model_dir, lora, kl_beta=beta, lr=1e-2, updates_per_batch=4, clip_high=100.0)
        groups = groups_of(student)[:1]
        student.update(groups)
        gaps.append(student.update(groups)["train/logprob_gap"])
    assert gaps[1] < 0.5 * gaps[0]


def test_the_checkpoint_names_the_weights(model_dir: Path) -> None:
    student, twin = learner(model_dir), learner(model_dir)
    assert student.checkpoint == twin.checkpoint
    with torch.no_grad():
        next(iter(twin.policy.trainable().values())).view(-1)[3] += 1e-6
    twin._checkpoint = None
    assert student.checkpoint != twin.checkpoint
    assert {r.checkpoint for r in student.run([episode("aaa")])} == {student.checkpoint}


def test_conditions_change_with_sampling_prompt_and_environment(policy: Policy) -> None:
    def at(world: CountingWorld, **changes) -> TorchLearner:
        return TorchLearner(policy, world, config_of(**SETTINGS | changes))

    please = CountingWorld()
    please.system = "Please."
    plain, warmer, faster = (
        at(CountingWorld(), **changes) for changes in ({}, {"temperature": 0.9}, {"lr": 1.0, "batch": 3})
    )
    polite, newer = at(please), at(CountingWorld("counting-2"))
    for other, key in ((warmer, "sampling"), (polite, "prompt"), (newer, "environment")):
        assert {k for k in plain.conditions if plain.conditions[k] != other.conditions[k]} == {key}
    assert faster.conditions == plain.conditions


def test_settings_out_of_range_are_refused(policy: Policy) -> None:
    for name, wrong in (("lr", 0.0), ("temperature", 0.0), ("micro_batch_tokens", 0), ("warmup_steps", -1)):
        with pytest.raises(ConfigError, match=rf"{name}={wrong} is outside"):
            check(config_of(**{name: wrong}))
    for name in ("loss", "self_check"):
        with pytest.raises(ConfigError, match=f"{name}=ppo is not one of"):
            check(config_of(**{name: "ppo"}))
    with pytest.raises(ConfigError, match="exceeds the model's 1024 positions"):
        TorchLearner(policy, CountingWorld(), config_of(**SETTINGS | {"max_context": 2000}))


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no config.json"):
        load_policy(tmp_path)


def test_a_model_that_caps_its_logits_is_refused(tmp_path: Path) -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, final_logit_softcapping=0.01,
    )  # fmt: skip
    write_model(tmp_path)
    Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="changes its logits after the head"):
        load_policy(tmp_path)


@pytest.mark.parametrize(("lora", "beta"), [(None, 0.0), (LoraSettings(4, 8, "all-linear"), 0.5)])
def test_two_workers_roll_out_and_learn_like_one(model_dir: Path, lora: LoraSettings | None, beta: float) -> None:
    states = []
    for workers in (1, 2):
        student = learner(model_dir, lora, kl_beta=beta, workers=workers, batch=5, micro_batch_tokens=300)
        groups = groups_of(student)
        student.update(groups)
        tokens = [rollout.token_ids for group in groups for rollout in group.rollouts]
        states.append((tokens, torch.cat([p.detach().flatten() for p in student.policy.trainable().values()])))
    assert states[0][0] == states[1][0]
    torch.testing.assert_close(states[0][1], states[1][1], rtol=GRADIENT_TOLERANCE, atol=1e-5)
    untouched = learner(model_dir, lora)
    before = torch.cat([p.detach().flatten() for p in untouched.policy.trainable().values()])
    assert not torch.allclose(states[1][1], before, rtol=GRADIENT_TOLERANCE, atol=1e-5)


def test_variables_of_the_chat_template_come_from_the_config_and_are_a_condition(model_dir: Path) -> None:
    plain, thinking = learner(model_dir), learner(model_dir, template_options={"enable_thinking": False})
    assert plain.conditions["prompt"] != thinking.conditions["prompt"]
    assert plain.conditions["prompt"] == learner(model_dir, template_options={}).conditions["prompt"]
