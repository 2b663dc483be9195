"""The forest plot of a gate: every contribution with its interval, its shrunk value, and what was decided and why.

Equal gates give equal SVG bytes. Columns are as wide as their widest text, so nothing overlaps with 1 or 30 chunks.
"""

import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intraskill.rounds.gate.assess import Validation
from intraskill.rounds.gate.findings import Findings, chunk_table, noise_band
from intraskill.store.run_directory import full_disk_is_one_error

Row = Mapping[str, Any]
ROW_HEIGHT, MARGIN, GAP, PLOT_WIDTH = 0.46, 0.25, 0.22, 4.6  # inches
HEAD, FOOT = 0.95, 0.85  # inches above the first row and below the last
TITLE_LENGTH, VERDICT_LENGTH = 48, 52  # characters
_FONT_SIZE = 9.0
COLOURS = {"kept": "#1b7837", "dropped": "#b2182b", "held": "#b8860b", "placebo": "#777777"}
_FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "SimHei", "PingFang SC")


def write_forest(directory: Path, found: Validation, findings: Findings) -> tuple[Path, Path]:
    """Write ``forest.png`` and ``forest.svg`` and return their paths."""
    import matplotlib

    settings = {"svg.hashsalt": "intraskill", "svg.fonttype": "none", "font.family": _fonts(), "font.size": _FONT_SIZE}
    settings["text.parse_math"] = False  # a title may hold dollar signs
    paths = directory / "forest.png", directory / "forest.svg"
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # without such a font the SVG alone shows the title
        figure = draw(found, findings)
        for path, metadata in zip(paths, ({"Software": None}, {"Date": None, "Creator": None}), strict=True):
            aside = path.with_name(f".{path.name}.tmp")
            with full_disk_is_one_error(path):
                figure.savefig(aside, format=path.suffix[1:], dpi=150, metadata=metadata)
                aside.replace(path)
    return paths


def _fonts() -> list[str]:
    """Return the fonts of this machine that can carry titles; a missing one would only warn."""
    from matplotlib import font_manager

    present = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in _FONTS if name in present] or ["sans-serif"]


def draw(found: Validation, findings: Findings) -> Any:
    """Return the plot as a matplotlib figure, chunks by falling β̂, placebos last."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = sorted(chunk_table(found), key=lambda row: (row["kind"] == "placebo", -row["beta"], row["id"]))
    figure = Figure()
    canvas = FigureCanvasAgg(figure)
    left, right = _cells(rows)
    widths = {name: _width(canvas, [name, *cells]) for name, cells in {**left, **right}.items()}
    plot_left = MARGIN + sum(widths[name] + GAP for name in left)
    width = plot_left + PLOT_WIDTH + sum(GAP + widths[name] for name in right) + MARGIN
    height = HEAD + ROW_HEIGHT * max(1, len(rows)) + FOOT
    figure.set_size_inches(width, height)
    bottom = FOOT / height
    plot = figure.add_axes((plot_left / width, bottom, PLOT_WIDTH / width, ROW_HEIGHT * max(1, len(rows)) / height))
    _draw_rows(plot, rows, found)
    at = MARGIN
    for name, cells in {**left, **right}.items():
        if name == next(iter(right)):
            at = plot_left + PLOT_WIDTH + GAP
        _write_column(figure, name, cells, at / width)
        at += widths[name] + GAP
    _title(figure, found, findings, MARGIN / width)
    return figure


def _cells(rows: Sequence[Row]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the text columns left and right of the plot, by heading."""
    right = {
        "β̂ [95 % interval]": [f"{row['beta']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]" for row in rows],
        "shrunk": [f"{row['shrunk']:+.3f}" if "shrunk" in row else "–" for row in rows],
        "P(α > 0)": [f"{row['probability']:.2f}" if "probability" in row else "–" for row in rows],
        "shown in": [str(row["visible"]) for row in rows],
        "verdict": [verdict_words(row) for row in rows],
    }
    return {"chunk": [name_of(row) for row in rows]}, right


def verdict_words(row: Row) -> str:
    """Return the verdict and its reason in words, at most three lines."""
    reason = row["reason"].rpartition(": ")[2]
    if "P(> 0) = " in row["reason"] and reason.startswith(("at ", "between ", "enough ")):
        reason = f"P(> 0) is {reason}"
    word = {True: "keep"}.get(row["kept"], "wait" if row["verdict"] == "waiting" else "drop")
    text = reason if row["kind"] == "placebo" else f"{word}: {reason}"
    return "\n".join(textwrap.wrap(text, VERDICT_LENGTH, max_lines=3, placeholder=" …"))


def name_of(row: Row) -> str:
    """Return the title, cut when it is very long; a placebo says what it is."""
    title = row["title"] if len(row["title"]) <= TITLE_LENGTH else row["title"][: TITLE_LENGTH - 1] + "…"
    return f"{title} (placebo)" if row["kind"] == "placebo" else title


def _width(canvas: Any, texts: Sequence[str]) -> float:
    """Return the width of the widest text in inches."""
    renderer = canvas.get_renderer()
    probe = canvas.figure.text(0, 0, "")
    widest = 0.0
    for text in texts:
        probe.set_text(text)
        widest = max(widest, probe.get_window_extent(renderer).width)
    probe.remove()
    return widest / float(canvas.figure.dpi)


def _write_column(figure: Any, name: str, cells: Sequence[str], x: float) -> None:
    height = figure.get_size_inches()[1]
    top = 1.0 - HEAD / height
    figure.text(x, top + 0.08 / height, name, weight="bold", va="bottom")
    for index, cell in enumerate(cells):
        size = _FONT_SIZE if cell.count("\n") < 2 else _FONT_SIZE * 0.85
        figure.text(x, top - (index + 0.5) * ROW_HEIGHT / height, cell, va="center", linespacing=1.05, size=size)


def _colour(row: Row) -> str:
    if row["kind"] == "placebo":
        return COLOURS["placebo"]
    if row["verdict"] in ("held_at_floor", "waiting"):
        return COLOURS["held"]
    return COLOURS["kept" if row["kept"] else "dropped"]


def _draw_rows(plot: Any, rows: Sequence[Row], found: Validation) -> None:
    plot.set_ylim(len(rows) - 0.5 if rows else 0.5, -0.5)
    plot.set_yticks([])
    if (null := found.assessment.null) is not None:
        plot.axvspan(-noise_band(null), noise_band(null), color="#cccccc", alpha=0.5, lw=0, zorder=0)
    plot.axvline(0.0, color="black", lw=0.8, zorder=1)
    for index, row in enumerate(rows):
        colour = _colour(row)
        plot.plot([row["low"], row["high"]], [index, index], color=colour, lw=1.6, solid_capstyle="butt", zorder=2)
        plot.plot([row["beta"]], [index], marker="o", ms=5, color=colour, ls="none", zorder=3)
        if "shrunk" in row:
            hollow = {"marker": "D", "ms": 5, "mfc": "white", "mec": "black", "mew": 0.9, "ls": "none"}
            plot.plot([row["shrunk"]], [index + 0.22], zorder=4, **hollow)
    for side in ("left", "right", "top"):
        plot.spines[side].set_visible(False)
    plot.grid(axis="x", color="#e5e5e5", lw=0.6, zorder=0)
    plot.set_axisbelow(True)
    plot.locator_params(axis="x", nbins=7)
    plot.set_xlabel("contribution to the reward of one task, relative to no skill")


def _title(figure: Any, found: Validation, findings: Findings, x: float) -> None:
    height = figure.get_size_inches()[1]
    pairs, facts = len(found.pairs.task_ids), found.facts
    title = f"Contributions over {pairs:,} pairs · estimator {facts.gate.estimator} · policy {facts.gate.policy}"
    figure.text(x, 1.0 - 0.2 / height, title, weight="bold", size=_FONT_SIZE + 2, va="top")
    key = "● β̂ with its 95 % interval    ◇ shrunk value    green keep, red drop, amber wait or hold"
    if found.assessment.null is not None:
        key += "    grey band: looks like noise, by the placebos and their errors"
    figure.text(x, 0.12 / height, key, size=_FONT_SIZE - 1, va="bottom", color="#444444")
    if findings.power is not None:
        seen = f"this gate can see effects of {findings.power.smallest_effect:.3f} or more (80 % power)"
        figure.text(x, 1.0 - 0.44 / height, seen, size=_FONT_SIZE - 1, va="top", color="#444444")
