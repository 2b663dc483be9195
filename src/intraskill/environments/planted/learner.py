"""Who acts and learns in a planted world: its weights are the absorbed shares a_j."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from intraskill.environments.planted.world import PlantedWorld, parts_of
from intraskill.method.errors import CheckpointError
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.rollouts import Episode, GroupResult, Rollout, Turn
from intraskill.method.skill.skill import ChunkId

STATE_FILE = "planted_state.json"


class PlantedLearner:
    """Acts and learns in a planted world; an `intraskill.rl.learner.Learner`. Its weights are the a_j."""

    def __init__(self, world: PlantedWorld) -> None:
        self.world = world
        self.absorbed: dict[ChunkId, float] = dict.fromkeys(world.by_id, 0.0)
        self.steps = 0

    @property
    def checkpoint(self) -> str:
        """Hash of the state."""
        return content_hash("planted", self.world.version, self.absorbed, self.steps)

    @property
    def conditions(self) -> dict[str, str]:
        """What a fair comparison holds fixed."""
        return {"sampling": "planted", "prompt": "planted", "environment": self.world.version}

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Draw the reward of every episode from its own seed."""
        checkpoint = self.checkpoint
        return tuple(self._play(episode, checkpoint) for episode in episodes)

    def _play(self, episode: Episode, checkpoint: str) -> Rollout:
        p = self.world.success_probability(episode.task.id, episode.visible, self.absorbed, self.steps)
        broke = uniform(episode.seed, "fault") < self.world.fault_rate
        grades = self.world.grades
        reward = fmean(float(uniform(episode.seed, "outcome", grade) < p) for grade in range(grades))
        context = int(content_hash(episode.task.id, sorted(episode.visible)), 16) % 2**31
        return Rollout(
            task_id=episode.task.id,
            visible=episode.visible,
            checkpoint=checkpoint,
            sample=episode.sample,
            prompt_ids=(context,),
            token_ids=(round(reward * grades),),
            loss_mask=(1,),
            logprobs=(0.0,),
            reward=None if broke else reward,
            parts={} if broke else parts_of(reward),
            fault="planted fault" if broke else None,
            request=f"Play {episode.task.id}.",
            turns=(Turn("planted", f"{reward}", "earn", f"{reward}", "executed"),),
        )

    def update(self, groups: Sequence[GroupResult]) -> dict[str, float]:
        """Absorb chunks that were visible in groups with signal, by the share of their successes.

        A skill-free group practises what has begun: it absorbs in proportion to what is already absorbed. A chunk that
        does no good is never absorbed.
        """
        for group in groups:
            rewards = group.rewards
            if not rewards or min(rewards) == max(rewards):
                continue
            for chunk_id, planted in self.world.by_id.items():
                done = self.absorbed[chunk_id]
                practice = 1.0 if chunk_id in group.group.visible else done if not group.group.visible else 0.0
                if planted.effect > 0.0 and practice:
                    self.absorbed[chunk_id] = done + self.world.learning_rate * practice * fmean(rewards) * (1.0 - done)
        self.steps += 1
        return {"planted/absorbed_share": fmean(self.absorbed.values()) if self.absorbed else 0.0}

    def save(self, directory: Path) -> None:
        """Write the state as JSON."""
        state = {"world": self.world.version, "absorbed": self.absorbed, "steps": self.steps}
        (directory / STATE_FILE).write_text(json.dumps(state, sort_keys=True, indent=1) + "\n", encoding="utf-8")

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote.

        Raises:
            CheckpointError: if it is missing, corrupt, or of another world.
        """
        path = directory / STATE_FILE
        try:
            state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            world, absorbed, steps = state["world"], state["absorbed"], int(state["steps"])
            restored = {chunk_id: float(absorbed[chunk_id]) for chunk_id in self.world.by_id}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path} does not hold a planted state ({error}); restore it or start anew"
            ) from error
        if world != self.world.version:
            raise CheckpointError(
                f"{path} is of planted world {world}, this is {self.world.version}; use its own world"
            )
        self.absorbed, self.steps = restored, steps
