"""Tasks and the roles of their splits (method §12.4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from intraskill.method.errors import SplitError, offenders

Split = Literal["train", "skill_validation", "model_dev", "audit", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
OPENED: tuple[Split, ...] = tuple(split for split in SPLITS if split != "test")
"""Splits that checks, statistics and servers open unasked: ``test`` is for the final report."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task instance, without its goal.

    Attributes:
        id: unique in the family.
        family: the task family that shares one skill (method §1.1), such as ``shopping``.
        split: the data role.
        features: public attributes fixed before any reward is seen; slices are made from these only.
    """

    id: str
    family: str
    split: Split
    features: Mapping[str, str] = field(default_factory=dict)


def require_split(tasks: Iterable[Task], split: Split, purpose: str) -> None:
    """Refuse tasks of any other split.

    Raises:
        SplitError: naming the purpose, the count and the first offenders.
    """
    wrong = [f"{task.id} ({task.split})" for task in tasks if task.split != split]
    if wrong:
        raise SplitError(f"{purpose} reads only {split} tasks, but got {offenders(wrong)}; pass tasks of split {split}")
