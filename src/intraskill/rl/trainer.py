"""The torch learner: rollouts, GRPO updates and exact checkpoints of one policy in one environment (method §5)."""

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from intraskill.config.config import Config
from intraskill.config.learning import GrpoConfig
from intraskill.environments.protocol import Environment, system_of
from intraskill.method.errors import ConfigError, NothingToLearnError, offenders
from intraskill.method.randomness import content_hash
from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.rl.chat import ChatCodec
from intraskill.rl.checkpoints import weights_hash, whole
from intraskill.rl.distributed.ddp import Alone, forwarded_tokens
from intraskill.rl.engines.constrained import Constraint
from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.logprobs import TokenLogprobs, batch_logprobs, sampled_logprobs
from intraskill.rl.losses import (
    BatchTotals,
    clipped_tokens,
    group_advantages,
    mismatch_weights,
    reduce_losses,
    token_losses,
)
from intraskill.rl.micro_batches import Layout, micro_batches
from intraskill.rl.policy import Engine, Policy
from intraskill.rl.replicas import Replicas
from intraskill.rl.rollout import in_batches, run_episodes
from intraskill.rl.self_check import PrefixWarning, probe

_BETAS = (0.9, 0.95)
"""Moment decays of AdamW."""


def rate_factor(grpo: GrpoConfig, step: int, steps: int) -> float:
    """Return the share of ``grpo.lr`` at one optimizer step: up in the warm-up, then level or down to 0.

    Args:
        grpo: says how.
        step: 0 for the first.
        steps: of the whole run.
    """
    if step < grpo.warmup_steps:
        return (step + 1) / grpo.warmup_steps
    done = min(1.0, (step - grpo.warmup_steps) / max(1, steps - grpo.warmup_steps))
    return {"none": 1.0, "linear": 1.0 - done, "cosine": (1.0 + math.cos(math.pi * done)) / 2}[grpo.lr_decay]


@dataclass(slots=True)
class _Batch:
    """What one update learns from: rollouts, their advantages (B,), and this process's micro-batches of indices.

    The last ``idle`` of them belong to other processes and only keep step with these; totals are those of all.
    """

    rollouts: list[Rollout]
    advantages: list[float]
    micro: list[list[int]]
    idle: int
    totals: BatchTotals
    zero_variance: int


@dataclass(slots=True)
class _Part:
    """What one micro-batch adds to the metrics, and its log-probabilities (B, S) before the step."""

    sums: dict[str, float]
    logprobs: torch.Tensor


class Updater:
    """The optimizer of one policy.

    Args:
        policy: what is trained.
        config: its sections ``grpo`` and ``rollout``, and ``workers``.
        constraint: what restricted the sampling, if anything; log-probabilities are renormalised over the same tokens.
        together: how the update is shared among processes.

    Attributes:
        steps: optimizer steps taken.
        layout: how micro-batches are forwarded.
        fallback: why the layout is dense although a shared prefix was asked for; empty when it is not.
    """

    def __init__(
        self,
        policy: Policy,
        config: Config,
        constraint: Constraint | None = None,
        together: Alone | None = None,
    ) -> None:
        self.policy, self.grpo, self.rollout = policy, config.grpo, config.rollout
        self.together = together or Alone()
        self._constraint = constraint
        self.optimizer = torch.optim.AdamW(
            list(policy.trainable().values()), lr=self.grpo.lr, betas=_BETAS, weight_decay=self.grpo.weight_decay
        )
        self.steps = 0
        self._all_steps = config.rounds * self.grpo.steps_per_round * self.grpo.updates_per_batch
        self.layout: Layout = "prefix" if self.grpo.shared_prefix else "dense"
        self.fallback = ""
        self._to_check = self.layout != "dense" and self.grpo.self_check != "off"
        self._reference = _reference_of(policy) if self.grpo.kl_beta else None
        self._replicas = Replicas(policy.model, config.workers)
        self._policies = [policy, *(Policy(m, policy.tokenizer, policy.identity) for m in self._replicas.models[1:])]

    def update(self, groups: Sequence[GroupResult]) -> dict[str, Any]:
        """Take ``updates_per_batch`` optimizer steps on the groups that carry signal.

        Faulted rollouts are left out of their group; a group whose rewards do not differ teaches nothing.

        Raises:
            NothingToLearnError: if no group carries signal, or the gradient is not finite.
            ConfigError: if ``self_check=error`` and the shared prefix gives other numbers than the dense path.
            ValueError: if the rollouts of a group do not share one prompt.
        """
        batch = self._batch(groups)
        fell_back = self._to_check and self._falls_back(batch)
        metrics: dict[str, Any] = {}
        old: list[torch.Tensor] = []
        for _ in range(self.grpo.updates_per_batch):
            metrics = self._step(batch, old)
        metrics["train/zero_variance_groups"] = float(batch.zero_variance)
        metrics["train/fault_rollouts"] = float(sum(r.fault is not None for g in groups for r in g.rollouts))
        metrics["train/dense_fallback"] = float(bool(self.fallback))
        if fell_back:
            metrics["train/warning"] = self.fallback
        return metrics

    def fall_back(self, reason: str) -> None:
        """Use the dense layout from now on, and say so on standard error."""
        self.layout, self.fallback, self._to_check = "dense", reason, False
        warnings.warn(reason, PrefixWarning, stacklevel=2)

    def _falls_back(self, batch: _Batch) -> bool:
        """Compare the layout with the dense one, once; on disagreement cut the batch anew for the dense one."""
        self._to_check = False
        difference = self.together.disagreement(
            self.policy,
            probe(batch.rollouts),
            self.layout,
            temperature=self.rollout.temperature,
            checkpoint_activations=self.grpo.checkpoint_activations,
        )
        if difference is None:
            return False
        if self.grpo.self_check == "error":
            raise ConfigError(f"grpo.shared_prefix failed its self-check: {difference}; set grpo.shared_prefix=false")
        self.fall_back(f"grpo.shared_prefix is off, every rollout is forwarded whole: {difference}")
        batch.micro, batch.idle = self._own(batch.rollouts)
        return True

    def _own(self, rollouts: Sequence[Rollout]) -> tuple[list[list[int]], int]:
        """Cut all micro-batches and return those of this process, and how many of them are idle."""
        every = micro_batches(rollouts, self.grpo.micro_batch_tokens, layout=self.layout, parts=self.together.parts)
        own, idle = self.together.deal([forwarded_tokens(rollouts, members, self.layout) for members in every])
        return [every[index] for index in own], idle

    def _batch(self, groups: Sequence[GroupResult]) -> _Batch:
        rollouts: list[Rollout] = []
        advantages: list[float] = []
        zero_variance = 0
        for result in groups:
            valid = [r for r in result.rollouts if r.reward is not None and any(r.loss_mask)]
            if len({r.prompt_ids for r in valid}) > 1:
                raise ValueError(f"group {result.group.id}: its rollouts do not share one prompt (method §5.1)")
            values = group_advantages([r.reward for r in valid if r.reward is not None], self.grpo.loss)
            if not any(values):
                zero_variance += 1
                continue
            kept = [pair for pair in zip(valid, values, strict=True) if not self._masked(pair[0])]
            rollouts += [rollout for rollout, _ in kept]
            advantages += [value for _, value in kept]
        if not rollouts:
            faults = [r.fault for result in groups for r in result.rollouts if r.fault is not None]
            raise NothingToLearnError(
                f"none of {len(groups)} groups carries signal: in each, all scored rewards are equal or fewer than two "
                f"rollouts were scored; faults, {offenders(faults)}"
            )
        micro, idle = self._own(rollouts)
        longest = min(self.rollout.max_turns * self.rollout.max_new_tokens, self.rollout.max_context)
        totals = BatchTotals(len(rollouts), sum(sum(r.loss_mask) for r in rollouts), longest)
        return _Batch(rollouts, advantages, micro, idle, totals, zero_variance)

    def _masked(self, rollout: Rollout) -> bool:
        """Whether a rollout stays out of the loss because a limit cut it off (DAPO's overlong filtering)."""
        return self.grpo.mask_truncated and rollout.truncated

    def _step(self, batch: _Batch, old: list[torch.Tensor]) -> dict[str, float]:
        """Take one optimizer step; the first fills ``old`` with the log-probabilities before any step."""
        first = not old
        sums = dict.fromkeys(("loss", "entropy", "clipped", "gap"), 0.0)
        self.optimizer.zero_grad(set_to_none=True)
        parts = self._replicas.map(lambda k, index: self._backward(k, batch, index, old), range(len(batch.micro)))
        for part in parts:
            sums = {name: value + part.sums.get(name, 0.0) for name, value in sums.items()}
        if first:
            old += [part.logprobs for part in parts]
        sums = dict(zip(sums, self.together.total(list(sums.values())), strict=True))
        norm = self._optimize()
        tokens = batch.totals.tokens
        return {
            "train/loss": sums["loss"],
            "train/grad_norm": norm,
            "train/clip_share": sums["clipped"] / tokens,
            "train/logprob_gap": sums["gap"] / tokens,
            "train/entropy": sums["entropy"] / tokens,
            "train/tokens": float(tokens),
            "train/rollouts": float(batch.totals.rollouts),
            "train/lr": float(self.optimizer.param_groups[0]["lr"]),
        }

    def _backward(self, replica: int, batch: _Batch, index: int, old: list[torch.Tensor]) -> _Part:
        """Backpropagate one micro-batch through one replica; ``old`` is empty before the first optimizer step."""
        policy, members, grpo = self._policies[replica], batch.micro[index], self.grpo
        part = [batch.rollouts[i] for i in members]
        scored = self._logprobs(policy, part)
        now = scored.logprobs.detach()
        before = old[index] if old else now
        advantages = torch.tensor([batch.advantages[i] for i in members], device=policy.device)
        sampled = sampled_logprobs(part, policy.device)
        weights = mismatch_weights(before, sampled, grpo.mismatch_cap) if grpo.mismatch_cap else None
        reference = self._reference_logprobs(policy, part) if grpo.kl_beta else None
        losses = token_losses(grpo, scored.logprobs, before, advantages, weights_BS=weights, reference_BS=reference)
        loss = reduce_losses(grpo, losses, scored.mask, batch.totals)
        if grpo.entropy_coef:
            share = (scored.entropy * scored.mask).sum() / batch.totals.tokens
            loss = loss - grpo.entropy_coef * share
        idle = index >= len(batch.micro) - batch.idle
        (loss * (0.0 if idle else self.together.scale)).backward()
        if idle:
            return _Part({}, now)
        sums = {
            "loss": loss.item(),
            "entropy": float((scored.entropy.detach() * scored.mask).sum()),
            "clipped": float((clipped_tokens(grpo, now, before, advantages) * scored.mask).sum()),
            "gap": float(((before - sampled).abs() * scored.mask).sum()),
        }
        return _Part(sums, now)

    def _optimize(self) -> float:
        """Sum over processes, clip, warm up, step; return the gradient norm before clipping."""
        parameters = list(self.policy.trainable().values())
        self.together.sum_gradients(parameters)
        norm = float(whole(torch.nn.utils.clip_grad_norm_(parameters, self.grpo.max_grad_norm)))
        if not norm < float("inf"):
            self.optimizer.zero_grad(set_to_none=True)
            raise NothingToLearnError(f"the gradient norm is {norm}; lower lr or look for broken log-probabilities")
        for group in self.optimizer.param_groups:
            group["lr"] = self.grpo.lr * rate_factor(self.grpo, self.steps, self._all_steps)
        self.optimizer.step()
        self.steps += 1
        return norm

    def _logprobs(self, policy: Policy, rollouts: Sequence[Rollout]) -> TokenLogprobs:
        return self.together.through(
            lambda: batch_logprobs(
                policy,
                rollouts,
                temperature=self.rollout.temperature,
                layout=self.layout,
                checkpoint_activations=self.grpo.checkpoint_activations,
                allowed=None if self._constraint is None else self._constraint.allowed(rollouts),
                entropy_gradient=self.grpo.entropy_coef > 0,
            )
        )

    @torch.no_grad()
    def _reference_logprobs(self, policy: Policy, rollouts: Sequence[Rollout]) -> torch.Tensor:
        # A replica switches off its own adapter: another thread may be inside a forward pass of the shared one.
        reference = self._reference or policy
        with _adapter_off(reference):
            return self._logprobs(reference, rollouts).logprobs


def _reference_of(policy: Policy) -> Policy | None:
    """A frozen copy of the policy as it is now; ``None`` when the reference is what lies below its adapter."""
    if policy.frozen():
        return None
    model = copy.deepcopy(policy.model).requires_grad_(False)
    return Policy(model, policy.tokenizer, policy.identity)


@contextmanager
def _adapter_off(policy: Policy) -> Iterator[None]:
    if hasattr(policy.model, "disable_adapter"):
        with policy.model.disable_adapter():
            yield
    else:
        yield


class TorchLearner:
    """A torch policy in an environment; implements `rl.learner.Learner`.

    Args:
        policy: from `load_policy`.
        env: the environment.
        config: its sections ``grpo`` and ``rollout``, and ``workers``.
        engine: another engine than the torch one; `run` makes it serve the policy's current weights.
        together: how updates are shared among processes, each of which calls the same methods in the same order.

    Raises:
        ConfigError: if ``max_context`` exceeds the positions of the model, or the template knows no tool messages.
    """

    def __init__(
        self,
        policy: Policy,
        env: Environment,
        config: Config,
        *,
        engine: Engine | None = None,
        together: Alone | None = None,
    ) -> None:
        longest = getattr(policy.causal.config, "max_position_embeddings", None)
        rollout = config.rollout
        if longest is not None and rollout.max_context > longest:
            raise ConfigError(f"rollout.max_context={rollout.max_context} exceeds the model's {longest} positions")
        self.policy, self.env, self.rollout = policy, env, rollout
        variables = config.policy.template_options
        self.codec = ChatCodec(policy.tokenizer, env.tools, system=system_of(env), options=variables)
        self.engine = engine or TorchEngine(
            policy,
            stop_id=self.codec.stop_id,
            temperature=rollout.temperature,
            max_new_tokens=rollout.max_new_tokens,
        )
        self._constraint = None
        if rollout.constrained:
            if engine is not None:
                raise ConfigError("rollout.constrained works with rollout.engine=torch only; set one of the two")
            self._constraint = Constraint(policy.tokenizer, policy.head.weight.shape[0], self.codec.stop_id)
        self._together = together or Alone()
        self._workers = config.workers
        self._batch_size = -(-rollout.batch // (config.workers * self._together.parts))
        self._updater = Updater(policy, config, self._constraint, self._together)
        self._frozen_hash = weights_hash(policy.frozen())
        self._checkpoint: str | None = None
        self._prefill_ratio = 0.0  # of the last `run` only, so that a resumed run logs the same

    @property
    def checkpoint(self) -> str:
        """Hash of the weights that `run` serves now, frozen ones included."""
        if self._checkpoint is None:
            identity = self.policy.identity
            self._checkpoint = content_hash(identity, self._frozen_hash, weights_hash(self.policy.trainable()))
        return self._checkpoint

    @property
    def conditions(self) -> dict[str, str]:
        """Hashes of sampling, prompt and environment: what a pair must have in common besides the weights."""
        r = self.rollout
        restricted = ("constrained",) if r.constrained else ()
        sampling = content_hash(r.temperature, "top_p", 1.0, r.max_turns, r.max_new_tokens, r.max_context, *restricted)
        return {"sampling": sampling, "prompt": self.codec.hash, "environment": self.env.version}

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Run every episode at the current weights, in order."""
        checkpoint = self.checkpoint

        def run(batch: Sequence[Episode]) -> tuple[Rollout, ...]:
            return run_episodes(
                batch, self.env, self.engine, self.codec, self.rollout, checkpoint, constraint=self._constraint
            )

        before = getattr(self.engine, "prefilled", 0)
        with self._together.gathered():
            self.engine.serve(checkpoint)
            rollouts = in_batches(run, episodes, self._batch_size, self._workers)
        self._prefill_ratio = (getattr(self.engine, "prefilled", 0) - before) / max(given_tokens(rollouts), 1)
        return rollouts

    def update(self, groups: Sequence[GroupResult]) -> dict[str, Any]:
        """Take ``updates_per_batch`` optimizer steps on the groups that carry signal.

        Beside the update's own metrics, ``rollout/prefill_ratio`` tells how many prompt and observation tokens the
        last `run` forwarded for each one that had to be; 1 is the limit.

        Faulted rollouts are left out of their group; a group whose rewards do not differ teaches nothing.

        Raises:
            NothingToLearnError: if no group carries signal, or the gradient is not finite.
            ConfigError: if ``self_check=error`` and the shared prefix gives other numbers than the dense path.
            ValueError: if the rollouts of a group do not share one prompt.
        """
        self._checkpoint = None
        metrics = self._updater.update(groups)
        if self._prefill_ratio:
            metrics["rollout/prefill_ratio"] = self._prefill_ratio
        return metrics

    def save(self, directory: Path) -> None:
        """Write weights and optimizer state into ``directory``, the manifest last."""
        facts = {
            "identity": self.policy.identity,
            "frozen": self._frozen_hash,
            "checkpoint": self.checkpoint,
            "optimizer_steps": self._updater.steps,
            "dense_fallback": self._updater.fallback,
        }
        self._together.save(directory, self.policy, self._updater.optimizer, facts)

    def load(self, directory: Path) -> None:
        """Restore exactly what `save` wrote.

        Raises:
            CheckpointError: if it is missing, corrupt, or of another model.
        """
        expected = {"identity": self.policy.identity, "frozen": self._frozen_hash}
        facts = self._together.load(directory, self.policy, self._updater.optimizer, expected)
        self._updater.steps = int(facts["optimizer_steps"])
        if facts.get("dense_fallback") and self._updater.layout != "dense":
            self._updater.fall_back(str(facts["dense_fallback"]))
        self._checkpoint = None


def given_tokens(rollouts: Sequence[Rollout]) -> int:
    """Return how many tokens were given to the policy, those of equal prompts counted once."""
    prompts = {rollout.prompt_ids for rollout in rollouts}
    return sum(map(len, prompts)) + sum(len(r.loss_mask) - sum(r.loss_mask) for r in rollouts)
