"""A whole GRPO step, rollout and update, beside one of TRL's `GRPOTrainer` on the same model, group and lengths.

python scripts/bench_step_vs_trl.py [--turns 1 --action 64 --page 48 --size 8] [--repeats 5]

Both sample the same number of tokens for one group of one prompt, give the same rewards and take one optimizer step of
the same loss, in float32, without recomputation. With one turn TRL samples by itself; with more, its `rollout_func`
gives `generate` the whole conversation every turn, as its own environments do, and the pages are masked in its loss.
TRL's trainer runs its own loop; our step runs between two of its steps. Time is processor time of one thread. The limit
is that of forwarded tokens, where a sampled token counts once for sampling. Writes docs/results/bench_step_vs_trl.csv.
"""

import argparse
import tempfile
import time
from statistics import median
from typing import Any

import torch
from bench_model import random_group, random_policy, write_rows
from bench_rollout import NEVER, page
from transformers import AutoTokenizer, TrainerCallback

from intraskill.config.learning import TrainerSettings
from intraskill.config.shipped import CONFIGS, POLICIES
from intraskill.method.rollouts import GroupResult, Rollout
from intraskill.method.skill.skill import BARE
from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.policy import Policy
from intraskill.rl.trainer import Updater

TEXT = (CONFIGS / "skills" / "shopping_draft.md").read_text() * 20
"""About 500 tokens of the shipped tokenizer, the length of a system prompt with a skill."""
LR = 1e-5


class OurStep:
    """Rollout and update with the torch engine and the shared prefix."""

    def __init__(self, prompt: tuple[int, ...], sizes: argparse.Namespace) -> None:
        self.policy, self.prompt, self.sizes, self.count = random_policy(1280), prompt, sizes, 0
        self.engine = TorchEngine(self.policy, stop_id=NEVER, max_new_tokens=sizes.action)
        self.updater = Updater(self.policy, TrainerSettings(lr=LR, token_budget=10**6))

    def __call__(self) -> None:
        """Take one step."""
        self.count += 1
        size = self.sizes.size
        conversations = self.engine.open([self.prompt] * size)
        ids: list[list[int]] = [[] for _ in range(size)]
        mask: list[list[int]] = [[] for _ in range(size)]
        logprobs: list[list[float]] = [[] for _ in range(size)]
        for turn in range(self.sizes.turns):
            shown = {row: page(turn, row, self.sizes.page) for row in range(size)}
            seeds = {row: 10**6 * self.count + 1000 * row + turn for row in range(size)}
            for row, found in conversations.generate(shown, seeds).items():
                ids[row] += [*shown[row], *found.token_ids]
                mask[row] += [0] * len(shown[row]) + [1] * len(found.token_ids)
                logprobs[row] += [0.0] * len(shown[row]) + list(found.logprobs)
        rollouts = tuple(
            Rollout("t", BARE, "", k, self.prompt, tuple(ids[k]), tuple(mask[k]), tuple(logprobs[k]), float(k % 2))
            for k in range(size)
        )
        assert sum(map(sum, mask)) == size * self.sizes.turns * self.sizes.action
        group = random_group(1, 1, 2, 9).group
        self.updater.update([GroupResult(group, rollouts)])


class InTurns(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    """Times TRL's steps, and runs ours after each of them."""

    def __init__(self, ours: OurStep) -> None:
        self.ours, self.rows, self.began = ours, list[dict[str, Any]](), (0.0, 0.0)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self.began = time.process_time(), time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop it, and let the other side work."""
        self._note("trl", state.global_step)
        self.began = time.process_time(), time.perf_counter()
        self.ours()
        self._note("intraskill", state.global_step)

    def _note(self, variant: str, step: int) -> None:
        if step > 1:  # the first one warms up
            spent, wall = time.process_time() - self.began[0], time.perf_counter() - self.began[1]
            self.rows.append(
                {"variant": variant, "repeat": step - 2, "cpu_s": round(spent, 3), "wall_s": round(wall, 3)}
            )


def many_turns(sizes: argparse.Namespace, prompt: tuple[int, ...]) -> Any:
    """Return a `rollout_func`: every turn `generate` is given the whole conversation."""

    @torch.no_grad()
    def roll_out(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        rows = range(len(prompts))
        history = torch.tensor([prompt] * len(prompts))
        mask, logprobs = [torch.zeros(len(prompts), 0)], [torch.zeros(len(prompts), 0)]
        for turn in range(sizes.turns):
            shown = torch.tensor([page(turn, row, sizes.page) for row in rows], dtype=torch.long).view(len(prompts), -1)
            history = torch.cat([history, shown], 1)
            before = history.shape[1]
            options = {"do_sample": True, "top_k": 0, "top_p": 1.0, "pad_token_id": 0, "eos_token_id": None}
            found = trainer.model.generate(
                history, attention_mask=torch.ones_like(history), max_new_tokens=sizes.action,
                return_dict_in_generate=True, output_logits=True, **options,
            )  # fmt: skip
            history = found.sequences
            chosen = [
                torch.log_softmax(logits, -1).gather(1, history[:, before + k, None])
                for k, logits in enumerate(found.logits)
            ]
            mask += [torch.zeros_like(shown), torch.ones(len(prompts), sizes.action)]
            logprobs += [torch.zeros_like(shown), *chosen]
        return {
            "prompt_ids": [list(prompt)] * len(prompts),
            "completion_ids": history[:, len(prompt) :].tolist(),
            "logprobs": torch.cat(logprobs, 1).tolist(),
            "env_mask": torch.cat(mask, 1).int().tolist(),
        }

    return roll_out


def trl_trainer(tokenizer: Any, sizes: argparse.Namespace, repeats: int, callback: InTurns, out: str) -> Any:
    """Return TRL's trainer on the same model."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    length = sizes.turns * sizes.action + (sizes.turns - 1) * sizes.page
    config = GRPOConfig(
        output_dir=out, per_device_train_batch_size=sizes.size, num_generations=sizes.size,
        max_completion_length=length, generation_kwargs={"min_new_tokens": length}, temperature=1.0, top_k=0,
        loss_type="grpo", beta=0.0, learning_rate=LR, lr_scheduler_type="constant", max_steps=repeats + 1, bf16=False,
        use_cpu=True, gradient_checkpointing=False, report_to=[], save_strategy="no", disable_tqdm=True,
        adam_beta2=0.95, logging_strategy="no",
    )  # fmt: skip
    policy: Policy = random_policy(1280)
    return GRPOTrainer(
        model=policy.causal,
        reward_funcs=lambda prompts, **_: [float(k % 2) for k in range(len(prompts))],
        args=config,
        train_dataset=Dataset.from_list([{"prompt": TEXT}] * (repeats + 1)),
        processing_class=tokenizer,
        callbacks=[callback],
        rollout_func=many_turns(sizes, tuple(tokenizer(TEXT)["input_ids"])) if sizes.turns > 1 else None,
    )


def limit(prompt: int, sizes: argparse.Namespace) -> float:
    """Return the ratio of forwarded tokens, an update's counted three times for its backward pass."""
    suffix = sizes.turns * sizes.action + (sizes.turns - 1) * sizes.page
    again = sum(prompt + turn * (sizes.page + sizes.action) + sizes.action for turn in range(sizes.turns))
    theirs = sizes.size * again + 3 * sizes.size * (prompt + suffix)
    return float(theirs / (4 * (prompt + sizes.size * suffix)))


def main() -> None:
    """Measure and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("turns", 1), ("action", 64), ("page", 48), ("size", 8), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    sizes = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(POLICIES / "tiny")
    prompt = tuple(tokenizer(TEXT)["input_ids"])
    callback = InTurns(OurStep(prompt, sizes))
    with tempfile.TemporaryDirectory() as out:
        trl_trainer(tokenizer, sizes, sizes.repeats, callback, out).train()
    spent = {
        name: median(row["cpu_s"] for row in callback.rows if row["variant"] == name) for name in ("trl", "intraskill")
    }
    bound = limit(len(prompt), sizes)
    shape = f"{len(prompt)}x{sizes.turns}x{sizes.action}x{sizes.page}x{sizes.size}"
    ratio = spent["trl"] / spent["intraskill"]
    write_rows("bench_step_vs_trl", [{"shape": shape, "limit_tokens": round(bound, 3), **row} for row in callback.rows])
    print(f"prompt x turns x action x page x group = {shape}: {ratio:.2f} x faster than TRL (limit {bound:.2f})")


if __name__ == "__main__":
    main()
