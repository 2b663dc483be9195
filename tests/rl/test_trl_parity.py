"""Our losses and gradients equal those of the installed TRL's `GRPOTrainer._compute_loss`."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from intraskill.config.learning import LOSSES, GrpoConfig
from intraskill.rl.losses import BatchTotals, mismatch_weights, reduce_losses, token_losses
from intraskill.rl.policy import Policy, load_policy

LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-5
ROWS, PROMPT, COMPLETION, CAP = 8, 10, 24, 1.1


@pytest.fixture(scope="module")
def batch():
    """Ids, a loss mask with observations inside and padding at the end, and advantages."""
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(5, 300, (ROWS, PROMPT), generator=generator)
    completion = torch.randint(5, 300, (ROWS, COMPLETION), generator=generator)
    present, sampled = torch.ones(ROWS, COMPLETION, dtype=torch.long), torch.ones(ROWS, COMPLETION, dtype=torch.long)
    for row in range(ROWS):
        present[row, COMPLETION - 2 * row :] = 0
        sampled[row, 3 : 3 + row] = 0
    return prompt, completion, present, sampled, torch.randn(ROWS, generator=generator)


def our_logprobs(policy: Policy, prompt, completion) -> torch.Tensor:
    logits = policy.causal(torch.cat([prompt, completion], 1)).logits[:, PROMPT - 1 : -1]
    return torch.log_softmax(logits, -1).gather(2, completion[..., None])[..., 0]


@pytest.fixture(scope="module")
def trl_trainer(model_dir: Path, tmp_path_factory: pytest.TempPathFactory):
    """Make a trainer per loss, without a reference model: the reference log-probabilities are passed in."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    out = str(tmp_path_factory.mktemp("trl"))
    tokenizer = AutoTokenizer.from_pretrained(model_dir)

    def make(loss: str, beta: float):
        config = GRPOConfig(
            output_dir=out, per_device_train_batch_size=ROWS, num_generations=4, max_completion_length=COMPLETION,
            loss_type=loss, bf16=False, use_cpu=True, gradient_checkpointing=False, report_to=[],
            epsilon_high=0.28, disable_dropout=True, use_bias_correction_kl=False,
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32),
            reward_funcs=lambda prompts, **_: [0.0] * len(prompts),
            args=config,
            train_dataset=Dataset.from_list([{"prompt": "a"}] * ROWS),
            processing_class=tokenizer,
        )
        trainer.beta, trainer.current_gradient_accumulation_steps = beta, 1
        trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
        return trainer

    return make


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_and_gradients_equal_those_of_trl(loss, batch, trl_trainer, model_dir: Path) -> None:
    prompt, completion, present, sampled_mask, advantages = batch
    mask = (present * sampled_mask).float()
    generator = torch.Generator().manual_seed(2)
    policy = load_policy(model_dir)
    with torch.no_grad():
        now = our_logprobs(policy, prompt, completion)
    old, reference = (now + scale * torch.randn(now.shape, generator=generator) for scale in (0.3, 0.2))
    weights = mismatch_weights(old, old + 0.2 * torch.randn(now.shape, generator=generator), CAP)
    totals = BatchTotals(ROWS, int(mask.sum()), COMPLETION)
    for beta in (0.0, 0.04):
        trainer = trl_trainer(loss, beta)
        inputs = {
            "prompt_ids": prompt, "prompt_mask": torch.ones_like(prompt), "completion_ids": completion,
            "completion_mask": present, "tool_mask": sampled_mask, "advantages": advantages,
            "num_items_in_batch": mask.sum(), "old_per_token_logps": old, "importance_sampling_ratio": weights,
            "ref_per_token_logps": reference,
        }  # fmt: skip
        theirs = trainer._compute_loss(trainer.model.train(), inputs)
        theirs.backward()
        their_gradients = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])

        def ours(grpo: GrpoConfig) -> tuple[float, torch.Tensor]:
            policy.model.zero_grad()
            losses = token_losses(
                grpo,
                our_logprobs(policy, prompt, completion),
                old,
                advantages,
                weights_BS=weights,
                reference_BS=reference,
            )
            value = reduce_losses(grpo, losses, mask, totals)
            value.backward()
            return value.item(), torch.cat([p.grad.flatten() for p in policy.trainable().values()])

        objective = GrpoConfig(loss=loss, clip_low=0.2, clip_high=0.28, kl_beta=beta, mismatch_cap=CAP)
        value, our_gradients = ours(objective)
        assert value == pytest.approx(theirs.item(), abs=LOSS_TOLERANCE)
        assert (our_gradients - their_gradients).norm() / their_gradients.norm() <= GRADIENT_TOLERANCE
        wrong, wrong_gradients = ours(replace(objective, clip_high=0.4))
        assert abs(wrong - theirs.item()) > LOSS_TOLERANCE
        assert (wrong_gradients - their_gradients).norm() / their_gradients.norm() > GRADIENT_TOLERANCE
