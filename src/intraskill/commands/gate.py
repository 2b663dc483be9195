"""`intraskill gate`: plan a gate before it is run."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intraskill.commands import Verb, add_look, look_of, no_overrides
from intraskill.commands.numbers import real, whole
from intraskill.config.config import ESTIMATORS
from intraskill.method.errors import ConfigError
from intraskill.report.screen import Prose, print_blocks, say_json
from intraskill.report.sheet import Cell, Column, Sheet, number, sheet

if TYPE_CHECKING:
    from intraskill.method.gate.planning import GatePlan
    from intraskill.method.gate.power import GateDesign
    from intraskill.method.gate.rules import DecisionRule

TASKS = (400, 800, 1600, 3200)
POLICIES = ("positive_topk", "probability", "fdr")


def add(verb: Verb) -> None:
    """Register the command."""
    gate = verb("gate", "plan a gate: what it can see, what slips through, what it costs; no model, no GPU", _gate)
    gate.add_argument("action", choices=("plan",), help="print what a gate of this size can see, and stop")
    gate.add_argument("--chunks", type=whole(), help="chunks of the pool (default 12, or those of --from)")
    gate.add_argument(
        "--tasks", type=whole(), nargs="+", help="numbers of tasks to compare (default 400 800 1600 3200)"
    )
    gate.add_argument("--sigma", type=real(), help="SD of R − B, reward units (default 0.44, or that of --from)")
    gate.add_argument(
        "--from", dest="source", metavar="DIR", help="a run or a gate to read chunks, σ and corr(R, B) of"
    )
    gate.add_argument("--effect", type=real(), default=0.05, help="the effect the gate should see (default 0.05)")
    gate.add_argument("--useless", type=whole("[0, inf)"), help="useless candidates to expect (default: all chunks)")
    gate.add_argument(
        "--slots", nargs="*", default=[], metavar="A:B", help="contested slots: 1:1 a rewrite, 2:1 a merge"
    )
    gate.add_argument(
        "--inclusion", type=real("(0, 1)"), default=0.5, help="probability that a chunk is shown (default 0.5)"
    )
    gate.add_argument("--replicates", type=whole(), help="masked rollouts per task (mirrored: 2)")
    gate.add_argument("--mirrored", action="store_true", help="every second masked run shows what the one before hid")
    gate.add_argument("--bare-replicates", type=whole(), default=1, help="bare rollouts per task (default 1)")
    gate.add_argument("--estimator", choices=ESTIMATORS, default="paired_ols", help="model of the contributions")
    gate.add_argument(
        "--correlation",
        type=real("(-1, 1)"),
        help="corr(R, B), for an estimator that is not paired (default 0.6, or that of --from)",
    )
    gate.add_argument("--policy", choices=POLICIES, action="append", help="may be repeated (default: all)")
    gate.add_argument("--top-k", type=whole(), default=10, help="most chunks of a skill (default 10)")
    gate.add_argument("--tokens-per-rollout", type=real("[0, inf)"), help="to print tokens")
    gate.add_argument("--rollouts-per-second", type=real(), help="to print hours")
    gate.add_argument("--require-power", action="store_true", help="fail when the first number of tasks is too small")
    gate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_look(gate)


def _gate(arguments: argparse.Namespace, overrides: list[str]) -> int:
    no_overrides(overrides)
    from intraskill.method.gate.planning import plan_gate, require_power, verdict

    rules = _rules(arguments.policy or POLICIES, arguments.top_k)
    plans = [
        plan_gate(design, effect=arguments.effect, rules=rules, useless=arguments.useless)
        for design in _designs(arguments)
    ]
    if arguments.json:
        say_json([_row(plan, arguments) for plan in plans])
    else:
        words = [Prose(f"{verdict(plans[0])}."), *map(Prose, _outlook_words(plans[0]))]
        print_blocks([_table(plans, arguments), *words], look_of(arguments))
    if arguments.require_power:
        require_power(plans[0])
    return 0


def _designs(arguments: argparse.Namespace) -> "list[GateDesign]":
    """Return one design per number of tasks; what the command line leaves open comes from --from."""
    from intraskill.method.gate.designs import Design
    from intraskill.method.gate.power import planned

    replicates = arguments.replicates or 1 + arguments.mirrored
    chunks, sigma, correlation = arguments.chunks, arguments.sigma, arguments.correlation
    if arguments.source:
        from intraskill.rounds.earlier_rounds import read_noise

        noise = read_noise(Path(arguments.source))
        chunks, sigma = noise.chunks if chunks is None else chunks, noise.sigma if sigma is None else sigma
        correlation = noise.correlation if correlation is None else correlation
    masks = Design(
        "mirrored" if arguments.mirrored else "bernoulli",
        arguments.inclusion,
        replicates,
        arguments.bare_replicates,
    )
    slots = tuple(_slot(text) for text in arguments.slots)
    chunks = 12 if chunks is None else chunks
    return [
        planned(
            masks, arguments.estimator, chunks=chunks, tasks=tasks, sigma=sigma, correlation=correlation, slots=slots
        )
        for tasks in arguments.tasks or TASKS
    ]


def _slot(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(":"))
    except ValueError:
        raise ConfigError(f"a slot is written as sizes such as 1:1 or 2:1, got {text!r}") from None


def _rules(policies: Sequence[str], top_k: int) -> "list[DecisionRule]":
    from intraskill.method.gate.planning import RULES

    return [RULES[name](top_k) for name in policies]


def _row(plan: "GatePlan", arguments: argparse.Namespace) -> dict[str, Any]:
    tokens, speed = arguments.tokens_per_rollout, arguments.rollouts_per_second
    from intraskill.method.gate.planning import verdict

    return {
        **asdict(plan.design),
        "se": [round(float(se), 6) for se in plan.se_J],
        "smallest_effect": plan.smallest_effect,
        "effect": plan.effect,
        "tasks_needed": plan.tasks_needed,
        "correct_sign": plan.correct_sign,
        "useless": plan.useless,
        "policies": [asdict(outlook) for outlook in plan.outlooks],
        "rollouts": plan.design.rollouts,
        "tokens": None if tokens is None else plan.design.rollouts * tokens,
        "hours": None if speed is None else plan.design.rollouts / speed / 3600.0,
        "verdict": verdict(plan),
    }


def _table(plans: "Sequence[GatePlan]", arguments: argparse.Namespace) -> Sheet:
    """One line per number of tasks; per policy, how often a useless candidate enters and how often one worth δ."""
    design = plans[0].design
    tokens, hours = arguments.tokens_per_rollout is not None, arguments.rollouts_per_second is not None
    names = {"tasks": 0, "rollouts": 3, "SE": 4, "sees": 0, "right sign": 5}
    names |= {"tokens": 2} if tokens else {}
    names |= {"hours": 1} if hours else {}
    columns = [Column(name, priority, right=True, parts=(name,)) for name, priority in names.items()]
    columns += [
        Column(
            f"{outlook.policy}\nuseless / useful",
            6 + at,
            True,
            parts=tuple(f"{outlook.policy} {kind}" for kind in _KINDS),
        )
        for at, outlook in enumerate(plans[0].outlooks)
    ]
    lines = []
    for plan in plans:
        row = _row(plan, arguments)
        line = [number(plan.design.tasks), number(row["rollouts"]), number(max(row["se"]), "{:.3f}")]
        line += [number(plan.smallest_effect, "{:.3f}"), number(plan.correct_sign, "{:.2f}")]
        line += [number(row["tokens"], "{:,.0f}")] if tokens else []
        line += [number(row["hours"], "{:.2f}")] if hours else []
        chances = [(outlook.useless_passes, outlook.useful_kept) for outlook in plan.outlooks]
        line += [Cell("{:.2f} / {:.2f}".format(*pair), pair) for pair in chances]
        lines.append(line)
    title = f"A gate on {design.chunks} chunks, σ = {design.sigma:.2f}, p = {design.inclusion:g}, {design.estimator}"
    return sheet(title, columns, lines)


_KINDS = ("useless", "useful")


def _outlook_words(plan: "GatePlan") -> list[str]:
    """Say per policy what becomes of useless chunks and of one with the wanted effect."""
    return [
        f"{outlook.policy}: of {plan.useless} useless candidates {outlook.useless_admitted:.1f} enter; a useless "
        f"incumbent stays with probability {outlook.useless_stays:.2f}; a chunk worth {plan.effect:.3f} among useless "
        f"ones enters with probability {outlook.useful_kept:.2f}."
        for outlook in plan.outlooks
    ]
