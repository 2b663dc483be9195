"""The winner's curse, measured: what selected chunks were worth when they were selected, and one round later.

A gate that selects by β̂ selects lucky noise, so the next, independent measurement falls. Shrinkage predicts the fall;
what lies beyond the prediction is real change, such as a lesson the model has absorbed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from intraskill.method.attribution import Contributions
from intraskill.method.errors import EditError, offenders
from intraskill.method.shrinkage import shrink
from intraskill.method.skill import ChunkId


@dataclass(frozen=True, slots=True)
class MeasuredRound:
    """One gate of a run.

    Attributes:
        index: round t.
        contributions: what it measured.
        kept: chunks in the skill afterwards.
    """

    index: int
    contributions: Contributions
    kept: tuple[ChunkId, ...]


@dataclass(frozen=True, slots=True)
class Remeasurement:
    """A chunk selected in round t and measured again in the next gate.

    Attributes:
        chunk_id: the chunk.
        selected_in: round t.
        at_selection: β̂ then.
        se_at_selection: its standard error.
        shrunk: its shrunk value then, from that gate alone.
        sd_shrunk: posterior standard deviation.
        remeasured: β̂ in the next gate.
        se_remeasured: its standard error.
    """

    chunk_id: ChunkId
    selected_in: int
    at_selection: float
    se_at_selection: float
    shrunk: float
    sd_shrunk: float
    remeasured: float
    se_remeasured: float


@dataclass(frozen=True, slots=True)
class WinnersCurse:
    """Means over all re-measured chunks, each with its standard error; errors count as independent.

    Attributes:
        count: chunks.
        at_selection: mean β̂ at selection.
        shrunk: mean shrunk value at selection: the prediction.
        remeasured: mean β̂ one round later.
        fall: remeasured − at_selection.
        surprise: remeasured − shrunk; far from 0, the chunks themselves have changed.
    """

    count: int
    at_selection: tuple[float, float]
    shrunk: tuple[float, float]
    remeasured: tuple[float, float]
    fall: tuple[float, float]
    surprise: tuple[float, float]

    def words(self) -> str:
        """Say it in one sentence."""
        (then, then_se), (guess, _), (now, now_se) = self.at_selection, self.shrunk, self.remeasured
        return (
            f"{self.count} incumbents measured again one round later: {then:+.3f} ± {then_se:.3f} when selected, "
            f"{now:+.3f} ± {now_se:.3f} now; shrinkage had predicted {guess:+.3f}"
        )


def remeasurements(rounds: Sequence[MeasuredRound]) -> tuple[Remeasurement, ...]:
    """Return one row for every chunk that a gate kept and the next one measured again, oldest first.

    Raises:
        EditError: if a round kept a chunk that it had not measured.
    """
    rows: list[Remeasurement] = []
    for before, after in zip(rounds, rounds[1:], strict=False):
        if unknown := sorted(set(before.kept) - set(before.contributions.chunk_ids)):
            raise EditError(f"round {before.index} kept chunks that it had not measured, {offenders(unknown)}")
        posterior = shrink(before.contributions) if before.kept else None
        for chunk_id in before.kept:
            if chunk_id not in after.contributions.by_chunk or posterior is None:
                continue
            then, now = (found.contributions.chunk_ids.index(chunk_id) for found in (before, after))
            rows.append(
                Remeasurement(
                    chunk_id,
                    before.index,
                    float(before.contributions.beta_J[then]),
                    float(before.contributions.se_J[then]),
                    float(posterior.mean_J[then]),
                    float(posterior.sd_J[then]),
                    float(after.contributions.beta_J[now]),
                    float(after.contributions.se_J[now]),
                )
            )
    return tuple(rows)


def winners_curse(rows: Sequence[Remeasurement]) -> WinnersCurse | None:
    """Return the means over ``rows``, or ``None`` without rows."""
    if not rows:
        return None
    count = len(rows)
    value = np.array([(row.at_selection, row.shrunk, row.remeasured) for row in rows]).mean(axis=0)
    squares = np.square([(row.se_at_selection, row.sd_shrunk, row.se_remeasured) for row in rows])
    error = np.sqrt(squares.sum(axis=0)) / count
    then, guess, now = ((float(v), float(e)) for v, e in zip(value, error, strict=True))
    return WinnersCurse(
        count,
        then,
        guess,
        now,
        fall=(now[0] - then[0], math.hypot(now[1], then[1])),
        surprise=(now[0] - guess[0], math.hypot(now[1], guess[1])),
    )
