"""One shopping task with its private goal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from intraskill.environments.shopworld.reward import Goal
from intraskill.method.tasks import Split


@dataclass(frozen=True, slots=True)
class ShopTask:
    """One task with its private goal.

    Attributes:
        id: unique in its world.
        instruction: the full request, from which the goal is scored.
        request: what the user says: in a persona task soft constraints are left out.
        persona: the persona document that holds them; ``None`` in a task without persona.
        user: fictional user id.
        goal: the private target.
        features: public slice attributes, fixed before any reward.
        split: the data role.
    """

    id: str
    instruction: str
    request: str
    persona: str | None
    user: str
    goal: Goal
    features: Mapping[str, str] = field(default_factory=dict)
    split: Split = "train"
