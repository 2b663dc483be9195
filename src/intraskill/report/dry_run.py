"""``--dry-run``: what a config would do, without a GPU, weights or a server."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from intraskill.config.config import Config
from intraskill.editor.trained import trained_editor
from intraskill.environments.factories import call_of
from intraskill.environments.protocol import own_learner
from intraskill.method.errors import ArtifactError, counted
from intraskill.method.tasks import SPLITS
from intraskill.report.sheet import Cell, Column, Sheet, number, sheet
from intraskill.rl.distributed.launch import described, launched
from intraskill.rl.start import check_readable
from intraskill.rounds.rewards import names_parts, paid_by
from intraskill.rounds.setup import environment_of
from intraskill.rounds.sizes import check_sizes, limited
from intraskill.store.lengthening import standing
from intraskill.store.provenance import draft_of, plan_of

_TOKENS_PER_SECOND = 620.0
"""Sampled tokens per second of the quickstart, rollouts and updates together, on two cores (experiment_report.md)."""

_TYPICAL_SHARE = 0.21
"""Tokens that the tiny policy samples in an episode, as a share of its limit, in the same runs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Counts of a whole run; those of data-dependent stages are the most that can happen.

    Attributes:
        groups_per_step: groups that one step runs, refills not counted.
        train_rollouts: rollouts of all training steps.
        review_rollouts: most re-runs of frontier tasks.
        gate_pairs: bare and masked pairs of one gate; ``None`` = the whole split.
        gate_rollouts: rollouts of all gates, full-skill arm included; ``None`` = it depends on the split.
        final_rollouts: rollouts of the closing comparison; ``None`` = it depends on the split.
        max_tokens: most tokens that all counted rollouts can sample.
    """

    groups_per_step: int
    train_rollouts: int
    review_rollouts: int
    gate_pairs: int | None
    gate_rollouts: int | None
    final_rollouts: int | None
    max_tokens: int


def split_sizes(config: Config) -> Mapping[str, int]:
    """Return the tasks per split: counted in an embedded world, as stated in the options of any other.

    Raises:
        ConfigError: for options that the environment's factory does not take.
    """
    if config.env.name in ("shopworld", "planted") or names_parts(config):
        environment = environment_of(config)
        paid_by(config, environment)
        if own_learner(environment) is None:
            check_readable(config, environment)
    if config.env.name in ("shopworld", "planted"):
        return {split: len(environment.tasks(split)) for split in SPLITS}
    call_of(config.env)
    return {str(split): int(size) for split, size in (config.env.options.get("split_sizes") or {}).items()}


def plan(config: Config, sizes: Mapping[str, int] | None = None) -> Plan:
    """Return the counts of a run whose splits hold ``sizes`` tasks; an unknown split counts as its limit."""
    sizes = sizes or {}
    grpo, gate, final = config.grpo, config.gate, config.final
    groups = math.ceil(grpo.groups_per_step * grpo.oversample)
    train = config.rounds * grpo.steps_per_round * groups * grpo.group_size
    frontier = config.rounds * grpo.steps_per_round * groups
    if config.frontier.max_tasks is not None:
        frontier = min(frontier, config.rounds * config.frontier.max_tasks)
    arms = gate.bare_replicates + gate.replicates + gate.full_arm
    pairs, reported = limited(gate.tasks, sizes.get("skill_validation")), limited(final.tasks, sizes.get(final.split))
    gate_rollouts = None if pairs is None else (config.rounds + 1) * arms * pairs
    final_rollouts = None if reported is None else 4 * reported * final.repeats
    review = 2 * config.triage.reruns * frontier
    rollouts = train + review + _first_rollouts(config) + (gate_rollouts or 0) + (final_rollouts or 0)
    tokens = min(config.rollout.max_turns * config.rollout.max_new_tokens, config.rollout.max_context)
    return Plan(groups, train, review, pairs, gate_rollouts, final_rollouts, rollouts * tokens)


def _first_rollouts(config: Config) -> int:
    return config.coldstart.tasks * config.coldstart.repeats


def plan_table(config: Config) -> Sheet:
    """Return the plan as a table, with a time estimate where speeds were measured.

    Raises:
        ConfigError: for a run that could not be finished.
    """
    sizes = split_sizes(config)
    check_sizes(config, sizes, draft_of(config))
    found = plan(config, sizes)
    grpo, rollout = config.grpo, config.rollout
    rows = [
        ("rounds", config.rounds, f"× {counted(grpo.steps_per_round, 'step')}, after the cold start"),
        ("cold start", _first_rollouts(config), f"rollouts, at most {counted(config.coldstart.max_drafts, 'draft')}"),
        ("groups per step", found.groups_per_step, f"{grpo.groups_per_step} used, {grpo.reserve_groups} in reserve"),
        ("training", found.train_rollouts, f"rollouts, {grpo.group_size} per group"),
        ("review", found.review_rollouts, f"rollouts at most, 2 × {config.triage.reruns} per frontier task"),
        *_editor_row(config),
        ("gate pairs", _count(found.gate_pairs), "bare and masked, each round and the cold start"),
        ("gate", _count(found.gate_rollouts), "rollouts, full-skill arm included"),
        ("closing comparison", _count(found.final_rollouts), f"rollouts on {config.final.split}, 4 arms"),
        ("tokens", f"≤ {found.max_tokens:,}", f"sampled; ≤ {rollout.max_new_tokens} × {rollout.max_turns} an episode"),
        ("processes", launched().size, described(config.distributed, launched())),
        ("time", _time(config, found), "estimate"),
    ]
    columns = [Column("what", wraps=True), Column("how many", right=True, wraps=True), Column("how", wraps=True)]
    lines = [
        [Cell(what), number(how_many) if isinstance(how_many, int) else Cell(how_many), Cell(how)]
        for what, how_many, how in rows
    ]
    return sheet("Resolved plan", columns, lines)


def directory_words(config: Config) -> str:
    """Return what the run would do with its directory: begin, go on, get more rounds, or be refused and why."""
    try:
        return standing(Path(config.run_dir), plan_of(config))
    except ArtifactError as error:
        return f"the run would be refused: {error}"


def _editor_row(config: Config) -> list[tuple[str, int | str, str]]:
    """Return the line of a trained editor as proposer.

    Raises:
        ConfigError: when there is none.
    """
    if config.proposer.name != "skill_alpha":
        return []
    trained = trained_editor(str(config.proposer.editor))
    read = f"of {trained.path} per pass, each on ≤ {trained.limits.batch} rollouts and {trained.limits.tokens:,} tokens"
    return [("edit actions", f"≤ {config.proposer.max_calls:,}", read)]


def _count(number: int | None) -> int | str:
    return "whole split" if number is None else number


def _time(config: Config, found: Plan) -> str:
    if config.env.name == "planted":
        return "seconds"
    if config.policy.path != "tiny":
        return "unknown: measure one round"
    typical = found.max_tokens * _TYPICAL_SHARE
    return f"about {max(1, round(typical / _TOKENS_PER_SECOND / 60))} min on two cores"
