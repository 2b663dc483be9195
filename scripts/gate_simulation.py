"""Gates of the worlds of `gate_worlds`, drawn and fitted in blocks, and checked against the package's own fit.

In every block one gate is fitted by `intraskill.method.gate.estimators.fit` too, on `Pairs` that the audit made for
this layout: β̂ and intervals must agree, or the script stops.
Shape letters: G gates, T tasks, N rows, J chunks, P columns, E earlier rounds, R rows of one task.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from gate_worlds import CHUNKS, TABLE, Array, Layout, World, difficulties, effects
from scipy.special import ndtr

from intraskill.method.gate.designs import Address, balanced
from intraskill.method.gate.estimators import Estimator, fit, history
from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.pairs import Conditions, Pairs, Scored, pair
from intraskill.method.gate.regression import Contributions
from intraskill.method.randomness import child_seed
from intraskill.method.skill.edits import Slot
from intraskill.method.skill.skill import BARE

BLOCK = 50
PLANS = 24
AGREEMENT = 1e-8


@dataclass(frozen=True)
class Model:
    """A regression of the rows.

    Attributes:
        estimator: its name in the package.
        history: where H comes from: ``bare`` or ``masked`` runs of earlier rounds, ``both``,
            ``oracle`` for the task's true bare success, which nobody knows, or nothing.
        rounds: runs per task behind H; ``both`` has two a round.
        bare: whether ``covariate`` reads B too.
        separate: whether every round is a column of its own instead of one mean.
    """

    estimator: Estimator
    history: str = ""
    rounds: int = 4
    bare: bool = False
    separate: bool = False

    @property
    def name(self) -> str:
        """Estimator and what it adjusts by."""
        if self.estimator != "covariate":
            return self.estimator
        return "covariate (H, B)" if self.bare else "covariate (H)"

    @property
    def reads_bare(self) -> bool:
        """Whether it needs bare runs of this round."""
        return self.bare or self.estimator in ("paired_ols", "paired_ols_intercept", "ancova")


@dataclass(frozen=True)
class Gates:
    """A block of gates of one layout.

    Attributes:
        shown_GNJ: masks; the rows of one task follow one another.
        bare_GN: B.
        masked_GN: R.
        earlier: by source, what earlier rounds know of the tasks, newest round first, (G, E, T).
    """

    shown_GNJ: Array
    bare_GN: Array
    masked_GN: Array
    earlier: dict[str, Array]

    def history_GET(self, model: Model) -> Array:
        """Return H, each round less its own mean, as `intraskill.method.gate.estimators.history` does."""
        found_GET = self.earlier[model.history][:, : model.rounds]
        found_GET = found_GET - found_GET.mean(axis=2, keepdims=True)
        return found_GET if model.separate else np.asarray(found_GET.mean(axis=1, keepdims=True))

    def regression(self, model: Model) -> tuple[Array, Array]:
        """Return the design, chunks first, (G, N, P), and the outcome, (G, N)."""
        paired = model.estimator.startswith("paired")
        columns = [] if model.estimator == "paired_ols" else [np.ones_like(self.masked_GN)]
        if model.history:
            history_GET = self.history_GET(model)
            per_task = self.masked_GN.shape[1] // history_GET.shape[2]
            columns += [np.repeat(history_GT, per_task, axis=1) for history_GT in history_GET.transpose(1, 0, 2)]
        if model.reads_bare and not paired:
            columns.append(self.bare_GN)
        design_GNP = np.concatenate([self.shown_GNJ, *(column[..., None] for column in columns)], axis=2)
        return design_GNP, self.masked_GN - self.bare_GN if paired else self.masked_GN


@dataclass(frozen=True)
class Fits:
    """Fitted gates: β̂ and half widths of the 95 % intervals, (G, J), covariances, (G, J, J), and degrees of freedom."""

    beta_GJ: Array
    half_GJ: Array
    covariance_GJJ: Array
    degrees: int


def fit_rows(design_GNP: Array, outcome_GN: Array, per_task: int, chunks: int) -> Fits:
    """Regress blocks of gates at once, standard errors by leaving one task out, as `least_squares` does."""
    inverse_GPP = np.linalg.inv(design_GNP.transpose(0, 2, 1) @ design_GNP)
    pull_GNP = design_GNP @ inverse_GPP
    beta_GP = np.einsum("gnp,gn->gp", pull_GNP, outcome_GN)
    rest_GN = outcome_GN - np.einsum("gnp,gp->gn", design_GNP, beta_GP)
    gates, rows, columns = design_GNP.shape
    if per_task == 1:
        shift_GTP = pull_GNP * (rest_GN / (1.0 - np.einsum("gnp,gnp->gn", pull_GNP, design_GNP)))[..., None]
    else:
        by_task = (gates, rows // per_task, per_task)
        pull_GTRP = pull_GNP.reshape(*by_task, columns)
        hat_GTRR = pull_GTRP @ design_GNP.reshape(*by_task, columns).transpose(0, 1, 3, 2)
        left_GTR1 = np.linalg.solve(np.eye(per_task) - hat_GTRR, rest_GN.reshape(*by_task, 1))
        shift_GTP = (pull_GTRP * left_GTR1).sum(axis=2)
    shift_GTJ = shift_GTP[..., :chunks]
    covariance_GJJ = shift_GTJ.transpose(0, 2, 1) @ shift_GTJ
    degrees = rows // per_task - columns
    half_GJ = t_quantile(0.975, degrees) * np.sqrt(np.einsum("gjj->gj", covariance_GJJ))
    return Fits(beta_GP[:, :chunks], half_GJ, covariance_GJJ, degrees)


@lru_cache(maxsize=16)
def balanced_plans(task_ids: tuple[str, ...], chunk_ids: tuple[str, ...], runs: int) -> Array:
    """Draw the package's own balanced plans, (plans, N, J); tasks are exchangeable here, so a few serve all gates."""
    slots = [Slot((), (name,)) for name in chunk_ids]
    shown = []
    for number in range(PLANS):
        layers = [balanced(slots, task_ids, Address(number, 0, sample)) for sample in range(runs)]
        shown.append([[name in layer[task] for name in chunk_ids] for task in task_ids for layer in layers])
    return np.array(shown, dtype=float)


class Laboratory:
    """Gates of one layout in one world."""

    def __init__(self, world: World, layout: Layout, *, masked_history: bool = False) -> None:
        self.world, self.layout, self.masked_history = world, layout, masked_history
        self.bare_table, *self.caps = difficulties(world)
        self.columns = CHUNKS + layout.placebos
        self.task_ids = tuple(f"t{i:05d}" for i in range(layout.tasks))
        self.template = _audited(self.task_ids, layout, self.columns)
        drawn = 1 if layout.mirrored else layout.masked
        self.plans = balanced_plans(self.task_ids, self.template.chunk_ids, drawn) if layout.balanced else np.empty(0)
        self.codes = 1 << np.arange(CHUNKS)[::-1]

    def blocks(self, gates: int, seed: int) -> Iterator[Gates]:
        """Yield ``gates`` gates, a block at a time; two layouts share the draws of their tasks' difficulties."""
        for start in range(0, gates, BLOCK):
            rng = np.random.Generator(np.random.PCG64(child_seed(seed, "gates", start)))
            yield self._draw(min(BLOCK, gates - start), rng)

    def fit(self, gates: Gates, model: Model) -> Fits:
        """Fit a block, and its first gate by the package as well.

        Raises:
            AssertionError: if the two disagree.
        """
        found = fit_rows(*gates.regression(model), self.layout.masked, self.columns)
        exact = self.by_package(gates, model)
        for ours, theirs in ((found.beta_GJ, exact.beta_J), (found.half_GJ, exact.high_J - exact.beta_J)):
            np.testing.assert_allclose(ours[0], theirs, rtol=AGREEMENT, atol=AGREEMENT)
        return replace(
            found,
            beta_GJ=found.beta_GJ[:, :CHUNKS],
            half_GJ=found.half_GJ[:, :CHUNKS],
            covariance_GJJ=found.covariance_GJJ[:, :CHUNKS, :CHUNKS],
        )

    def by_package(self, gates: Gates, model: Model, number: int = 0) -> Contributions:
        """Fit one gate of a block by the package."""
        pairs = self._pairs(gates.shown_GNJ[number], gates.bare_GN[number], gates.masked_GN[number])
        if model.estimator != "covariate":
            return fit(pairs, model.estimator)
        rounds_ET = gates.earlier[model.history][number, : model.rounds]
        rounds = [dict(zip(self.task_ids, round_T.tolist(), strict=True)) for round_T in rounds_ET]
        columns = [[found] for found in rounds] if model.separate else [rounds]
        known = {f"history {number}": history(column) for number, column in enumerate(columns)}
        return fit(pairs if model.bare else pairs.masked_only, "covariate", known=known)

    def _draw(self, gates: int, rng: np.random.Generator) -> Gates:
        layout = self.layout
        normal_GT = rng.standard_normal((gates, layout.tasks))
        bare_GT = self._bare(normal_GT)
        reward_GT = np.mean([self._reward(bare_GT, rng) for _ in range(layout.bare)], axis=0)
        shown_GNJ = self._masks(gates, rng)
        bare_GN = np.repeat(bare_GT, layout.masked, axis=1)
        masked_GN = self._reward(self._success(bare_GN, shown_GNJ), rng)
        earlier = self._earlier(normal_GT, bare_GT, rng)
        return Gates(shown_GNJ, np.repeat(reward_GT, layout.masked, axis=1), masked_GN, earlier)

    def _earlier(self, normal_GT: Array, bare_GT: Array, rng: np.random.Generator) -> dict[str, Array]:
        """Walk back through the rounds: bare rewards, and what masked runs leave after their own gate's β̂."""
        keep = self.world.persistence
        found: dict[str, list[Array]] = {"bare": [], "masked": []}
        for back in range(1, self.layout.rounds + 1):
            normal_GT = keep * normal_GT + (1.0 - keep**2) ** 0.5 * rng.standard_normal(normal_GT.shape)
            odds = np.exp(-self.world.learning * back)
            then_GT = self._bare(normal_GT)
            then_GT = then_GT * odds / (1.0 - then_GT + then_GT * odds)
            found["bare"].append(self._reward(then_GT, rng))
            if self.masked_history:
                shown_GTJ = (rng.random((*then_GT.shape, CHUNKS)) < self.layout.inclusion).astype(float)
                reward_GT = self._reward(self._success(then_GT, shown_GTJ), rng)
                found["masked"].append(_residuals(shown_GTJ, reward_GT))
        if self.masked_history:
            found["oracle"] = [bare_GT]
            found["both"] = [arm for arms in zip(found["bare"], found["masked"], strict=True) for arm in arms]
        return {name: np.stack(rounds, axis=1) for name, rounds in found.items() if rounds}

    def _bare(self, normal_GT: Array) -> Array:
        place_GT = np.minimum((ndtr(normal_GT) * TABLE).astype(int), TABLE - 1)
        return np.asarray(self.bare_table[place_GT])

    def _success(self, bare_GN: Array, shown_GNJ: Array) -> Array:
        gives_V, takes_V = effects(self.world.kind, self.world.scale)
        code_GN = shown_GNJ[..., :CHUNKS].astype(int) @ self.codes
        help_GN = np.minimum(self.caps[0], (1.0 - bare_GN) / max(gives_V.max(), 1e-12))
        harm_GN = np.minimum(self.caps[1], bare_GN / max(takes_V.max(), 1e-12))
        success_GN = bare_GN + help_GN * gives_V[code_GN] - harm_GN * takes_V[code_GN]
        return np.asarray(np.clip(success_GN, 0.0, 1.0))

    def _reward(self, success_GN: Array, rng: np.random.Generator) -> Array:
        if self.world.grades == 1:
            return (rng.random(success_GN.shape) < success_GN).astype(float)
        return rng.binomial(self.world.grades, success_GN) / self.world.grades

    def _masks(self, gates: int, rng: np.random.Generator) -> Array:
        drawn = 1 if self.layout.mirrored else self.layout.masked
        if len(self.plans):
            shown_GNJ = self.plans[rng.integers(len(self.plans), size=gates)]
        else:
            places = (gates, self.layout.tasks * drawn, self.columns)
            shown_GNJ = (rng.random(places) < self.layout.inclusion).astype(float)
        if not self.layout.mirrored:
            return shown_GNJ
        return np.stack([shown_GNJ, 1.0 - shown_GNJ], axis=2).reshape(gates, -1, self.columns)

    def _pairs(self, shown_NJ: Array, bare_N: Array, masked_N: Array) -> Pairs:
        return replace(
            self.template,
            design_NJ=shown_NJ,
            delta_N=masked_N - bare_N,
            part_deltas={"r_strict": masked_N - bare_N},
            bare_N=bare_N,
            masked_N=masked_N,
            bare_parts={"r_strict": bare_N},
            masked_parts={"r_strict": masked_N},
        )


def _residuals(shown_GTJ: Array, reward_GT: Array) -> Array:
    """Return rewards less what their own gate's β̂ says the masks did, on the scale of rewards."""
    design_GTP = np.concatenate([np.ones((*reward_GT.shape, 1)), shown_GTJ], axis=2)
    turned_GPT = design_GTP.transpose(0, 2, 1)
    beta_GP1 = np.linalg.solve(turned_GPT @ design_GTP, turned_GPT @ reward_GT[..., None])
    return np.asarray(reward_GT - (design_GTP @ beta_GP1)[..., 0] + reward_GT.mean(axis=1, keepdims=True))


def _audited(task_ids: tuple[str, ...], layout: Layout, columns: int) -> Pairs:
    """Pair rollouts of this layout once, so that every later gate is a copy of audited rows."""
    names = tuple(f"chunk-{j:02d}" for j in range(columns))
    seen = [[frozenset(names[(i + s) % columns :: 2]) for s in range(layout.masked)] for i in range(len(task_ids))]
    planned = dict(zip(task_ids, map(tuple, seen), strict=True))
    at = Conditions("planted", "skill_validation", "planted", "planted", "planted")
    bare = [Scored(t, s, BARE, 0.0, {"r_strict": 0.0}, at) for t in task_ids for s in range(layout.bare)]
    masked = [Scored(t, s, v, 0.0, {"r_strict": 0.0}, at) for t in task_ids for s, v in enumerate(planned[t])]
    return pair(bare, masked, planned, names, bare_replicates=layout.bare)
