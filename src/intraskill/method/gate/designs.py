"""Mask designs: which chunks each validation run shows, drawn before any rollout (method §7.1).

    bernoulli   every chunk an independent coin; a draw depends on its own address alone, so a plan for more tasks
                extends the plan for fewer (prefix-stable)
    balanced    every legal state of a slot in equally many tasks (±1), so that a chunk without rivals is shown in
                exactly half of them, and states of two slots crossed as evenly as the number of tasks allows. It
                depends on the whole set of tasks and on every slot, so it cannot be prefix-stable: one more task or
                one more candidate is another plan

    mirrored    balanced, and every second masked run of a task shows, in every slot, another state than the run before:
                a chunk without rivals exactly where it was hidden. The difference of the two runs has no task in it,
                so β̂ of `masked_ols` needs about a third of the published gate's rollouts (docs/gate.md)

All are pure functions of seed, round, task ids and slots, and none has seen a reward. Replicate s of a task has a
plan of its own, drawn the same way, or the mirror of replicate s − 1.

Shape letters: N tasks, S states of the slots before this one, C exchange candidates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError
from intraskill.method.randomness import child_seed, shuffled, uniform
from intraskill.method.skill.edits import Edit, Slot, slots
from intraskill.method.skill.skill import BARE, Skill, Visible
from intraskill.method.tasks import Task, require_split

DesignKind = Literal["bernoulli", "balanced", "mirrored"]
Masks: TypeAlias = Mapping[str, tuple[Visible, ...]]
_CANDIDATES = 128
_STALLS = 3


@dataclass(frozen=True, slots=True)
class Design:
    """How the masks of one gate are drawn.

    Attributes:
        kind: ``bernoulli`` (published), ``balanced`` or ``mirrored``.
        inclusion: probability p that a chunk is shown, in (0, 1); the others have ½.
        masked_replicates: masked runs per task, each under its own visible set.
        bare_replicates: bare runs per task; B is their mean.

    Raises:
        ConfigError: for an unknown kind, an impossible inclusion, or fewer than one replicate.
    """

    kind: DesignKind = "bernoulli"
    inclusion: float = 0.5
    masked_replicates: int = 1
    bare_replicates: int = 1

    def __post_init__(self) -> None:
        if self.kind not in get_args(DesignKind):
            raise ConfigError(f"unknown mask design {self.kind!r}; choose one of {', '.join(get_args(DesignKind))}")
        if not 0.0 < self.inclusion < 1.0:
            raise ConfigError(f"inclusion must lie strictly between 0 and 1, got {self.inclusion}")
        if self.kind != "bernoulli" and self.inclusion != 0.5:
            raise ConfigError(
                f"a {self.kind} design shows every chunk in half of the tasks, got {self.inclusion}; use 0.5"
            )
        if min(self.masked_replicates, self.bare_replicates) < 1:
            raise ConfigError(
                f"replicates must be 1 or more, got {self.masked_replicates} masked and {self.bare_replicates} bare"
            )
        if self.kind == "mirrored" and self.masked_replicates % 2:
            raise ConfigError(
                f"a mirrored design runs each task an even number of times, got {self.masked_replicates}; use 2"
            )


PUBLISHED = Design()


@dataclass(frozen=True, slots=True)
class Address:
    """Where the draws of one layer of masks live: seed of the run, round t, replicate."""

    seed: int
    round_index: int
    sample: int = 0

    def uniform(self, task_id: str, chunk_id: str, attempt: int) -> float:
        """Return this chunk's coin; replicate 0 has the address that it had before there were replicates."""
        replicate = ("sample", self.sample) if self.sample else ()
        return uniform(self.seed, "visible", self.round_index, task_id, chunk_id, attempt, *replicate)


def plan_masks(
    pool_skill: Skill,
    edits: Sequence[Edit],
    tasks: Sequence[Task],
    design: Design = PUBLISHED,
    *,
    seed: int,
    round_index: int,
) -> dict[str, tuple[Visible, ...]]:
    """Draw the visible sets of every validation task and replicate before any rollout (method §7.1).

    Args:
        pool_skill: `edits.pool` of the current skill and ``edits``, placebo chunks included.
        edits: this round's candidates; several that remove the same chunks are versions of one slot.
        tasks: skill-validation tasks.
        design: kind, inclusion and replicates; the published one has one masked and one bare run per task.
        seed: seed of the run.
        round_index: round t.

    Returns:
        By task id, one visible set per masked replicate.

    Raises:
        SplitError: if a task has another role.
        ConfigError: if a balanced design has more states in one slot than tasks.
    """
    require_split(tasks, "skill_validation", "the validation gate")
    partition = slots(pool_skill, edits)
    task_ids = [task.id for task in tasks]
    layers = []
    for sample in range(design.masked_replicates):
        address = Address(seed, round_index, sample)
        if design.kind == "bernoulli":
            layers.append(bernoulli(partition, task_ids, design.inclusion, address))
        elif design.kind == "mirrored" and sample % 2:
            layers.append(mirrored(partition, layers[-1], address))
        else:
            layers.append(balanced(partition, task_ids, address))
    return {task_id: tuple(layer[task_id] for layer in layers) for task_id in task_ids}


def bernoulli(
    partition: Sequence[Slot], task_ids: Sequence[str], inclusion: float, address: Address
) -> dict[str, Visible]:
    """Flip a coin for every chunk, conditioned on no slot showing two of its versions.

    At ½ every legal state of a slot is equally likely.
    """
    return {
        task_id: BARE.union(*(_draw(slot, task_id, inclusion, address) for slot in partition)) for task_id in task_ids
    }


def _draw(slot: Slot, task_id: str, inclusion: float, address: Address) -> Visible:
    if len(slot.versions) <= 2:
        return _first(slot.ids, slot.allows, task_id, inclusion, address)
    # With many versions almost every draw shows two of them, so the version is drawn first, by its exact weight.
    odds = inclusion / (1.0 - inclusion)
    versions = sorted(slot.versions)
    weights = [1.0, *((1.0 + odds) ** len(version) - 1.0 for version in versions)]
    mark = address.uniform(task_id, " ".join(sorted(slot.ids)), 0) * sum(weights)
    chosen = int(np.searchsorted(np.cumsum(weights), mark, side="right"))
    if chosen == 0:
        return BARE
    return _first(versions[min(chosen, len(versions)) - 1], bool, task_id, inclusion, address)


def _first(
    chunk_ids: Sequence[str], legal: Callable[[Visible], bool], task_id: str, inclusion: float, address: Address
) -> Visible:
    """Return the first attempt's visible set that is legal."""
    for attempt in count():
        shown = frozenset(c for c in chunk_ids if address.uniform(task_id, c, attempt) < inclusion)
        if legal(shown):
            return shown
    raise AssertionError("unreachable: every slot has a legal state")


def states(slot: Slot) -> tuple[Visible, ...]:
    """Return the legal states of a slot: nothing, or any non-empty part of one version."""
    parts = [
        part
        for version in slot.versions
        for size in range(1, len(version) + 1)
        for part in combinations(sorted(version), size)
    ]
    return BARE, *map(frozenset, sorted(parts))


def balanced(partition: Sequence[Slot], task_ids: Sequence[str], address: Address) -> dict[str, Visible]:
    """Show every legal state of each slot in equally many tasks (±1), pairs of slots crossed as evenly as possible.

    Slot by slot, states are dealt in random order to N rows; then pairs of rows exchange their states while that
    lowers ‖Wᵀ Z‖², W and Z being the centred indicators of the earlier slots' states and of this one's. At last the
    rows are dealt to the tasks in random order, so that no task's row depends on anything but the seed. All sums are
    of integers: many swaps help equally, and the rounding of a machine must not choose between them.

    Raises:
        ConfigError: if a slot has more states than there are tasks.
    """
    rows = len(task_ids)
    shown: list[list[Visible]] = [[] for _ in range(rows)]
    earlier_NS = np.zeros((rows, 0), dtype=np.int64)
    for slot in sorted(partition, key=lambda slot: (len(slot.ids), sorted(slot.ids))):
        legal = states(slot)
        if len(legal) > rows:
            raise ConfigError(
                f"a balanced design needs a task per state, but the slot of {slot.ids[0]} has {len(legal)} states and "
                f"there are {rows} tasks; use more tasks or the bernoulli design"
            )
        rng = np.random.Generator(
            np.random.PCG64(
                child_seed(address.seed, "balanced", address.round_index, address.sample, *sorted(slot.ids))
            )
        )
        code_N = rng.permutation(
            np.concatenate(
                [np.tile(np.arange(len(legal)), rows // len(legal)), rng.permutation(len(legal))[: rows % len(legal)]]
            )
        )
        _exchange(code_N, earlier_NS, len(legal), rng)
        for row, code in zip(shown, code_N, strict=True):
            row.append(legal[code])
        earlier_NS = np.hstack([earlier_NS, _indicators(code_N, len(legal))])
    order = shuffled(task_ids, address.seed, "balanced rows", address.round_index, address.sample)
    return {task_id: BARE.union(*row) for task_id, row in zip(order, shown, strict=True)}


def mirrored(partition: Sequence[Slot], layer: Mapping[str, Visible], address: Address) -> dict[str, Visible]:
    """Show, in every slot of every task, another state than ``layer``: each of the others equally likely."""
    legal = [(slot, states(slot)) for slot in partition]

    def other(task_id: str, shown: Visible, slot: Slot, every: tuple[Visible, ...]) -> Visible:
        rest = [state for state in every if state != shown & frozenset(slot.ids)]
        return rest[int(address.uniform(task_id, " ".join(sorted(slot.ids)), 0) * len(rest))]

    return {t: BARE.union(*(other(t, shown, slot, every) for slot, every in legal)) for t, shown in layer.items()}


def _indicators(code_N: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return N times the centred one-hot columns, (N, number)."""
    hot: NDArray[np.int64] = np.eye(number, dtype=np.int64)[code_N]
    return np.asarray(hot * len(code_N) - hot.sum(axis=0))


def _exchange(code_N: NDArray[np.int64], earlier_NS: NDArray[np.int64], number: int, rng: np.random.Generator) -> None:
    """Swap states between rows, in place, each time the best of a random few pairs, until none helps.

    Swapping rows a and b, in states u and v, changes ‖G‖², G = Wᵀ Z, by 2 (w_b − w_a)·(G_u − G_v) + 2 ‖w_b − w_a‖².
    W is ``earlier_NS``, N times the centred indicators; its columns sum to 0, so Z need not be centred.
    """
    cross_SK = earlier_NS.T @ np.eye(number, dtype=np.int64)[code_N]
    stalls = 0
    while earlier_NS.shape[1] and stalls < _STALLS:
        some_C = rng.permutation(len(code_N))[:_CANDIDATES]
        rows_CS, codes_C = earlier_NS[some_C], code_N[some_C]
        reach_CC = (rows_CS @ cross_SK)[:, codes_C]
        own_C = np.diag(reach_CC)
        gram_CC = rows_CS @ rows_CS.T
        size_C = np.diag(gram_CC)
        change_CC = reach_CC + reach_CC.T - own_C[:, None] - own_C + size_C[:, None] + size_C - 2 * gram_CC
        change_CC[codes_C[:, None] == codes_C] = 0
        a, b = np.unravel_index(int(np.argmin(change_CC)), change_CC.shape)
        if change_CC[a, b] >= 0:
            stalls += 1
            continue
        move_S = rows_CS[b] - rows_CS[a]
        cross_SK[:, codes_C[a]] += move_S
        cross_SK[:, codes_C[b]] -= move_S
        code_N[some_C[a]], code_N[some_C[b]] = codes_C[b], codes_C[a]
        stalls = 0
