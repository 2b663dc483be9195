"""Group contexts of masked-skill GRPO: who sees which chunks, drawn before training (method §5.1).

    z_i ~ Bernoulli(1 − q)              once per group; z_i = 0: skill-free
    m_ij | z_i = 1 ~ Bernoulli(ρ_j)     once per group

The context is part of the group's data row, so that "every rollout of a group sees the same skill" is a fact about
the plan and not a rule that a trainer must obey.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from intraskill.method.errors import ConfigError, offenders
from intraskill.method.randomness import shuffled, uniform
from intraskill.method.rollouts import ContextKind, Group
from intraskill.method.skill.skill import BARE, ChunkId, Visible
from intraskill.method.tasks import Task, require_split


@dataclass(frozen=True, slots=True)
class Curriculum:
    """The two-level curriculum in force during a round (method §8).

    Attributes:
        skill_free_prob: q_t in (0, 1), probability that a whole group sees no skill.
        exposure: ρ_{t,j} in (0, 1), inclusion probability of chunk j inside an assisted group.

    Raises:
        ConfigError: if a probability is outside the open interval.
    """

    skill_free_prob: float
    exposure: Mapping[ChunkId, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0.0 < self.skill_free_prob < 1.0:
            raise ConfigError(f"skill_free_prob must lie strictly between 0 and 1, got {self.skill_free_prob}")
        wrong = [f"{chunk_id}={rho}" for chunk_id, rho in self.exposure.items() if not 0.0 < rho < 1.0]
        if wrong:
            raise ConfigError(f"exposures must lie strictly between 0 and 1; outside are {offenders(wrong)}")


def draw_context(curriculum: Curriculum, group_id: str, *, seed: int) -> tuple[ContextKind, Visible]:
    """Draw the one context of a group; a function of ``(seed, group_id)`` and, per chunk, of that chunk alone.

    A chunk whose exposure rises keeps every context that already showed it (common random numbers).
    """
    if uniform(seed, "context", group_id) < curriculum.skill_free_prob:
        return "skill_free", BARE
    visible = frozenset(
        chunk_id for chunk_id, rho in curriculum.exposure.items() if uniform(seed, "context", group_id, chunk_id) < rho
    )
    return ("assisted" if visible else "assisted_empty"), visible


def visible_probability(curriculum: Curriculum, chunk_id: ChunkId) -> float:
    """P(chunk j visible) = (1 − q) ρ_j (method §5.1)."""
    return (1.0 - curriculum.skill_free_prob) * curriculum.exposure[chunk_id]


def bare_probability(curriculum: Curriculum) -> float:
    """P(no chunk visible) = q + (1 − q) Π_j (1 − ρ_j); 1 for an empty skill."""
    empty = 1.0
    for rho in curriculum.exposure.values():
        empty *= 1.0 - rho
    return curriculum.skill_free_prob + (1.0 - curriculum.skill_free_prob) * empty


def plan_groups(
    tasks: Sequence[Task],
    curriculum: Curriculum,
    *,
    seed: int,
    round_index: int,
    steps: int,
    groups_per_step: int,
) -> tuple[Group, ...]:
    """Plan every group of a round: task and context, in training order (method §5.1, §9).

    Tasks come epoch by epoch, each epoch in its own shuffle, so that no task repeats before all were used and none
    comes twice in one step. The plan is prefix-stable: more steps only append.

    Args:
        tasks: train tasks; their order does not matter.
        curriculum: q_t and ρ_t.
        seed: seed of the run.
        round_index: round t.
        steps: optimizer steps of the round.
        groups_per_step: groups of a step, oversample and refill reserve included.

    Raises:
        SplitError: if a task is not a train task.
        ConfigError: if a step needs more groups than there are tasks, or a task comes twice.
    """
    require_split(tasks, "train", "training")
    by_id = {task.id: task for task in tasks}
    if len(by_id) != len(tasks):
        raise ConfigError(f"train tasks with the id of another: {len(tasks) - len(by_id)}; make task ids unique")
    if groups_per_step > len(by_id):
        raise ConfigError(
            f"a step of {groups_per_step} groups needs as many different train tasks, but there are {len(by_id)}; "
            "lower the groups per step (or the oversample) or add tasks"
        )
    order: list[str] = []
    while len(order) < steps * groups_per_step:
        order += _next_epoch(order, sorted(by_id), groups_per_step, seed, round_index)
    groups = []
    for number, task_id in enumerate(order[: steps * groups_per_step]):
        step, slot = divmod(number, groups_per_step)
        group_id = f"r{round_index:03d}/s{step:04d}/g{slot:02d}"
        kind, visible = draw_context(curriculum, group_id, seed=seed)
        groups.append(Group(group_id, round_index, step, slot, by_id[task_id], kind, visible))
    return tuple(groups)


def _next_epoch(order: list[str], ids: list[str], per_step: int, seed: int, round_index: int) -> list[str]:
    """Shuffle one epoch; tasks already in the step that it continues move behind that step."""
    epoch = shuffled(ids, seed, "tasks", round_index, len(order) // len(ids))
    started = len(order) % per_step
    recent = set(order[len(order) - started :])
    head = [task_id for task_id in epoch if task_id not in recent][: per_step - started]
    taken = set(head)
    return head + [task_id for task_id in epoch if task_id not in taken]
