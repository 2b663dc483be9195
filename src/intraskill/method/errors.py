"""Every error the package raises on purpose: one root, each kind also a standard-library error.

A message says what is wrong, where, how many, names the first three offenders, and says what to do.
"""

from collections.abc import Callable, Collection


class IntraSkillError(Exception):
    """Root of all errors raised on purpose."""


class ConfigError(IntraSkillError, ValueError):
    """A configuration value is unknown, out of range, or contradicts another one."""


class SkillFormatError(IntraSkillError, ValueError):
    """A skill document cannot be parsed, or two of its chunks have the same text."""


class EditError(IntraSkillError, ValueError):
    """A set of edits contradicts the skill or itself."""


class SplitError(IntraSkillError, ValueError):
    """A task was asked for in a role that its split does not allow."""


class PairingError(IntraSkillError, ValueError):
    """Bare and masked rollouts do not form pairs."""


class TooFewTasksError(IntraSkillError, ValueError):
    """Fewer than two scored tasks: nothing can be said about the spread, so there is no interval."""


class RankDeficientError(IntraSkillError, ValueError):
    """The drawn visible sets cannot separate the chunks."""


class NoVariationError(IntraSkillError, ValueError):
    """Every reward that a fit compares is the same: there is no spread from which to get a standard error."""


class UnderpoweredError(IntraSkillError, ValueError):
    """A gate has too few tasks to see the effect that it is asked for."""


class EnvironmentFault(IntraSkillError, RuntimeError):
    """A technical failure of an environment; its rollout is a fault, never reward 0."""


class CheckpointError(IntraSkillError, RuntimeError):
    """A checkpoint is missing, corrupt, or belongs to another model."""


class ArtifactError(IntraSkillError, RuntimeError):
    """A file of a run directory is missing, corrupt, or belongs to another plan."""


class UnboundPairError(IntraSkillError, ValueError):
    """A checkpoint, a skill and a world are not the ones that a bound pair names."""


class EngineError(IntraSkillError, RuntimeError):
    """An engine cannot be reached, breaks, or does not sample from the policy that is trained."""


class RankError(IntraSkillError, RuntimeError):
    """One of several processes that train together failed or ended; the others were ended with it."""


class WaitsForPerson(IntraSkillError):  # noqa: N818  nothing failed
    """A run stopped for a person's answers; the same command continues.

    Args:
        message: what to do.
        ask: asks the person there and then, and returns whether every answer is in.
    """

    def __init__(self, message: str, ask: Callable[[], bool]) -> None:
        super().__init__(message)
        self.ask = ask


class NothingToLearnError(IntraSkillError, RuntimeError):
    """Training cannot make progress: for example every rollout of a step was a fault."""


def counted(number: int, noun: str) -> str:
    """Return a count with its noun, for a message: ``1 chunk``, ``2 chunks``, ``1,000 chunks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def offenders(items: Collection[object], limit: int = 3) -> str:
    """Return the count and the first few items, for an error message: ``5: a, b, c, …``."""
    shown = [str(item) for item in list(items)[:limit]]
    return f"{len(items)}: {', '.join(shown)}{', …' if len(items) > limit else ''}"
