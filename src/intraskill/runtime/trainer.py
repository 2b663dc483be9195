"""The torch learner: rollouts, GRPO updates and exact checkpoints of one policy in one environment (method §5)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intraskill.environments.protocol import Environment
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash
from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.runtime.chat import ChatCodec, system_of
from intraskill.runtime.checkpoints import weights_hash
from intraskill.runtime.constrained import Constraint
from intraskill.runtime.distributed_update import Alone
from intraskill.runtime.policy import Engine, Policy
from intraskill.runtime.rollout import RolloutLimits, run_episodes
from intraskill.runtime.torch_engine import TorchEngine
from intraskill.runtime.trainer_settings import TrainerSettings
from intraskill.runtime.update import Updater

__all__ = ["TorchLearner", "TrainerSettings"]


class TorchLearner:
    """A torch policy in an environment; implements `runtime.learner.Learner`.

    Args:
        policy: from `load_policy`.
        env: the environment.
        settings: every knob.
        system: first sentence of every system message; the environment's own by default.
        template_options: further variables of the chat template.
        engine: another engine than the torch one; `run` makes it serve the policy's current weights.
        together: how updates are shared among processes, each of which calls the same methods in the same order.

    Raises:
        ConfigError: if ``max_context`` exceeds the positions of the model, or the template knows no tool messages.
    """

    def __init__(
        self,
        policy: Policy,
        env: Environment,
        settings: TrainerSettings,
        *,
        system: str | None = None,
        template_options: Mapping[str, Any] | None = None,
        engine: Engine | None = None,
        together: Alone | None = None,
    ) -> None:
        longest = getattr(policy.causal.config, "max_position_embeddings", None)
        if longest is not None and settings.max_context > longest:
            raise ConfigError(f"max_context {settings.max_context} exceeds the model's {longest} positions")
        self.policy, self.env, self.settings = policy, env, settings
        self.codec = ChatCodec(
            policy.tokenizer, env.tools, system=system_of(env) if system is None else system, options=template_options
        )
        self.engine = engine or TorchEngine(
            policy,
            stop_id=self.codec.stop_id,
            temperature=settings.temperature,
            max_new_tokens=settings.max_new_tokens,
        )
        s = settings
        self._constraint = None
        if s.constrained:
            if engine is not None:
                raise ConfigError("rollout.constrained works with rollout.engine=torch only; set one of the two")
            self._constraint = Constraint(policy.tokenizer, policy.head.weight.shape[0], self.codec.stop_id)
        self._limits = RolloutLimits(s.max_turns, s.max_new_tokens, s.max_context, s.rollout_batch, s.workers)
        self._together = together or Alone()
        self._updater = Updater(policy, settings, self._constraint, self._together)
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
        s = self.settings
        restricted = ("constrained",) if s.constrained else ()
        sampling = content_hash(s.temperature, "top_p", 1.0, s.max_turns, s.max_new_tokens, s.max_context, *restricted)
        return {"sampling": sampling, "prompt": self.codec.hash, "environment": self.env.version}

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Run every episode at the current weights, in order."""
        checkpoint = self.checkpoint
        before = getattr(self.engine, "prefilled", 0)
        with self._together.gathered():
            self.engine.serve(checkpoint)
            rollouts = run_episodes(
                episodes, self.env, self.engine, self.codec, self._limits, checkpoint, constraint=self._constraint
            )
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
