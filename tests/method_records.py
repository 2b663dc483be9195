"""Small records and Hypothesis strategies for the tests of `intraskill.method`."""

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from intraskill.method.gate.pairs import Conditions, Pairs, Scored, pair
from intraskill.method.gate.regression import Contributions
from intraskill.method.rollouts import Group, GroupResult, Rollout
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.skill import BARE, Chunk, ChunkId, Skill, Visible
from intraskill.method.tasks import Split, Task

CONDITIONS = Conditions("weights-1", "skill_validation", "t06", "template-1", "world-1")


def chunk(name: str) -> Chunk:
    return Chunk(f"Chunk {name}", f"Do {name}.")


def skill(names: str) -> Skill:
    return Skill("Preamble.", tuple(chunk(name) for name in names))


def edit(removes: str, adds: str) -> Edit:
    return Edit(tuple(chunk(name).id for name in removes), tuple(chunk(name) for name in adds))


def ids(names: str) -> tuple[ChunkId, ...]:
    return tuple(chunk(name).id for name in names)


def tasks(number: int, split: Split = "skill_validation") -> tuple[Task, ...]:
    return tuple(Task(f"task-{i:04d}", "planted", split) for i in range(number))


def scored(
    task_id: str,
    reward: float | None,
    visible: Visible = BARE,
    *,
    sample: int = 0,
    conditions: Conditions = CONDITIONS,
    fault: str | None = None,
    parts: Mapping[str, float] | None = None,
) -> Scored:
    if parts is None:
        parts = {} if reward is None else {"r_strict": reward, "r_half": reward / 2}
    return Scored(task_id, sample, visible, reward, parts, conditions, fault)


def pairs_of(design_NJ: Sequence[Sequence[bool]], delta_N: Sequence[float], names: str) -> Pairs:
    """Pairs with a given design and given differences (bare rewards are 0)."""
    shown = {
        f"task-{i:04d}": frozenset(j for j, on in zip(ids(names), row, strict=True) if on)
        for i, row in enumerate(design_NJ)
    }
    bare = [scored(task, 0.0) for task in shown]
    masked = [scored(task, float(d), shown[task]) for task, d in zip(shown, delta_N, strict=True)]
    return pair(bare, masked, {task: (visible,) for task, visible in shown.items()}, ids(names))


def contributions(beta: Mapping[ChunkId, float]) -> Contributions:
    """Contributions as if they had been measured, each with SE 0.01."""
    values = np.array(list(beta.values()), dtype=float)
    se = np.full(len(beta), 0.01)
    return Contributions(
        chunk_ids=tuple(beta),
        beta_J=values,
        se_J=se,
        low_J=values - 2 * se,
        high_J=values + 2 * se,
        num_pairs=400,
        visible_J=np.full(len(beta), 200),
        residual_sd=0.1,
        rank=len(beta),
        condition_number=1.0,
        max_leverage=0.1,
    )


def rollout(task_id: str, reward: float | None, sample: int = 0) -> Rollout:
    fault = "broken" if reward is None else None
    return Rollout(task_id, BARE, "weights-1", sample, (1,), (2,), (1,), (0.0,), reward, fault=fault)


def result(task_id: str, rewards: Sequence[float | None], number: int = 0) -> GroupResult:
    group = Group(f"r000/s{number:04d}/g00", 0, number, 0, Task(task_id, "planted", "train"), "skill_free", BARE)
    return GroupResult(group, tuple(rollout(task_id, reward, i) for i, reward in enumerate(rewards)))


@st.composite
def skills_with_edits(draw: st.DrawFn) -> tuple[Skill, tuple[Edit, ...]]:
    """A skill and legal edits of any of the five shapes."""
    names = "abcdefgh"[: draw(st.integers(0, 8))]
    fresh = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    left = draw(st.permutations(list(names)))
    edits = []
    for op in draw(st.lists(st.sampled_from(["ADD", "REWRITE", "DELETE", "MERGE", "SPLIT"]), max_size=4)):
        takes = {"ADD": 0, "MERGE": draw(st.integers(2, 3))}.get(op, 1)
        gives = {"DELETE": 0, "SPLIT": draw(st.integers(2, 3))}.get(op, 1)
        if len(left) >= takes:
            edits.append(edit("".join(left[:takes]), "".join(next(fresh) for _ in range(gives))))
            left = left[takes:]
    return skill(names), tuple(edits)
