"""What the policy's answers came to: actions that were done, that could not be read, that the environment refused."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from intraskill.method.errors import counted
from intraskill.method.rollouts import Rollout

EXECUTED = "executed"
UNREADABLE = "invalid_format"
_MOSTLY = 0.5


@dataclass(frozen=True, slots=True)
class Answers:
    """Counts over rollouts that were scored.

    Attributes:
        rollouts: episodes.
        truncated: of these, ended by a limit on tokens, context or actions.
        actions: answers of the policy.
        invalid: of these, no single call that can be read.
        refused: of these, a call that could not be done there.
    """

    rollouts: int = 0
    truncated: int = 0
    actions: int = 0
    invalid: int = 0
    refused: int = 0

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(*(mine + asdict(other)[name] for name, mine in asdict(self).items()))

    @property
    def invalid_share(self) -> float:
        """Share of actions that could not be read; 0 without actions."""
        return self.invalid / max(1, self.actions)

    def metrics(self, area: str) -> dict[str, int]:
        """Return the counts as metrics, but for the rollouts, which stages count themselves."""
        return {f"{area}/{name}": value for name, value in asdict(self).items() if name != "rollouts"}

    def words(self) -> str:
        """Return ``3.1 % of 1,204 actions invalid, 12.0 % refused; 5.0 % of 96 episodes truncated``."""
        if not self.actions:
            return "no actions"
        return (
            f"{_percent(self.invalid, self.actions)} of {counted(self.actions, 'action')} invalid, "
            f"{_percent(self.refused, self.actions)} refused; {_percent(self.truncated, self.rollouts)} of "
            f"{counted(self.rollouts, 'episode')} truncated"
        )

    def complaint(self, example: str) -> str:
        """Say that most answers are no calls, with one of them; empty when they are not."""
        if self.invalid_share <= _MOSTLY:
            return ""
        shown = example if len(example) <= 200 else f"{example[:200]} …"
        return (
            f"{_percent(self.invalid, self.actions)} of {counted(self.actions, 'answer')} are no call that can be "
            f"read, such as {shown!r}; `intraskill doctor` shows the form that the prompt demands and one example of it"
        )


def answers_of(rollouts: Iterable[Rollout]) -> Answers:
    """Count over the rollouts that were scored."""
    scored = [rollout for rollout in rollouts if rollout.fault is None]
    return sum((count(one.truncated, [turn.feedback for turn in one.turns]) for one in scored), Answers())


def count(truncated: bool, feedback: Sequence[str]) -> Answers:
    """Count one scored episode by the feedback of its actions."""
    invalid = feedback.count(UNREADABLE)
    return Answers(1, int(truncated), len(feedback), invalid, len(feedback) - invalid - feedback.count(EXECUTED))


def answers_in(row: Mapping[str, object], area: str, rollouts: int) -> Answers | None:
    """Read the counts of a line of metrics; ``None`` in lines of runs that did not count."""
    if f"{area}/actions" not in row:
        return None
    names = ("truncated", "actions", "invalid", "refused")
    return Answers(rollouts, *(int(str(row[f"{area}/{name}"])) for name in names))


def an_unreadable(rollouts: Iterable[Rollout]) -> str:
    """Return one answer that could not be read, the first; empty when all could."""
    return next((turn.action for rollout in rollouts for turn in rollout.turns if turn.feedback == UNREADABLE), "")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"
