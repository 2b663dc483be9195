"""What a gate can see at its size: said before it runs, or a refusal."""

from intraskill.method.gate.planning import GatePlan, plan_gate, require_power, sentence, verdict
from intraskill.method.gate.power import NUISANCE, in_a_run, planned, smallest_effect
from intraskill.method.skill.edits import slots
from intraskill.rounds.gate.plan import GateFacts
from intraskill.rounds.run import Run


def outlook(facts: GateFacts, tasks: int, sigma: float, correlation: float | None) -> GatePlan | None:
    """Return what a gate of this size can see; ``None`` when it is too small or too even to say.

    Args:
        facts: of the gate; placebo columns cost precision too.
        tasks: n.
        sigma: SD of R − B, one rollout in each arm.
        correlation: corr(R, B); ``None`` counts as the published one, a negative one as 0.
    """
    chunks, design = len(facts.columns.chunks), facts.design
    law = in_a_run(facts.gate.estimator)
    if chunks < 1 or tasks < chunks + NUISANCE[law] + 2 or not sigma > 0.0:
        return None
    contested = [slot.versions for slot in slots(facts.skill, facts.edits) if len(slot.versions) > 1]
    promised = planned(
        design,
        law,
        chunks=chunks,
        tasks=tasks,
        sigma=sigma,
        correlation=correlation,
        slots=tuple(tuple(len(version) for version in versions) for versions in contested),
    )
    return plan_gate(promised, effect=facts.gate.effect or smallest_effect(promised), rules=(facts.rule,))


def check_power(run: Run, facts: GateFacts, tasks: int, *, refuse: bool) -> None:
    """Before the first rollout: refuse a gate that cannot see ``gate.effect``, or say so and go on.

    Inside a run it is only said: the run was checked before it started, and a refusal half-way could not be mended.

    Raises:
        UnderpoweredError: when asked to refuse, naming the tasks that would do.
    """
    if not facts.gate.effect:
        return
    plan = outlook(facts, tasks, facts.sigma, facts.correlation)
    if plan is None or plan.smallest_effect <= facts.gate.effect:
        return
    if refuse:
        require_power(plan)
    run.monitor.say(f"warning: {verdict(plan)}")


def words(plan: GatePlan, *, incumbents: bool, candidates: bool) -> str:
    """Say what the gate can see and what slips through, without an effect that was asked for.

    A careful policy doubts candidates and keeps what it cannot tell from useless, so the two rates are different ones.
    """
    first, said = plan.outlooks[0], [sentence(plan.design)]
    if candidates:
        said.append(f"a useless candidate enters with probability {_percent(first.useless_passes)}")
    if incumbents:
        said.append(f"a useless chunk of the skill stays with probability {_percent(first.useless_stays)}")
    return "; ".join(said)


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
