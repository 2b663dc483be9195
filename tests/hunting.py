"""The documented example with a learner of its own: one number says how often it halves what is left."""

import json
import math
import sys
from pathlib import Path
from statistics import fmean

from intraskill.environments.tool_calls import write_call
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.rollouts import Rollout, Turn

sys.path.append(str(Path(__file__).parents[1] / "docs" / "examples"))
from number_hunt import NumberHunt  # noqa: E402

HELPFUL = "Halve what is left"
HELP = 3.0
RATE = 1.0


class HuntingWorld(NumberHunt):
    def learner(self, config):
        return Hunter(self)


class Hunter:
    """Halves with probability σ(w + HELP · 1[the helpful chunk is visible]), else guesses blindly; REINFORCE on w."""

    def __init__(self, world):
        self.world, self.weight = world, -1.5
        self.conditions = {"sampling": "hunter", "prompt": "hunter", "environment": world.version}

    @property
    def checkpoint(self):
        return content_hash("hunter", self.world.version, self.weight)

    def run(self, episodes):
        return tuple(self._play(episode, self.checkpoint) for episode in episodes)

    def _play(self, episode, checkpoint):
        titles = {chunk.title for chunk in episode.skill.chunks if chunk.id in episode.visible}
        logit = self.weight + HELP * (HELPFUL in titles)
        session, low, high, turns, halved = self.world.open(), 1, 30, [], []
        opening = session.reset(episode.task.id)
        while not turns or not outcome.done:  # noqa: F821
            halved.append(uniform(episode.seed, "halve", len(turns)) < 1 / (1 + math.exp(-logit)))
            blind = 1 + int(30 * uniform(episode.seed, "guess", len(turns)))
            number = (low + high) // 2 if halved[-1] else blind
            action = write_call("guess", "number", str(number))
            outcome = session.step(action)
            low, high = (max(low, number + 1), high) if "higher" in outcome.observation else (low, high)
            low, high = (low, min(high, number - 1)) if "lower" in outcome.observation else (low, high)
            turns.append(Turn("game", action, outcome.tool, outcome.argument, outcome.feedback, outcome.state))
        context = int(content_hash(episode.task.id, sorted(episode.visible)), 16) % 2**31
        return Rollout(
            task_id=episode.task.id,
            visible=episode.visible,
            checkpoint=checkpoint,
            sample=episode.sample,
            prompt_ids=(context,),
            token_ids=tuple(map(int, halved)),
            loss_mask=(1,) * len(halved),
            logprobs=tuple(-math.log1p(math.exp(-logit if h else logit)) for h in halved),
            reward=outcome.reward,
            parts=dict(outcome.parts),
            request=opening.request,
            turns=tuple(turns),
        )

    def update(self, groups):
        slopes = []
        for group in groups:
            mean = fmean(group.rewards)
            for rollout in group.rollouts:
                # ∂ log p / ∂ w = 1 − p of the chosen side, which its own log-probability tells.
                slope = sum(
                    (1 if h else -1) * (1 - math.exp(lp))
                    for h, lp in zip(rollout.token_ids, rollout.logprobs, strict=True)
                )
                slopes.append((rollout.reward - mean) * slope)
        self.weight += RATE * fmean(slopes)
        return {"hunter/weight": self.weight}

    def save(self, directory):
        (directory / "hunter.json").write_text(json.dumps(self.weight))

    def load(self, directory):
        self.weight = json.loads((directory / "hunter.json").read_text())
