"""The entropy bonus of an update: −c · mean token entropy, against a direct formula, and none at all where c is 0.

The mean is over the tokens of the groups that are learnt from: one whose rewards are all equal adds no entropy either.
"""

import pytest
import torch
from rl.test_trainer import SETTINGS, groups_of, learner
from rl.toy import config_of, logprobs_of

from intraskill.rl.losses import BatchTotals, group_advantages, reduce_losses, token_losses
from intraskill.rl.micro_batches import micro_batches

COEFFICIENT = 0.3
WHOLE = {"max_grad_norm": 1e9, "micro_batch_tokens": 10**6}
"""No clipping, so that gradients add up; one micro-batch, so that they are summed in one order."""


def gradients(student):
    return {name: value.grad.clone() for name, value in student.policy.trainable().items()}


def updated(model_dir, groups, **changes):
    student = learner(model_dir, **WHOLE, **changes)
    metrics = student.update(groups)
    return gradients(student), metrics


def plain_entropy(model, rollouts, temperature):
    """The mean entropy (nats) of the distributions that the sampled tokens were drawn from: one forward per rollout."""
    total, count = torch.zeros(()), 0
    for rollout in rollouts:
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.token_ids]])
        logits = model(input_ids=ids).logits[0] / temperature
        before = len(rollout.prompt_ids) - 1
        for offset, sampled in enumerate(rollout.loss_mask):
            if sampled:
                shares = torch.softmax(logits[before + offset].double(), -1)
                total = total - (shares * shares.log()).sum()
                count += 1
    return total / count


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("layout", [{"shared_prefix": False}, {}], ids=["dense", "prefix"])
def test_the_bonus_adds_the_gradient_of_the_mean_entropy(model_dir, temperature, layout):
    changes = {"temperature": temperature, **layout}
    groups = groups_of(learner(model_dir, **changes))
    without, _ = updated(model_dir, groups, **changes)
    added, metrics = updated(model_dir, groups, entropy_coef=COEFFICIENT, **changes)
    plain = learner(model_dir, **changes)
    learnt = [rollout for group in groups if len(set(group.rewards)) > 1 for rollout in group.rollouts]
    entropy = plain_entropy(plain.policy.model, learnt, temperature)
    entropy.backward()
    assert metrics["train/entropy"] == pytest.approx(entropy.item(), rel=1e-5)
    direct = gradients(plain)
    size = max(float(one.abs().max()) for one in direct.values())
    for name, gradient in direct.items():
        found = (added[name] - without[name]) / -COEFFICIENT
        torch.testing.assert_close(found, gradient.to(found.dtype), atol=1e-4 * size, rtol=1e-3)


def test_a_positive_coefficient_raises_the_entropy(model_dir):
    entropies = {}
    for coefficient in (0.0, 1.0):
        student = learner(model_dir, entropy_coef=coefficient)
        groups = groups_of(student)
        entropies[coefficient] = [student.update(groups)["train/entropy"] for _ in range(6)]
    assert entropies[0.0][0] == entropies[1.0][0]
    assert entropies[1.0][-1] > entropies[0.0][-1]
    assert entropies[1.0][-1] > entropies[1.0][0]


def test_zero_leaves_the_gradients_of_the_plain_loss_bit_for_bit(model_dir):
    groups = groups_of(learner(model_dir))
    found, metrics = updated(model_dir, groups, entropy_coef=0.0, shared_prefix=False)
    plain = learner(model_dir)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    advantages = [value for group in groups for value in group_advantages(group.rewards, "grpo")]
    (order,) = micro_batches(rollouts, 10**6, layout="dense")
    scored = logprobs_of(plain.policy, [rollouts[i] for i in order])
    weights = torch.tensor([advantages[i] for i in order])
    grpo = config_of(**SETTINGS).grpo
    losses = token_losses(grpo, scored.logprobs, scored.logprobs.detach(), weights)
    loss = reduce_losses(grpo, losses, scored.mask, BatchTotals(len(rollouts), int(scored.mask.sum()), 96))
    loss.backward()
    assert metrics["train/loss"] == loss.item()
    assert all(torch.equal(found[name], gradient) for name, gradient in gradients(plain).items())
    more, _ = updated(model_dir, groups, entropy_coef=1e-3, shared_prefix=False)
    assert not all(torch.equal(found[name], more[name]) for name in found)
