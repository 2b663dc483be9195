"""`rl.toy.CountingWorld` with the parts that the gate needs, for runs of the loop with a real network."""

import dataclasses

from rl.toy import CountingSession, CountingWorld

from intraskill.environments.protocol import Outcome
from intraskill.method.tasks import Split, Task


class LetterSession(CountingSession):
    def step(self, action: str) -> Outcome:
        outcome = super().step(action)
        return with_parts(outcome)

    def terminate(self, reason: str) -> Outcome:
        return with_parts(super().terminate(reason))


class LetterWorld(CountingWorld):
    family = "letters"
    reward_parts = ("r_strict",)

    def tasks(self, split: Split) -> tuple[Task, ...]:
        return tuple(Task(f"{split}-{'x' * (i % 4)}{i}", self.family, split) for i in range(20))

    def open(self) -> LetterSession:
        return LetterSession(self.version)


def make(preset: str, seed: int) -> LetterWorld:
    return LetterWorld(f"letters-{preset}-{seed}")


def with_parts(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, parts={"r_strict": outcome.reward} if outcome.done else {})
