"""Tables for people: a run's rounds and chunks, a validation, an evaluation. A number comes with its uncertainty."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from intraskill.method.answers import Answers
from intraskill.method.errors import counted
from intraskill.rounds.evaluate import Comparison
from intraskill.store.artifacts import SKILL
from intraskill.store.contents import Evaluation
from intraskill.store.records import to_json
from intraskill.store.usage import Usage

Row = Mapping[str, Any]
LOOKED = (
    "The 95 % intervals are those of a gate of fixed size: in simulated gates that stopped at a look they held the "
    "true value 90 to 95 times in 100, and left out 0 for 4 to 9 in 100 useless chunks."
)
"""Belongs beside every interval of a gate that may have stopped early."""
_STATUS_STYLES = {"active": "green", "retired": "yellow", "waiting": "yellow", "refused": "red"}


def interval(data: Row | None, *, signed: bool = False) -> str:
    """Return ``0.312 [0.280, 0.344]``, or a dash for what was not measured."""
    if data is None:
        return "–"
    number = "{:+.3f}" if signed else "{:.3f}"
    low, high = number.format(data["low"]), number.format(data["high"])
    return f"{number.format(data['mean'])} [{low}, {high}]"


def _rounds_table(rounds: Sequence[Row]) -> Table:
    """One line per round: R_free, R_pair and gap with 95 % intervals, verdicts, edits, q and P(∅)."""
    table = Table(title="Rounds on skill-validation (95 % intervals over tasks)", title_justify="left")
    for name in ("round", "R_free", "R_pair", "gap", "frontier"):
        table.add_column(name, justify="left", no_wrap=name != "frontier")
    table.add_column("model/skill/\nenv/undecided")
    table.add_column("edits taken/refused")
    table.add_column("active")
    table.add_column("next q", justify="right")
    table.add_column("P(∅)", justify="right")
    for row in rounds:
        frontier, edits = row["frontier"], row["edits"]
        verdicts = [frontier[name] for name in ("model_deficit", "skill_deficit", "environment", "undecided")]
        table.add_row(
            str(row["round"]),
            interval(row["r_free_interval"]),
            interval(row["r_pair_interval"]),
            interval(row["gap"], signed=True),
            str(frontier["groups"]),
            "/".join(map(str, verdicts)),
            f"{edits['taken']}/{edits['refused']}",
            str(sum(chunk["status"] == "active" for chunk in row["chunks"])),
            f"{row['skill_free_prob']:.2f}",
            _probability(row.get("bare_probability")),
        )
    return table


def chunks_table(rounds: Sequence[Row]) -> Table:
    """One line per chunk: β ± SE in every round, then its present exposure ρ, P(visible) = (1 − q) ρ, and status.

    P(α > 0) stands there when the gate decides by it.
    """
    table = Table(title="Contributions β ± SE by round, relative to no skill", title_justify="left")
    table.add_column("chunk", max_width=40)
    for row in rounds:
        table.add_column(f"round {row['round']}", no_wrap=True)
    current = {chunk["id"]: chunk for chunk in rounds[-1]["chunks"]} if rounds else {}
    judged = any("probability" in chunk for chunk in current.values())
    if judged:
        table.add_column("P(>0)", justify="right")
    table.add_column("exposure", justify="right")
    table.add_column("P(visible)", justify="right")
    table.add_column("status")
    last: dict[str, Row] = {chunk["id"]: chunk for row in rounds for chunk in row["chunks"]}
    for chunk_id, chunk in last.items():
        cells = []
        for row in rounds:
            found = next((c for c in row["chunks"] if c["id"] == chunk_id), None)
            cells.append("" if found is None else effect(found))
        present = chunk if chunk_id in current else {}
        names = ("probability", "exposure", "visible_probability") if judged else ("exposure", "visible_probability")
        chances = [_probability(present.get(name)) for name in names]
        status = Text(chunk["status"], _STATUS_STYLES.get(chunk["status"], ""))
        table.add_row(chunk["title"], *cells, *chances, status)
    return table


def effect(row: Row) -> str:
    """Return β̂ ± SE, or a dash after a gate without information."""
    return f"{row['beta']:+.3f} ± {row['se']:.3f}" if "beta" in row else "–"


def _probability(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _final_table(final: Row) -> Table:
    """The closing comparison: four arms, then paired differences with gained and lost tasks."""
    title = f"Start and final pair on {final['split']} ({final['tasks']} tasks × {final['repeats']})"
    table = Table(title=title, title_justify="left")
    for name in ("arm or difference", "reward", "success", "tasks gained/lost"):
        table.add_column(name)
    for name, reward in final["arms"].items():
        table.add_row(name.replace("_", ", "), interval(reward), interval(final["success"][name]), "")
    for name, found in final["comparisons"].items():
        counts = found["tasks"]
        table.add_row(
            name.replace("_", ", "),
            interval(found["reward"], signed=True),
            interval(found["success"], signed=True),
            f"{counts['gained']}/{counts['lost']}",
        )
    return table


def report(summary: Row, root: str) -> RenderableType:
    """Return everything that ends a run: tables, times, the directory and what to do next."""
    parts: list[RenderableType] = []
    if summary["rounds"]:
        parts += [_rounds_table(summary["rounds"]), chunks_table(summary["rounds"])]
    if looked := [str(row["round"]) for row in summary["rounds"] if row.get("stopped")]:
        parts.append(f"Gates of round {', '.join(looked)} took looks. {LOOKED}")
    parts += [
        f"The gate of round {row['round']} found no information: {row['no_information']}. The skill and its exposures "
        "stay, and candidates wait."
        for row in summary["rounds"]
        if row.get("no_information")
    ]
    if idle := summary.get("steps_without_signal"):
        parts.append(
            f"{idle['count']} of {counted(idle['of'], 'training step')} had no signal: in no group did the rewards "
            "differ, so the weights stayed."
        )
    if summary.get("named", {}).get("gates"):
        parts.append(named_words(summary["named"]))
    if summary["final"] is not None:
        parts.append(_final_table(summary["final"]))
    if answers := summary.get("answers"):
        lines = [f"  {stage}: {Answers(**counts).words()}" for stage, counts in answers.items()]
        parts.append("\n".join(["Answers by stage", *lines]))
    timing, tokens = summary["timing"], summary["tokens"]
    parts.append(
        f"{timing['total_s']:.0f} s, {tokens['rollouts']:,} rollouts, {tokens['sampled']:,} tokens sampled, "
        f"{tokens['prompt']:,} read as prompts"
    )
    if summary["llm"] is not None:
        parts.append(paid(summary["llm"]))
    parts.append(_next_commands(root, len(summary["rounds"]) - 1, finished=summary["finished"]))
    return Group(*parts)


def named_words(named: Row) -> str:
    """Say which chunks the gates of a run name, with one error budget over all of them."""
    said = [
        f"{word}: " + (", ".join(f"{row['title']} (round {row['round']})" for row in named[side]) or "none")
        for word, side in (("helping", "helps"), ("hurting", "hurts"))
    ]
    gates = counted(named["gates"], "gate")
    return f"Chunks named with at most 5 % error over the {gates} of this run together: {'; '.join(said)}"


def paid(spending: Row) -> str:
    """Return in words what was paid to LLMs."""
    return f"Paid to an LLM: {Usage(**spending).words()}"


def _next_commands(root: str, last_round: int, *, finished: bool) -> str:
    """Return the run directory and the commands that make sense now."""
    if not finished:
        return f"Run directory: {root} (unfinished: the same command continues it)"
    newest = f"{root}/round_{last_round:03d}"
    return "\n".join(
        [
            f"Run directory: {root}",
            "Next:",
            f"  intraskill skill show {root}",
            f"  git diff --no-index {root}/round_000/{SKILL.name} {newest}/{SKILL.name}",
            f"  intraskill eval --ckpt {newest} --mode skill-free --split model_dev --repeats 2",
            f"  intraskill validate --ckpt {newest}",
            f"  intraskill report {root}",
        ]
    )


def print_report(summary: Row, root: str, *, curse: bool = False) -> None:
    """Print the report of a run; with ``curse`` also what became of selected chunks, and how worn the split is."""
    console().print(report(summary, root), highlight=False)
    if curse:
        if summary["remeasured"]["chunks"]:
            console().print(remeasured_table(summary["remeasured"]), highlight=False)
        console().print(f"Validation split: {summary['queries']['words']}", highlight=False)


def remeasured_table(remeasured: Row) -> RenderableType:
    """One line per incumbent that the next gate measured again: the winner's curse, and what shrinkage had expected."""
    table = Table(title="Incumbents when selected and one round later", title_justify="left")
    for name in ("chunk", "round", "β when selected", "shrunk then", "β one round later"):
        table.add_column(name, no_wrap=name != "chunk")
    for row in remeasured["chunks"]:
        table.add_row(
            row["title"],
            str(row["selected_in"]),
            f"{row['at_selection']:+.3f} ± {row['se_at_selection']:.3f}",
            f"{row['shrunk']:+.3f} ± {row['sd_shrunk']:.3f}",
            f"{row['remeasured']:+.3f} ± {row['se_remeasured']:.3f}",
        )
    return Group(table, remeasured["words"])


def print_evaluation(found: Evaluation, comparisons: Sequence[tuple[str, Comparison]], directory: str) -> None:
    """Print an evaluation and its paired differences to others of the same panel."""
    title = (
        f"{found.mode} on {found.split}: {len(found.rewards)} tasks × {found.repeats}, checkpoint {found.checkpoint}"
    )
    table = Table(title=title, title_justify="left")
    for name in ("evaluation or difference to", "reward", "success", "tasks gained/lost/both/neither"):
        table.add_column(name)
    table.add_row(found.name, interval(to_json(found.reward)), interval(to_json(found.success)), "")
    for name, comparison in comparisons:
        counts = comparison.tasks
        table.add_row(
            f"− {name}",
            interval(to_json(comparison.reward), signed=True),
            interval(to_json(comparison.success), signed=True),
            f"{counts.gained}/{counts.lost}/{counts.both}/{counts.neither}, p = {comparison.mcnemar_p:.3f}",
        )
    console().print(table, f"Saved in {directory}", highlight=False)


def console() -> Console:
    """Outside a terminal 160 columns, so that tables are not torn."""
    found = Console()
    return found if found.is_terminal else Console(width=160)
