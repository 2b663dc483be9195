"""Tables for people: a run's rounds and chunks, a validation, an evaluation. A number comes with its uncertainty."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from intraskill.config.quoting import command
from intraskill.method.answers import Answers
from intraskill.method.errors import counted
from intraskill.report.screen import Block, Line, Look, Prose, print_blocks
from intraskill.report.sheet import Cell, Column, Sheet, number, sheet
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


def interval(data: Row | None, *, signed: bool = False) -> Cell:
    """Return ``0.312 [0.280, 0.344]``, or a dash for what was not measured."""
    if data is None:
        return Cell("–")
    pattern = "{:+.3f}" if signed else "{:.3f}"
    values = data["mean"], data["low"], data["high"]
    mean, low, high = map(pattern.format, values)
    return Cell(f"{mean} [{low}, {high}]", values)


def estimated(name: str, priority: int = 0) -> Column:
    """Return the column of an `interval`."""
    return Column(name, priority, parts=(name, f"{name} low", f"{name} high"))


def with_error(value: float, error: float) -> Cell:
    """Return ``+0.104 ± 0.057``."""
    return Cell(f"{value:+.3f} ± {error:.3f}", (value, error))


def error_column(name: str, priority: int = 0) -> Column:
    """Return the column of a value `with_error`."""
    return Column(name, priority, parts=(name, f"{name} SE"))


def _rounds_table(rounds: Sequence[Row]) -> Sheet:
    """One line per round: R_free, R_pair and gap with 95 % intervals, verdicts, edits, q and P(∅)."""
    kinds = ("model_deficit", "skill_deficit", "environment", "undecided")
    columns = [
        Column("round", parts=("round",)),
        estimated("R_free"),
        estimated("R_pair", 2),
        estimated("gap", 1),
        Column("frontier", 7, parts=("frontier",)),
        Column("model/skill/\nenv/undecided", 8, parts=kinds),
        Column("edits taken/refused", 6, parts=("edits taken", "edits refused"), wraps=True),
        Column("active", 3, parts=("active",)),
        Column("next q", 4, right=True, parts=("next q",)),
        Column("P(∅)", 5, right=True, parts=("P(∅)",)),
    ]
    lines = []
    for row in rounds:
        frontier, edits = row["frontier"], row["edits"]
        verdicts = tuple(frontier[name] for name in kinds)
        line = [
            number(row["round"]),
            interval(row["r_free_interval"]),
            interval(row["r_pair_interval"]),
            interval(row["gap"], signed=True),
            number(frontier["groups"]),
            Cell("/".join(map(str, verdicts)), verdicts),
            Cell(f"{edits['taken']}/{edits['refused']}", (edits["taken"], edits["refused"])),
            number(sum(chunk["status"] == "active" for chunk in row["chunks"])),
            _probability(row["skill_free_prob"]),
            _probability(row.get("bare_probability")),
        ]
        lines.append(line)
    return sheet("Rounds on skill-validation (95 % intervals over tasks)", columns, lines)


def chunks_table(rounds: Sequence[Row]) -> Sheet:
    """One line per chunk: β ± SE in every round, then its present exposure ρ, P(visible) = (1 − q) ρ, and status.

    P(α > 0) stands there when the gate decides by it. Of the rounds the earliest fall first.
    """
    current = {chunk["id"] for chunk in rounds[-1]["chunks"]} if rounds else set()
    last: dict[str, Row] = {chunk["id"]: chunk for row in rounds for chunk in row["chunks"]}
    chances = {"exposure": "exposure", "visible_probability": "P(visible)"}
    if any("probability" in last[chunk_id] for chunk_id in current):
        chances = {"probability": "P(>0)", **chances}
    oldest = len(rounds) - 1
    columns = [Column("chunk", wraps=True)]
    columns += [error_column(f"round {row['round']}", (oldest - at) * 2) for at, row in enumerate(rounds)]
    columns += [Column(name, 3, right=True, parts=(name,)) for name in chances.values()]
    columns.append(Column("status", 1))
    by_round = [{chunk["id"]: chunk for chunk in row["chunks"]} for row in rounds]
    lines = []
    for chunk_id, chunk in last.items():
        present = chunk if chunk_id in current else {}
        line = [Cell(chunk["title"])]
        line += [effect(chunks[chunk_id]) if chunk_id in chunks else Cell("") for chunks in by_round]
        line += [_probability(present.get(name)) for name in chances]
        line.append(Cell(chunk["status"], style=_STATUS_STYLES.get(chunk["status"], "")))
        lines.append(line)
    return sheet("Contributions β ± SE by round, relative to no skill", columns, lines)


def effect(row: Row) -> Cell:
    """Return β̂ ± SE, or a dash after a gate without information."""
    return with_error(row["beta"], row["se"]) if "beta" in row else Cell("–")


def _probability(value: float | None) -> Cell:
    return number(value, "{:.2f}")


def _final_table(final: Row) -> Sheet:
    """The closing comparison: four arms, then paired differences with gained and lost tasks."""
    columns = [
        Column("arm or difference", wraps=True),
        estimated("reward"),
        estimated("success", 1),
        Column("tasks gained/lost", 2, parts=("tasks gained", "tasks lost"), wraps=True),
    ]
    lines = [
        [name.replace("_", ", "), interval(reward), interval(final["success"][name]), ""]
        for name, reward in final["arms"].items()
    ]
    for name, difference in final["comparisons"].items():
        gained, lost = difference["tasks"]["gained"], difference["tasks"]["lost"]
        reward, success = (interval(difference[kind], signed=True) for kind in ("reward", "success"))
        lines.append([name.replace("_", ", "), reward, success, Cell(f"{gained}/{lost}", (gained, lost))])
    title = f"Start and final pair on {final['split']} ({final['tasks']} tasks × {final['repeats']})"
    return sheet(title, columns, lines)


def report(summary: Row, root: str) -> list[Block]:
    """Return everything that ends a run: tables, times, the directory and what to do next."""
    parts: list[Block] = []
    if summary["rounds"]:
        parts += [_rounds_table(summary["rounds"]), chunks_table(summary["rounds"])]
    if looked := [str(row["round"]) for row in summary["rounds"] if row.get("stopped")]:
        parts.append(Prose(f"Gates of round {', '.join(looked)} took looks. {LOOKED}"))
    parts += [
        Prose(
            f"The gate of round {row['round']} found no information: {row['no_information']}. The skill and its "
            "exposures stay, and candidates wait."
        )
        for row in summary["rounds"]
        if row.get("no_information")
    ]
    if idle := summary.get("steps_without_signal"):
        parts.append(
            Prose(
                f"{idle['count']} of {counted(idle['of'], 'training step')} had no signal: in no group did the rewards "
                "differ, so the weights stayed."
            )
        )
    if summary.get("named", {}).get("gates"):
        parts.append(Prose(named_words(summary["named"])))
    if summary["final"] is not None:
        parts.append(_final_table(summary["final"]))
    if answers := summary.get("answers"):
        parts.append(Prose("Answers by stage"))
        parts += [Prose(f"  {stage}: {Answers(**counts).words()}") for stage, counts in answers.items()]
    timing, tokens = summary["timing"], summary["tokens"]
    parts.append(
        Prose(
            f"{timing['total_s']:.0f} s, {tokens['rollouts']:,} rollouts, {tokens['sampled']:,} tokens sampled, "
            f"{tokens['prompt']:,} read as prompts"
        )
    )
    if summary["llm"] is not None:
        parts.append(Prose(paid(summary["llm"])))
    return [*parts, *_next_commands(root, len(summary["rounds"]) - 1, finished=summary["finished"])]


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


def _next_commands(root: str, last_round: int, *, finished: bool) -> list[Block]:
    """Return the run directory and the commands that make sense now."""
    if not finished:
        return [Line(f"Run directory: {root} (unfinished: the same command continues it)")]
    newest = f"{root}/round_{last_round:03d}"
    skills = f"{root}/round_000/{SKILL.name}", f"{newest}/{SKILL.name}"
    panel = ("--mode", "skill-free", "--split", "model_dev", "--repeats", "2")
    lines = [
        command("skill", "show", root),
        shlex.join(["git", "diff", "--no-index", *skills]),
        command("eval", "--ckpt", newest, *panel),
        command("validate", "--ckpt", newest),
        command("report", root),
    ]
    return [Line(f"Run directory: {root}"), Line("Next:"), *(Line(f"  {line}") for line in lines)]


def print_report(summary: Row, root: str, look: Look, *, curse: bool = False) -> None:
    """Print the report of a run; with ``curse`` also what became of selected chunks, and how worn the split is."""
    blocks = report(summary, root)
    if curse:
        if summary["remeasured"]["chunks"]:
            blocks += remeasured_table(summary["remeasured"])
        blocks.append(Prose(f"Validation split: {summary['queries']['words']}"))
    print_blocks(blocks, look)


def remeasured_table(remeasured: Row) -> list[Block]:
    """One line per incumbent that the next gate measured again: the winner's curse, and what shrinkage had expected."""
    columns = [
        Column("chunk", wraps=True),
        Column("round", 2, parts=("round",)),
        error_column("β when selected"),
        Column("shrunk then", 3, parts=("shrunk then", "shrunk then SD")),
        error_column("β one round later", 1),
    ]
    lines = [
        [
            Cell(row["title"]),
            number(row["selected_in"]),
            with_error(row["at_selection"], row["se_at_selection"]),
            with_error(row["shrunk"], row["sd_shrunk"]),
            with_error(row["remeasured"], row["se_remeasured"]),
        ]
        for row in remeasured["chunks"]
    ]
    table = sheet("Incumbents when selected and one round later", columns, lines)
    return [table, Prose(remeasured["words"])]


def print_evaluation(
    evaluation: Evaluation, comparisons: Sequence[tuple[str, Comparison]], directory: str, look: Look
) -> None:
    """Print an evaluation and its paired differences to others of the same panel."""
    kinds = ("gained", "lost", "both", "neither")
    columns = [
        Column("evaluation or difference to", wraps=True),
        estimated("reward"),
        estimated("success", 1),
        Column("tasks gained/lost/both/neither", 2, wraps=True, parts=(*(f"tasks {kind}" for kind in kinds), "p")),
    ]
    first = interval(to_json(evaluation.reward)), interval(to_json(evaluation.success))
    lines = [[Cell(evaluation.name), *first, Cell("")]]
    for name, comparison in comparisons:
        counts = tuple(getattr(comparison.tasks, kind) for kind in kinds)
        words = f"{'/'.join(map(str, counts))}, p = {comparison.mcnemar_p:.3f}"
        reward, success = (interval(to_json(mean), signed=True) for mean in (comparison.reward, comparison.success))
        lines.append([Cell(f"− {name}"), reward, success, Cell(words, (*counts, comparison.mcnemar_p))])
    title = (
        f"{evaluation.mode} on {evaluation.split}: {len(evaluation.rewards)} tasks × {evaluation.repeats}, "
        f"checkpoint {evaluation.checkpoint}"
    )
    print_blocks([sheet(title, columns, lines), Line(f"Saved in {directory}")], look)
