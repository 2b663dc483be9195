"""Supervised warm start of any policy with TRL's trainer, on demonstrations in the policy's own chat template.

A demonstration is encoded by the codec that rollouts use, so the loss sees exactly the tokens that the policy will see
and sample, the end of each action included. Padding is told from tokens by length: where the pad token is the EOS
token, telling it by its id would keep the policy from ever ending an action.
"""

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from intraskill.method.errors import ConfigError, NothingToLearnError, offenders
from intraskill.rl.policy import LoraSettings, Policy, load_policy
from intraskill.store.run_directory import directory_written_whole, locked_beside

Example = tuple[list[int], list[int]]
"""Token ids (T,), and a mask (T,) that is 1 on the tokens to learn."""

RECORD = "warm_start.json"
_IGNORED = -100
"""What the loss leaves out."""
_SCRATCH = "trainer"


@dataclass(frozen=True, slots=True, kw_only=True)
class SftSettings:
    """Every option of a warm start.

    Attributes:
        learning_rate: AdamW's, after a linear warm-up, falling to 0.
        batch: demonstrations per optimizer step.
        micro_batch: demonstrations per forward pass; on a CPU one is as fast as many, and pads nothing.
        epochs: passes over the demonstrations.
        lora: train an adapter and merge it once at the end; ``None`` trains all weights.
        threads: torch threads.
        seed: order of the demonstrations.
        warmup: share of the steps that warm up, one step at least.
        schedule: how the learning rate falls: ``linear`` or ``cosine``.
        max_tokens: longest demonstration; ``None`` is what the model's positions hold.
    """

    learning_rate: float = 1e-3
    batch: int = 4
    micro_batch: int = 1
    epochs: int = 1
    lora: LoraSettings | None
    threads: int
    seed: int
    warmup: float = 0.1
    schedule: str = "linear"
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in ("batch", "micro_batch", "epochs", "threads")}
        if wrong := [f"{name}={value}" for name, value in sizes.items() if value < 1]:
            raise ConfigError(f"{wrong[0]} of a warm start must be at least 1")
        if not 0 < self.learning_rate < 1:
            raise ConfigError(f"learning_rate={self.learning_rate} of a warm start is outside (0, 1)")
        if not 0 <= self.warmup < 1 or self.schedule not in ("linear", "cosine"):
            raise ConfigError(f"warmup={self.warmup} must lie in [0, 1), schedule={self.schedule} be linear or cosine")
        if self.batch % self.micro_batch:
            raise ConfigError(f"micro_batch={self.micro_batch} does not divide batch={self.batch}")


def fine_tune(
    start: Path,
    examples: Sequence[Example],
    out: Path,
    settings: SftSettings,
    log: Callable[[dict[str, float]], None] = lambda row: None,
) -> list[dict[str, float]]:
    """Train the model of ``start`` on the examples and write model, tokenizer and ``warm_start.json`` into ``out``.

    Args:
        start: a model directory.
        examples: encoded demonstrations.
        out: a directory that does not exist yet; it appears whole or not at all.
        settings: every option.
        log: called with ``step``, ``loss`` (nats per learnt token) and ``seconds`` after every optimizer step.

    Returns:
        The logged rows.

    Raises:
        ConfigError: if ``out`` exists, or an example is longer than the model's positions.
        ArtifactError: if ``out`` cannot be written.
        NothingToLearnError: if an example has no token to learn.
    """
    rows: list[dict[str, float]] = []

    def note(row: dict[str, float]) -> None:
        rows.append(row)
        log(row)

    with locked_beside(out):
        if out.exists():
            raise ConfigError(f"{out} exists already; choose another directory, or delete it to make it anew")
        if empty := [number for number, (_, mask) in enumerate(examples) if not any(mask[1:])]:
            raise NothingToLearnError(
                f"{len(empty)} of {len(examples)} demonstrations teach nothing, {offenders(empty)}"
            )
        torch.set_num_threads(settings.threads)
        policy = load_policy(start, lora=settings.lora)
        _check_lengths(examples, policy.causal.config.max_position_embeddings, settings.max_tokens)
        with directory_written_whole(out) as aside:
            trainer = _trainer(policy.model, policy.tokenizer, examples, settings, aside, note)
            trainer.train()
            shutil.rmtree(aside / _SCRATCH, ignore_errors=True)
            _save(policy, aside, merge=settings.lora is not None)
            facts = {"start": str(start), "examples": len(examples), "settings": asdict(settings), "rows": rows}
            (aside / RECORD).write_text(json.dumps(facts, indent=2) + "\n")
    return rows


def _save(policy: Policy, directory: Path, *, merge: bool) -> None:
    # Once, at the end: merging again and again would let the frozen weights drift.
    model = policy.model.merge_and_unload() if merge else policy.model
    model.set_attn_implementation("sdpa")
    model.to(torch.bfloat16).save_pretrained(directory)
    policy.tokenizer.save_pretrained(directory)


def _check_lengths(examples: Sequence[Example], positions: int, allowed: int | None) -> None:
    most = positions if allowed is None else min(positions, allowed)
    limit = f"the model's {positions} positions" if most == positions else f"the {allowed} allowed"
    if long := [f"number {n} with {len(ids)}" for n, (ids, _) in enumerate(examples, 1) if len(ids) > most]:
        raise ConfigError(
            f"{len(long)} of {len(examples)} demonstrations have more tokens than {limit}, {offenders(long)}; shorten "
            "or remove them"
        )


def _trainer(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Example],
    settings: SftSettings,
    directory: Path,
    log: Callable[[dict[str, float]], None],
) -> Any:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import SFTTrainer

    started = time.monotonic()

    class Note(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs and "loss" in logs:
                seconds = round(time.monotonic() - started, 1)
                log({"step": float(state.global_step), "loss": round(float(logs["loss"]), 4), "seconds": seconds})

    labels = [[t if kept else _IGNORED for t, kept in zip(ids, mask, strict=True)] for ids, mask in examples]
    steps = settings.epochs * -(-len(examples) // settings.batch)
    trainer = SFTTrainer(
        model=model,
        args=_configuration(settings, steps, directory / _SCRATCH),
        train_dataset=Dataset.from_dict({"input_ids": [ids for ids, _ in examples], "labels": labels}),
        processing_class=tokenizer,
        callbacks=[Note()],
    )
    for callback in list(trainer.callback_handler.callbacks):
        if type(callback).__name__ in ("PrinterCallback", "ProgressCallback"):
            trainer.remove_callback(callback)
    return trainer


def _configuration(settings: SftSettings, steps: int, scratch: Path) -> Any:
    from trl import SFTConfig

    return SFTConfig(
        output_dir=str(scratch),
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=settings.batch // settings.micro_batch,
        num_train_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        warmup_steps=max(1, int(steps * settings.warmup)),
        lr_scheduler_type=settings.schedule,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=settings.seed,
        data_seed=settings.seed,
        bf16=False,
        gradient_checkpointing=False,
        max_length=None,
        use_cpu=not torch.cuda.is_available(),
        dataset_kwargs={"skip_prepare_dataset": True},
    )
