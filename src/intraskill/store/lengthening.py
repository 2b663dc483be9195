"""A run that gets more rounds than it was started with: what may be asked, and what becomes of the directory.

No round reads how many are to come, so the rounds of a longer run begin with those of the shorter one, byte for byte.
Only a learning rate that falls to 0 at the last step (``grpo.lr_decay``) differs from the first step on.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.method.errors import ArtifactError, counted
from intraskill.store.artifacts import PLAN, SUMMARY
from intraskill.store.provenance import claim, plan_record
from intraskill.store.run_directory import finished_rounds, is_sealed

FINAL = "final"
"""Directory of the closing comparison; that of a shorter run is kept as ``final_004``, after its last round."""


@dataclass(frozen=True, slots=True)
class Lengthening:
    """More rounds for a run.

    Attributes:
        before: rounds of the plan so far.
        after: rounds that are asked for; more than ``before``.
    """

    before: int
    after: int

    @property
    def aside(self) -> str:
        """Name under which the closing comparison of the shorter run is kept."""
        return f"{FINAL}_{self.before:03d}"


def recognised(root: Path, plan: Mapping[str, Any]) -> Lengthening | None:
    """Compare a plan with the one of a directory; return what lengthens the run, or ``None`` when nothing does.

    Raises:
        ArtifactError: when the directory belongs to another plan, or its learning rate falls with its rounds.
    """
    if not PLAN.exists(root):
        return None
    stored = plan_record(root)["plan"]
    longer = Lengthening(stored.get("rounds", plan["rounds"]), plan["rounds"])
    if longer.after <= longer.before:
        claim(root, plan, {})
        return None
    claim(root, {**plan, "rounds": longer.before}, {})
    if plan["grpo.lr_decay"] != "none":
        raise ArtifactError(
            f"{root} cannot be lengthened from {longer.before} to {counted(longer.after, 'round')}: with "
            f"grpo.lr_decay={plan['grpo.lr_decay']} the learning rate falls to 0 at the last step of {longer.before}, "
            f"so that a run of {longer.after} differs from its first step on. Start one in another run_dir; its start "
            f"may be coldstart.draft={root}/round_{longer.before:03d}/skill.md"
        )
    return longer


def lengthen(root: Path, longer: Lengthening, about: Mapping[str, Any]) -> None:
    """Set the end of the shorter run aside, and record the change in ``plan.json``; that comes last.

    A process that is killed before has left a shorter run without its end, and either command makes what it lacks.

    Args:
        root: the run directory; its lock is held.
        longer: from `recognised`.
        about: versions and git state of this process, for the record.
    """
    final, aside = root / FINAL, root / longer.aside
    if final.exists():
        if is_sealed(aside):  # the same bytes: set aside by a process that was killed before it changed the plan
            shutil.rmtree(final)
        else:
            shutil.rmtree(aside, ignore_errors=True)
            final.rename(aside)
    SUMMARY.path(root).unlink(missing_ok=True)  # it calls the run finished, and holds nothing of its own
    start = PLAN.data(root)
    change = {
        "rounds": [longer.before, longer.after],
        "after_round": len(finished_rounds(root)) - 1,
        "packages": about["packages"],
        "git": about["git"],
    }
    start["plan"]["rounds"] = longer.after
    start["lengthened"] = [*start.get("lengthened", []), change]
    PLAN.write(root, start)


def standing(root: Path, plan: Mapping[str, Any]) -> str:
    """Say in one sentence what a run with this plan does with its directory.

    Raises:
        ArtifactError: as `recognised`.
    """
    longer = recognised(root, plan)
    if not PLAN.exists(root):
        return f"{root} holds no run yet"
    done, rounds = len(finished_rounds(root)) - 1, plan["rounds"]
    if done >= rounds:
        return f"{root} has all of its {counted(rounds, 'round')}"
    gone = f"goes on after round {done} of {rounds}" if done >= 0 else "begins with its cold start"
    if longer is None:
        return f"{root} {gone}"
    kept = f"; {FINAL}/ of the shorter run is kept as {longer.aside}/" if (root / FINAL).exists() else ""
    return (
        f"{root} {gone}, lengthened from {counted(longer.before, 'round')}{kept}; the closing comparison is made anew"
    )
