"""Can the tasks carry a run to its end? Asked before it starts: its plan is fixed, so no shortage could be mended."""

import math
from collections.abc import Mapping

from intraskill.config.config import Config, GateConfig
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import Skill

NUISANCE_COLUMNS = {"paired_ols": 0, "paired_ols_intercept": 1, "masked_ols": 1, "ancova": 2, "covariate": 3}
"""Columns of each estimator's regression beside the chunks."""


def check_sizes(config: Config, sizes: Mapping[str, int], draft: Skill) -> None:
    """Refuse a run that could not be finished: its plan is fixed, so a shortage met later could not be mended.

    Args:
        config: the resolved config.
        sizes: tasks per split; a split that is not named is not checked beyond its limit.
        draft: the skill that the run starts from.

    Raises:
        ConfigError: for too few tasks, naming the options.
        UnderpoweredError: when ``gate.require_power`` asks for more than the largest gate can see.
    """
    grpo, gate, final = config.grpo, config.gate, config.final
    most = largest_pool(config, draft)
    if (held := sizes.get("skill_validation")) is not None:
        check_gate_tasks(gate, held)
    pairs, reported = limited(gate.tasks, sizes.get("skill_validation")), limited(final.tasks, sizes.get(final.split))
    most += gate.placebos if most else 0
    needed = max(2, most + NUISANCE_COLUMNS[gate.estimator] + 1)
    if pairs is not None and pairs < needed:
        raise ConfigError(
            f"a gate may have to tell {most} chunks apart, which takes {needed} skill-validation tasks or "
            f"more, and has {pairs}: lower coldstart.max_drafts={config.coldstart.max_drafts}, gate.top_k={gate.top_k} "
            f"or proposer.max_candidates={config.proposer.max_candidates}, shorten the draft ({len(draft.chunks)} "
            f"chunks), raise gate.tasks={gate.tasks}, or choose a larger env.preset"
        )
    if pairs is not None and most:
        check_planned_power(gate, most, pairs)
    if final.tasks != 0 and reported is not None and reported < 2:
        raise ConfigError(f"final.split={final.split} has {reported} tasks, too few for an interval; set final.tasks=0")
    groups = math.ceil(grpo.groups_per_step * grpo.oversample) + grpo.reserve_groups
    if config.rounds and groups > sizes.get("train", groups):
        raise ConfigError(
            f"a step plans {groups} groups on different train tasks, and there are {sizes['train']}; lower "
            "grpo.groups_per_step, grpo.oversample or grpo.reserve_groups, or choose a larger env.preset"
        )


def check_gate_tasks(gate: GateConfig, held: int) -> None:
    """Refuse a gate that asks for more tasks than there are.

    Raises:
        ConfigError: naming both numbers.
    """
    if gate.tasks is not None and gate.tasks > held:
        raise ConfigError(
            f"gate.tasks={gate.tasks}, but the environment has {held} skill-validation tasks; ask for at most {held}, "
            "leave gate.tasks=null for all of them, or choose a larger env.preset"
        )


def check_slots(batch: int, slots: int | None) -> None:
    """Refuse a batch whose episodes would wait for each other; ``slots=None`` where an environment has no limit.

    Raises:
        ConfigError: naming both numbers.
    """
    if slots is not None and batch > slots:
        raise ConfigError(
            f"rollout.batch={batch} episodes would wait for each other at env.options.slots={slots}; "
            "lower the first, or raise the second and the server's own"
        )


def check_planned_power(gate: GateConfig, chunks: int, tasks: int) -> None:
    """Refuse a run whose largest gate could not see ``gate.effect``, when it requires that.

    Raises:
        UnderpoweredError: naming the smallest effect that the gate sees and the tasks that would do.
    """
    if not gate.require_power:
        return
    from intraskill.method.gate.planning import plan_gate, require_power
    from intraskill.method.gate.power import in_a_run, planned
    from intraskill.rounds.gate.plan import design_of

    design = planned(
        design_of(gate), in_a_run(gate.estimator), chunks=chunks, tasks=tasks, sigma=gate.sigma, correlation=None
    )
    require_power(plan_gate(design, effect=gate.effect, rules=()))


def largest_pool(config: Config, draft: Skill) -> int:
    """Return the most chunks that one gate may meet: the first document, or kept chunks and candidates."""
    first = len(draft.chunks)
    if config.proposer.name == "none":
        return first
    if config.coldstart.tasks:
        first = max(first, config.coldstart.max_drafts)
    return max(first, config.gate.top_k + config.proposer.max_candidates if config.rounds else 0)


def limited(limit: int | None, size: int | None) -> int | None:
    """Return how many tasks a limit leaves of a split; ``None`` when neither is known."""
    return min((number for number in (limit, size) if number is not None), default=None)
