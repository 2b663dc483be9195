"""A finished gate for people: forest plot and summary as files, the table and the same words on the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from intraskill.method.errors import counted
from intraskill.method.gate.diagnostics.attrition import ALARM as FAULT_ALARM
from intraskill.method.gate.diagnostics.interactions import ALARM_RATE
from intraskill.method.gate.intervals import Interval
from intraskill.method.gate.power import smallest_effect
from intraskill.method.gate.simultaneous import sides
from intraskill.report.forest import verdict_words, write_forest
from intraskill.report.screen import Block, Line, Look, Prose, print_blocks
from intraskill.report.sheet import Cell, Column, Sheet, as_markdown, number, sheet
from intraskill.report.tables import LOOKED, effect, estimated, interval
from intraskill.rounds.gate.assess import Validation, slice_rows
from intraskill.rounds.gate.findings import Findings, chunk_table, noise_band
from intraskill.rounds.gate.outlook import words as power_words
from intraskill.rounds.gate.ranking import Ranking, ranking_rows
from intraskill.store.artifacts import GATE_WORDS
from intraskill.store.records import to_json

Paragraphs = list[tuple[str, str]]
_LEGEND = (
    "± is one standard error: how far such a number typically lies from the truth. A 95 % interval holds one chunk's "
    "true value in 95 of 100 gates; those that cover together hold all of them at once, and only they name chunks. "
    "Shrunk is what a chunk is probably worth once all chunks are seen together, and P(> 0) the probability that it "
    "helps at all; they may call a chunk uncertain whose own interval lies beside 0. σ is the spread of the difference "
    "between a task's two runs, "
    "corr(R, B) how alike the two are. What each policy does is in paired_validation.md."
)
_ESTIMATOR_WORDS = {
    "paired_ols": "the difference between the two runs of a task, shared out among the chunks that were shown",
    "paired_ols_intercept": "the difference between the two runs of a task, less what showing any text at all does",
    "ancova": "the reward with chunks, adjusted for how hard the task turned out to be without them",
    "masked_ols": "the reward with chunks; the run without them is not used",
    "covariate": "the reward with chunks, adjusted for how hard the task was, now and in earlier rounds",
}


def write_summary(directory: Path, found: Validation, findings: Findings, remarks: Sequence[str] = ()) -> None:
    """Write ``summary.md``.

    Args:
        directory: where.
        found: the gate.
        findings: from `intraskill.rounds.gate.findings.find`.
        remarks: sentences for its end, such as where the bare run is from.
    """
    parts = [f"**{head}.** {text}" for head, text in paragraphs(found, findings)]
    parts.insert(3, as_markdown(contributions_table(found, whole=True)).rstrip())
    parts += [remark for remark in remarks if remark]
    GATE_WORDS.write(directory, "# What the gate found\n\n" + "\n\n".join(parts) + "\n")


def paragraphs(found: Validation, findings: Findings) -> Paragraphs:
    """Return heading and text of everything there is to say, in reading order."""
    said = [
        ("What was measured", _measured(found)),
        ("What can be seen", _seen(found, findings)),
        ("Which chunks help", _helpful(found)),
        ("The skill as a whole", _whole(found)),
        ("Noise check", _noise(found)),
        ("Do the contributions add up", _adding_up(findings, found.facts.gate.estimator)),
        ("Do chunks change one another's effect", _interacting(found, findings)),
        ("On slices of the tasks", _slices(found)),
        ("Does the estimator matter", _estimators(found)),
        ("Do faults go with a chunk", _faulting(found)),
        ("Could it have been cheaper", _cheaper(found)),
        ("When it stopped", _stopped(found)),
        ("Left out", _left_out(found)),
        ("How to read it", _LEGEND if found.pairs.chunk_ids else ""),
    ]
    return [(head, text) for head, text in said if text]


def _measured(found: Validation) -> str:
    tasks, design = len(set(found.pairs.task_ids)), found.facts.design
    checkpoint = found.pairs.conditions.checkpoint
    if not found.pairs.chunk_ids:
        return (
            f"{tasks:,} tasks were played at checkpoint {checkpoint} without any skill; there is no chunk to measure."
        )
    masked, bare = _times(design.masked_replicates), _times(design.bare_replicates)
    chunks, neutral = len(found.pairs.chunk_ids) - len(found.facts.placebo_ids), len(found.facts.placebo_ids)
    shown = counted(chunks, "chunk") + f" and {counted(neutral, 'placebo')}" * (neutral > 0)
    intervals = "Each comes with an interval that holds the true value 95 times in 100."
    if found.stopped:
        intervals = "Each comes with the interval of a gate of fixed size, and this one looked: see below."
    return (
        f"{tasks:,} tasks were played at checkpoint {checkpoint}: {bare} without any skill, and {masked} with a random "
        f"part of its {shown}. A contribution is what showing a chunk adds to the reward of one task, relative to no "
        f"skill, on average over the random sets of others beside it; where chunks change one another's effect it is "
        f"not what it adds alone: {_ESTIMATOR_WORDS[found.facts.gate.estimator]} "
        f"({found.facts.gate.estimator}). {intervals}"
    )


def _seen(found: Validation, findings: Findings) -> str:
    if findings.power is None:
        return ""
    plan = findings.power
    wider = 4 * plan.design.tasks
    finest = smallest_effect(replace(plan.design, tasks=wider))
    text = power_words(plan, incumbents=bool(found.facts.skill.ids), candidates=bool(found.facts.edits))
    text = f"{text[0].upper()}{text[1:]}; {wider:,} tasks would see {finest:.3f}."
    if found.facts.gate.effect and plan.smallest_effect > found.facts.gate.effect:
        text += f" It was asked for {found.facts.gate.effect:.3f}, which needs {plan.tasks_needed:,} tasks."
    return text


def _helpful(found: Validation) -> str:
    """Sort the chunks by the intervals that cover together: of useless chunks they name one in 5 % of gates."""
    titles = {chunk.id: chunk.title for chunk in found.facts.columns.chunks}
    small = found.facts.gate.negligible
    by_side = sides(found.contributions, small)
    words = {
        "helps": "Helping, since their whole interval of those that cover together lies above 0",
        "hurts": "Hurting, since their whole interval of those that cover together lies below 0",
        "negligible": f"As good as nothing, since their whole interval lies within ±{small:g}",
        "unclear": "Too close to 0 to tell with this many tasks",
    }
    if found.assessment.no_information:
        return f"No information: {found.assessment.no_information}. The skill stays as it is, and candidates wait."
    if not found.contributions.chunk_ids:
        return ""
    named = {side: ", ".join(titles[chunk_id] for chunk_id in chunk_ids) for side, chunk_ids in by_side.items()}
    text = " ".join(f"{words[side]}: {names}." for side, names in named.items() if names)
    kept = ", ".join(titles[chunk_id] for chunk_id in found.decision.kept) or "none"
    return f"{text} The policy {found.facts.gate.policy} keeps: {kept}."


def _whole(found: Validation) -> str:
    text = f"Reward without any skill {_interval(found.r_free)}"
    if found.r_pair is None or found.gap is None:
        return text + "."
    return f"{text}, with the whole skill {_interval(found.r_pair)}, difference {_interval(found.gap, signed=True)}."


def _noise(found: Validation) -> str:
    null = found.assessment.null
    if null is None:
        return ""
    return (
        f"{counted(null.count, 'placebo chunk')} of neutral text, which cannot help, scattered by "
        f"{null.spread:.3f} around 0 ({null.expected:.3f} is expected from their standard errors), the largest at "
        f"{null.largest:+.3f}. A chunk within ±{noise_band(null):.3f}, twice the larger of the two, looks like noise."
    )


def _adding_up(findings: Findings, estimator: str) -> str:
    """The sum is one of differences R − B, whichever estimator decides."""
    gap = findings.additivity
    if gap is None:
        return ""
    verdict = (
        "the interval holds 0, so nothing speaks against adding them up"
        if gap.additive
        else "the chunks repeat one another"
        if gap.gap.high < 0.0
        else "the chunks need one another"
    )
    by = "" if estimator == "paired_ols" else " by paired_ols"
    return (
        f"The contributions{by} sum to {_interval(gap.predicted, signed=True)}, showing all {gap.chunks} chunks "
        f"together adds {_interval(gap.measured, signed=True)}; gap {_interval(gap.gap, signed=True)}: {verdict}."
    )


def _interacting(found: Validation, findings: Findings) -> str:
    """Name the pairs of chunks that the screen warns about, and how many it could not look at."""
    screen = findings.screen
    if screen is None or not (screen.pairs or screen.not_screened):
        return ""
    titles = {chunk.id: chunk.title for chunk in found.facts.columns.chunks}
    rows = zip(screen.pairs, screen.gamma_K.tolist(), screen.p_K.tolist(), strict=True)
    seen = [
        f"{titles[a]} with {titles[b]} (γ̂ {gamma:+.3f}, p = {p:.3f})"
        for (a, b), gamma, p in rows
        if (a, b) in screen.warnings
    ]
    rate = f"{ALARM_RATE:.0%}".replace("%", " %")
    count = f"{len(screen.pairs)} pair{'s were' if len(screen.pairs) != 1 else ' was'} screened"
    text = f"{count}, with a warning in about {rate} of gates when no chunks interact"
    text += f". These seem to change one another's effect: {'; '.join(seen)}" if seen else "; no pair stands out"
    if screen.not_screened:
        left = len(screen.not_screened)
        text += f". {left} pair{'s were' if left > 1 else ' was'} not screened: too few runs show both"
    return text + "."


def _slices(found: Validation) -> str:
    """Name the chunks that help or hurt on a slice by the intervals that cover together."""
    report = found.assessment.slices
    if report is None:
        return ""
    titles = {chunk.id: chunk.title for chunk in found.facts.columns.chunks}
    rows = slice_rows(report)
    clear = [row for row in rows if "chunk" in row and (row["low"] > 0.0 or row["high"] < 0.0)]
    refused = [f"{row['feature']}={row['value']} ({row['refused']})" for row in rows if "refused" in row]
    named = [f"{titles[row['chunk']]} on {row['feature']}={row['value']} ({row['beta']:+.3f})" for row in clear]
    used = {row["estimator"] for row in rows if "estimator" in row} - {found.facts.gate.estimator}
    text = f"{len(report.fits)} slices were fixed beforehand; {report.multiplicity}. "
    if used:
        text += (
            f"They are fitted by {', '.join(sorted(used))}: {found.facts.gate.estimator} has no columns for a slice. "
        )
    text += "By these "
    text += f"stand out: {', '.join(named)}." if named else "no chunk stands out on any slice."
    return text + (f" Too small to read: {'; '.join(refused)}." if refused else "")


def _estimators(found: Validation) -> str:
    """Name the chunks that one estimator keeps and another does not: their verdict is the estimator's."""
    kept = found.assessment.kept_by
    if len(kept) < 2:
        return ""
    titles = {chunk.id: chunk.title for chunk in found.facts.columns.chunks}
    counts = ", ".join(f"{name} keeps {len(chunk_ids)}" for name, chunk_ids in kept.items())
    sets = [set(chunk_ids) for chunk_ids in kept.values()]
    split = [
        titles[chunk_id] for chunk_id in found.facts.pool.ids if 0 < sum(chunk_id in one for one in sets) < len(sets)
    ]
    return f"{counts}: " + (f"the verdict hinges on it for {', '.join(split)}." if split else "the same chunks.")


def _faulting(found: Validation) -> str:
    """Name the chunks under which runs fault: what is left of such a gate is no random sample."""
    faults, titles = found.assessment.faults, {chunk.id: chunk.title for chunk in found.facts.columns.chunks}
    if not faults:
        return ""
    named = [f"{titles[chunk_id]}: {one.words}" for chunk_id, one in faults.items() if one.p < FAULT_ALARM]
    lost = next(iter(faults.values()))
    text = f"{counted(lost.shown_faults + lost.hidden_faults, 'masked run')} faulted. "
    return text + ("; ".join(named) if named else "No chunk goes with it, so far as that many can tell") + "."


def _cheaper(found: Validation) -> str:
    """Say which of the fitted estimators would have given the standard errors of `paired_ols` for fewer rollouts."""
    pairs, fits = found.pairs, {"": found.contributions, **found.assessment.beside}
    variance = {fit.estimator: float(np.mean(np.square(fit.se_J))) for fit in fits.values() if fit.chunk_ids}
    if not variance.get("paired_ols"):
        return ""
    sunk = {name: value / variance["paired_ols"] for name, value in variance.items()}
    masked_share = pairs.num_masked / (pairs.num_bare + pairs.num_masked)
    every = {name: cost * (masked_share if name == "masked_ols" else 1.0) for name, cost in sunk.items()}
    first, second = min(every, key=lambda name: every[name]), min(sunk, key=lambda name: sunk[name])
    correlation = "undefined, an arm is constant" if pairs.correlation is None else f"{pairs.correlation:.2f}"
    text = f"corr(R, B) = {correlation}. For the same standard errors "
    if first == second == "paired_ols":
        return f"{text}no other estimator would have needed fewer rollouts than paired_ols."
    return (
        f"{text}as paired_ols, {first} needs {every[first]:.0%} of the rollouts when all of them count, and "
        f"{second} {sunk[second]:.0%} when the bare runs are wanted anyway."
    ).replace("%", " %")


def _stopped(found: Validation) -> str:
    if not found.stopped:
        return ""
    return f"{found.stopped} {LOOKED} What the gate may say after looking is in sequential.json."


def _left_out(found: Validation) -> str:
    notes: list[str] = []
    if found.excluded:
        notes.append(f"{counted(len(found.excluded), 'task')} with a technical fault left both arms")
    notes += [f"{name}: {why}" for name, why in found.assessment.impossible.items()]
    notes += list(found.contributions.notes)
    return "; ".join(notes) + "." if notes else ""


def _interval(found: Interval, *, signed: bool = False) -> str:
    number = "{:+.3f}" if signed else "{:.3f}"
    low, high = number.format(found.low), number.format(found.high)
    return f"{number.format(found.mean)} [{low}, {high}]"


def _ends(row: Mapping[str, Any], which: str = "") -> Cell:
    if f"{which}low" not in row:
        return Cell("–")
    values = row[f"{which}low"], row[f"{which}high"]
    return Cell("[{:+.3f}, {:+.3f}]".format(*values), values)


def _reason(row: Mapping[str, Any]) -> str:
    if row["kind"] == "placebo":
        return "placebo"
    word = "keep" if row["kept"] else "wait" if row["verdict"] in ("waiting", "no_information") else "drop"
    return f"{word}: {row['reason']}"


def _by_effect(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Sort placebos last, and chunks by falling β̂."""
    return row["kind"] == "placebo", -row.get("beta", 0.0)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def print_gate(
    found: Validation, findings: Findings, directory: Path, remarks: Sequence[str], look: Look | None = None
) -> None:
    """Write ``forest.png``, ``forest.svg`` and ``summary.md``, and print the gate.

    Args:
        found: the gate.
        findings: from `intraskill.rounds.gate.findings.find`.
        directory: where its files are.
        remarks: sentences for the end, such as where the bare run is from.
        look: how tables are printed; fitted to the terminal when left out.
    """
    if found.contributions.chunk_ids:
        write_forest(directory, found, findings)
    write_summary(directory, found, findings, remarks)
    blocks: list[Block] = [contributions_table(found, whole=look is not None and (look.wide or look.form != "table"))]
    blocks += [Prose(text, f"{head}.") for head, text in paragraphs(found, findings)]
    blocks += [Prose(remark) for remark in remarks if remark]
    print_blocks([*blocks, Line(f"Saved in {directory}")], look)


def contributions_table(found: Validation, *, whole: bool) -> Sheet:
    """One line per chunk and placebo: β ± SE with its intervals, the shrunk value, P(α > 0), verdict and reason.

    Args:
        found: the gate.
        whole: give reasons at full length.
    """
    columns = [
        Column("chunk", wraps=True),
        Column("β ± SE", parts=("β", "SE")),
        Column("95 % together", 2, parts=("together low", "together high")),
        Column("95 % interval", 5, parts=("low", "high")),
        Column("shrunk", 4, parts=("shrunk",)),
        Column("P(>0)", 3, parts=("P(>0)",)),
        Column("shown in", 6, parts=("shown in",)),
        Column("verdict", 1, wraps=True),
    ]
    lines = []
    for row in sorted(chunk_table(found), key=_by_effect):
        style = {"placebo": "dim"}.get(row["kind"], "green" if row["kept"] else "red")
        line = [
            Cell(f"{row['title']} (placebo)" if row["kind"] == "placebo" else row["title"]),
            effect(row),
            _ends(row, "together_"),
            _ends(row),
            number(row.get("shrunk"), "{:+.3f}", "–"),
            number(row.get("probability"), "{:.2f}", "–"),
            number(row.get("visible"), "{}", "–"),
            Cell(_reason(row) if whole else verdict_words(row).replace("\n", " "), style=style),
        ]
        lines.append(line)
    return sheet(f"Contributions over {found.contributions.num_pairs} pairs, relative to no skill", columns, lines)


def print_ranking(ranking: Ranking, directory: str, look: Look) -> None:
    """Print the arms of a ranking and whether it holds."""
    columns = [Column("arm or difference", wraps=True), Column("chunks", 1, wraps=True), estimated("reward")]
    lines: list[list[Cell | str]] = [
        [name.replace("_", " "), chunks, interval(to_json(mean), signed="−" in name)]
        for name, chunks, mean in ranking_rows(ranking)
    ]
    table = sheet(f"Ranking on {ranking.num_tasks} audit tasks", columns, lines)
    print_blocks([table, Prose(ranking.words()), Line(f"Saved in {directory}")], look)
