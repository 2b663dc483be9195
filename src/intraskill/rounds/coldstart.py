"""Stage A: from the first rollouts to the document that the first gate calibrates (method §4); also on its own."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intraskill.config.config import Config, check
from intraskill.environments.protocol import secrets_of
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.method.skill.edits import pool
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import BARE, Skill
from intraskill.proposers.proposal_filter import Memory
from intraskill.proposers.trajectories import RECORDED, read_trajectories
from intraskill.rounds.arms import plan_arm, run_arm
from intraskill.rounds.human_review import reviewed
from intraskill.rounds.review import propose
from intraskill.rounds.rewards import in_reward_units, paid_by
from intraskill.rounds.run import Run
from intraskill.rounds.setup import assemble, environment_of, facts_of, proposer_of
from intraskill.store.artifacts import COLD_START, DRAFT, METRICS
from intraskill.store.metrics import Metrics, Monitor, Silence
from intraskill.store.provenance import check_provenance, claim, draft_of, plan_of
from intraskill.store.run_directory import locked


def draft_skill(
    run: Run, directory: Path, draft: Skill, rollouts: Sequence[Rollout]
) -> tuple[Skill, tuple[Proposal, ...], Ledger]:
    """Write ``draft.md``: the run's own draft and what Trace2Skill adds to it.

    Args:
        run: the run.
        directory: where the artifacts go.
        draft: from `screened_draft`.
        rollouts: what to learn from.

    Returns:
        The document, the proposals that are new in it, and the ledger with what was turned away.
    """
    memory = Memory(rounds=run.config.proposer.stay_away_rounds)
    proposals, ledger = propose(run, directory, rollouts, draft, memory)
    proposals, ledger = reviewed(run, directory, draft, proposals, ledger)
    drafted = pool(draft, [proposal.to_edit() for proposal in proposals])
    DRAFT.write(directory, drafted)
    return drafted, proposals, ledger


def first_rollouts(run: Run, directory: Path, draft: Skill) -> tuple[Rollout, ...]:
    """Sample the initial policy on train tasks without any skill, or read what was sampled before."""
    if not run.config.coldstart.tasks or run.proposer is None:
        return ()
    tasks, repeats = run.tasks("train", run.config.coldstart.tasks), run.config.coldstart.repeats
    episodes = plan_arm(run.config.seed, tasks, draft, BARE, address=("cold_start",), repeats=repeats)
    return run_arm(run, COLD_START.path(directory), 0, episodes)


def screened_draft(run: Run) -> Skill:
    """Return the run's own draft; see `Run.screened`."""
    return run.screened(draft_of(run.config, run.monitor.say), f"coldstart.draft={run.config.coldstart.draft}")


def run_cold_start(
    config: Config, trajectories: Path | None, monitor: Monitor | None = None, *, remarks: Sequence[str] = ()
) -> tuple[Skill, Path]:
    """Run stage A alone into ``config.run_dir``, or what is left of it: on a file of trajectories, or on fresh ones.

    Args:
        config: checked.
        trajectories: the file, or ``None`` for fresh ones.
        monitor: who watches.
        remarks: said first, once all is built.

    Raises:
        ConfigError: when the config names no proposer, or asks for fresh trajectories of no task.
        ArtifactError: for a file that holds no scored trajectories, or a directory of another plan.
    """
    if config.proposer.name == "none":
        raise ConfigError("proposer.name=none proposes nothing; set proposer.name to rules or openai")
    if trajectories is None and not config.coldstart.tasks:
        raise ConfigError("coldstart.tasks=0 samples nothing; set it to 1 or more, or give --trajectories FILE")
    run = assemble(config, monitor) if trajectories is None else _without_policy(config, trajectories, monitor)
    recorded = () if trajectories is None else read_trajectories(trajectories, run.environment.tools)
    with locked(run.root):
        try:
            draft = screened_draft(run)
            for remark in remarks:
                run.monitor.say(remark)
            rollouts = first_rollouts(run, run.root, draft) if trajectories is None else recorded
            skill, _, _ = draft_skill(run, run.root, draft, rollouts)
        finally:
            run.metrics.close()
    return skill, run.root


@dataclass(frozen=True)
class AbsentPolicy:
    """The policy behind recorded trajectories: it is not here, and neither acts nor learns."""

    checkpoint: str = RECORDED
    conditions: dict[str, str] = field(default_factory=dict)

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Refuse."""
        raise ConfigError(f"recorded trajectories come without a policy, and {len(episodes)} episodes were asked for")

    def update(self, groups: Sequence[GroupResult]) -> dict[str, Any]:
        """Refuse."""
        raise ConfigError(
            f"recorded trajectories come without a policy, and an update on {len(groups)} groups was asked"
        )

    def save(self, directory: Path) -> None:
        """Save nothing."""

    def load(self, directory: Path) -> None:
        """Load nothing."""


def _without_policy(config: Config, trajectories: Path, monitor: Monitor | None) -> Run:
    """Claim the directory for these trajectories and build everything but a policy."""
    check(config)
    root = Path(config.run_dir)
    if not trajectories.is_file():
        raise ConfigError(f"there is no file of trajectories {trajectories}; give JSON lines, see docs/proposers.md")
    content = hashlib.sha256(trajectories.read_bytes()).hexdigest()
    environment, learner = environment_of(config), AbsentPolicy()
    shown = monitor or Silence()
    proposer = proposer_of(config, environment, root, shown)
    payment = paid_by(config, environment)
    facts = facts_of(learner, environment, proposer)
    read_trajectories(trajectories, environment.tools)  # a file that cannot be read claims no directory
    claim(root, plan_of(config) | {"trajectories": content}, facts)
    check_provenance(root, facts)
    leak_filter = LeakFilter(secrets_of(environment), config.leak_filter)
    metrics = Metrics(METRICS.path(root))
    scaled = in_reward_units(config, payment)
    return Run(scaled, root, environment, learner, proposer, leak_filter, metrics, shown)
