"""The additivity gap: does the sum of the contributions say what showing all these chunks together does?

    gap = mean_i(F_i − B_i) − Σ_{j shown} β̂_j           F_i: reward of task i with all of them shown

0 when chunks do not interact; below 0 when they say the same thing twice, above 0 when they need one another. Both
terms come from the same tasks and the same bare runs, so their errors are correlated; the standard error comes from
leaving out one task at a time from both terms at once, as those of the contributions do.

The set must have been fixed before the masks were scored (the skill at the start of the round, or the whole pool). A
set chosen for its β̂ has a Σβ̂ that is too large, and the gap would show that instead.

Shape letters: N rows, J chunks, G tasks.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from intraskill.method.errors import ConfigError, offenders
from intraskill.method.gate.intervals import Interval, require_two, t_quantile
from intraskill.method.gate.pairs import MAIN_PART, Pairs, Scored, Vector, audit_shown_arm
from intraskill.method.gate.regression import factorize, least_squares, left_out_shifts
from intraskill.method.skill.skill import Visible


@dataclass(frozen=True, slots=True)
class AdditivityGap:
    """Predicted against measured effect of a set of chunks, all relative to bare.

    Attributes:
        predicted: Σβ̂ of `paired_ols`.
        measured: mean of F − B over the tasks of the full arm.
        gap: measured − predicted, with the interval of their difference.
        chunks: number of chunks in the set.
    """

    predicted: Interval
    measured: Interval
    gap: Interval
    chunks: int

    @property
    def additive(self) -> bool:
        """Whether 0 lies in the interval of the gap."""
        return self.gap.low <= 0.0 <= self.gap.high


def additivity_gap(pairs: Pairs, full: Iterable[Scored], shown: Visible) -> AdditivityGap:
    """Compare Σβ̂ with the measured effect of the same chunks shown together.

    Args:
        pairs: audited pairs of the gate.
        full: rollouts that saw exactly ``shown``, of all the gate's tasks or of some drawn before any reward; a
            task's replicates are averaged.
        shown: the set, fixed before the masks were scored.

    Raises:
        PairingError: for a rollout that does not belong beside the pairs.
        ConfigError: for a chunk that the gate did not estimate.
        TooFewTasksError: if fewer than two tasks have a full run.
        RankDeficientError: as `intraskill.method.gate.regression.factorize`.
    """
    if unknown := sorted(shown - set(pairs.chunk_ids)):
        raise ConfigError(f"the gate estimates no contribution of these chunks, {offenders(unknown)}; show its own")
    task_ids = list(dict.fromkeys(pairs.task_ids))
    done = audit_shown_arm("full", full, frozenset(task_ids), shown, pairs.conditions)
    rewards: dict[str, list[float]] = {}
    for scored in done:
        rewards.setdefault(scored.task_id, []).append(scored.parts[MAIN_PART])
    require_two(len(rewards))
    bare = dict(zip(pairs.task_ids, pairs.bare_N.tolist(), strict=True))
    effect_G = np.array([np.mean(rewards[t]) - bare[t] if t in rewards else np.nan for t in task_ids])
    measured = float(np.nanmean(effect_G))
    moved_G = np.nan_to_num((effect_G - measured) / (len(rewards) - 1))
    basis = factorize(pairs.design_NJ, pairs.chunk_ids, pairs.task_ids)
    fit = least_squares(basis, pairs.delta_N)
    chosen_J = np.array([chunk_id in shown for chunk_id in pairs.chunk_ids], dtype=float)
    predicted, summed_G = float(fit.beta_P @ chosen_J), left_out_shifts(basis, fit.residual_N) @ chosen_J
    degrees = min(fit.degrees, len(rewards) - 1)
    return AdditivityGap(
        predicted=_interval(predicted, summed_G, fit.degrees, len(task_ids)),
        measured=_interval(measured, moved_G, len(rewards) - 1, len(rewards)),
        gap=_interval(measured - predicted, moved_G - summed_G, degrees, len(rewards)),
        chunks=len(shown),
    )


def _interval(value: float, moved_G: Vector, degrees: int, tasks: int) -> Interval:
    """Return value ± t · √Σ moved², ``moved`` being what leaving out each task changes."""
    se = float(np.sqrt(moved_G @ moved_G))
    half = t_quantile(0.975, degrees) * se
    return Interval(value, value - half, value + half, se, tasks)
