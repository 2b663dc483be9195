"""A finished gate for people: forest plot and summary as files, the table and the same words on the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from intraskill.gate_findings import Findings, chunk_table
from intraskill.ranking import Ranking, ranking_rows
from intraskill.report.forest import name_of, verdict_words, write_forest
from intraskill.report.gate_words import paragraphs, write_summary
from intraskill.report.tables import console, interval
from intraskill.runtime.records import to_json
from intraskill.validation import Validation


def print_gate(found: Validation, findings: Findings, directory: Path, remarks: Sequence[str]) -> None:
    """Write ``forest.png``, ``forest.svg`` and ``summary.md``, and print the gate.

    Args:
        found: the gate.
        findings: from `intraskill.gate_findings.find`.
        directory: where its files are.
        remarks: sentences for the end, such as where the bare run is from.
    """
    if found.contributions.chunk_ids:
        write_forest(directory, found, findings)
    write_summary(directory, found, findings, remarks)
    print_validation(found, findings, remarks, str(directory))


def print_validation(found: Validation, findings: Findings, remarks: Sequence[str], directory: str) -> None:
    """Print what the gate found: a table of contributions and what they mean in plain words."""
    out = console()
    out.print(contributions_table(found))
    for head, text in paragraphs(found, findings):
        out.print(f"[bold]{head}.[/bold] {escape(text)}", highlight=False)
    for remark in remarks:
        if remark:
            out.print(escape(remark), highlight=False)
    out.print(f"Saved in {escape(directory)}", highlight=False)


def contributions_table(found: Validation) -> Table:
    """One line per chunk and placebo: β ± SE with its interval, the shrunk value, P(α > 0), verdict and reason."""
    title = f"Contributions over {found.contributions.num_pairs} pairs, relative to no skill"
    table = Table(title=title, title_justify="left")
    for name in ("chunk", "β ± SE", "95 % interval", "shrunk", "P(>0)", "shown in"):
        table.add_column(name, no_wrap=name != "chunk")
    table.add_column("verdict")
    for row in sorted(chunk_table(found), key=lambda row: (row["kind"] == "placebo", -row["beta"])):
        style = {"placebo": "dim"}.get(row["kind"], "green" if row["kept"] else "red")
        table.add_row(
            name_of(row),
            f"{row['beta']:+.3f} ± {row['se']:.3f}",
            f"[{row['low']:+.3f}, {row['high']:+.3f}]",
            f"{row['shrunk']:+.3f}" if "shrunk" in row else "–",
            f"{row['probability']:.2f}" if "probability" in row else "–",
            str(row["visible"]),
            Text(verdict_words(row).replace("\n", " "), style),
        )
    return table


def print_ranking(ranking: Ranking, directory: str) -> None:
    """Print the arms of a ranking and whether it holds."""
    table = Table(title=f"Ranking on {ranking.num_tasks} audit tasks", title_justify="left")
    for name in ("arm or difference", "chunks", "reward"):
        table.add_column(name)
    for name, chunks, found in ranking_rows(ranking):
        table.add_row(name.replace("_", " "), chunks, interval(to_json(found), signed="−" in name))
    console().print(table, escape(ranking.words()), f"Saved in {directory}", sep="\n", highlight=False)
