"""Tables of an editor: what a run will read, try and pay; what it took, and what it adds on held-out streams."""

from pathlib import Path
from statistics import fmean
from typing import Any

from intraskill.config.config import Config
from intraskill.editor.setup import allowed_actions, limits_of, workbench_of
from intraskill.method.errors import counted
from intraskill.report.screen import Block, Line
from intraskill.report.sheet import Cell, Column, Sheet, number, sheet
from intraskill.report.summary import spending
from intraskill.report.tables import interval, paid
from intraskill.store.artifacts import EDITOR_SUMMARY, METRICS
from intraskill.store.metrics import Metrics


def editor_plan(config: Config) -> Sheet:
    """Return what `intraskill editor train` will do; loads no weights, asks no worker.

    Raises:
        ConfigError: for a config that makes no sense, the domain's options included.
        ArtifactError: for tasks of the domain that cannot be used.
    """
    limits, actions = limits_of(config), allowed_actions(config.editor.actions)
    workbench_of(config, Path(config.run_dir))
    editor, grpo, rollout = config.editor, config.grpo, config.rollout
    states, answers = grpo.groups_per_step, grpo.groups_per_step * grpo.group_size
    trials = (answers + states) * editor.anchors
    pieces, anchors = counted(limits.batch, "piece"), counted(editor.anchors, "anchor")
    held_out = f"streams at most, each compiled once; z_0 and z_T on every probe × {editor.eval_repeats}"
    rows = [
        ("editor", config.policy.path, f"{config.policy.dtype}, on {config.policy.device}"),
        ("domain", editor.domain, f"evidence in {editor.order} order"),
        ("actions", len(actions), ", ".join(actions)),
        ("optimizer steps", editor.steps, f"lr {grpo.lr:g}, entropy {grpo.entropy_coef:g}, KL {grpo.kl_beta:g}"),
        ("edit states per step", states, f"each reads ≤ {pieces} of ≤ {limits.characters:,} characters"),
        ("answers per step", answers, f"{grpo.group_size} per state at temperature {rollout.temperature:g}"),
        ("tokens per answer", rollout.max_new_tokens, f"at most, after a prompt of ≤ {limits.tokens:,}"),
        ("worker calls per step", f"≤ {trials:,}", f"control and edits × {anchors}, equal ones once"),
        ("worker calls", f"≤ {trials * editor.steps:,}", f"reward: {editor.reward}"),
        ("held out", editor.eval_streams, held_out),
    ]  # fmt: skip
    return _table("Resolved plan of the editor", ("what", "how many", "how"), rows)


def editor_tables(root: Path) -> list[Sheet]:
    """Return the closing tables of a finished run."""
    rows = [row for row in Metrics(METRICS.path(root)).rows() if row["stage"] == "editor"]
    tables = [_shares(rows), _states(rows)] if rows else []
    if EDITOR_SUMMARY.exists(root / "final"):
        found = EDITOR_SUMMARY.read(root / "final")
        lines = [("before, z_0", interval(found["before"])), ("after, z_T", interval(found["after"]))]
        lines.append(("gain", interval(found["gain"], signed=True)))
        title = f"Held-out score ({found['streams']} streams)"
        tables.append(_table(title, ("what", "mean with 95 % interval"), lines))
    return tables


def paid_line(root: Path) -> list[Block]:
    """Return what an editor's run or pass has paid to LLMs; nothing when it asked none."""
    spent = spending(Metrics(METRICS.path(root)).rows())
    return [] if spent is None else [Line(paid(spent))]


def _states(rows: list[dict[str, Any]]) -> Sheet:
    """How many edit states there were, and what became of them."""
    read, used, free, faults = (
        sum(row[f"editor/{name}"] for row in rows) for name in ("states", "groups_used", "unanchored", "faults")
    )
    lines = [
        ("read", read),
        ("with rewards that differ, learnt from", used),
        ("with equal rewards, or none for faults", read - used - free),
        ("without a query to try an edit on", free),
        ("answers without a reward for faults", faults),
    ]
    return _table("Edit states", ("which", "how many"), lines)


def _shares(rows: list[dict[str, Any]]) -> Sheet:
    """Shares of actions and invalid answers, and the mean reward, over the first and the last quarter of the steps."""
    quarter = max(1, len(rows) // 4)
    early, late = (_counts(part) for part in (rows[:quarter], rows[-quarter:]))
    lines = [
        (name, f"{early.get(name, 0) / _total(early):.3f}", f"{late.get(name, 0) / _total(late):.3f}")
        for name in sorted({*early, *late})
    ]
    lines.append(("mean reward", _reward(rows[:quarter]), _reward(rows[-quarter:])))
    title = "Shares of all answers, and what they earned"
    steps = "step" if quarter == 1 else f"{quarter} steps"
    return _table(title, ("answer", f"first {steps}", f"last {steps}"), lines, numbers=(1, 2))


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        for key, value in row.items():
            kind, _, name = key.removeprefix("editor/").partition("_")
            if kind == "action":
                found[name.upper()] = found.get(name.upper(), 0) + value
            elif kind == "invalid":
                found[f"invalid: {name}"] = found.get(f"invalid: {name}", 0) + value
    return found


def _reward(rows: list[dict[str, Any]]) -> str:
    """The mean over steps in which any answer was scored."""
    known = [row["editor/reward"] for row in rows if row["editor/reward"] is not None]
    return f"{fmean(known):.3f}" if known else "–"


def _total(counts: dict[str, int]) -> int:
    return max(1, sum(counts.values()))


def _table(title: str, columns: tuple[str, ...], rows: list[Any], *, numbers: tuple[int, ...] = (1,)) -> Sheet:
    heads = [Column(name, right=at in numbers, wraps=at not in numbers) for at, name in enumerate(columns)]
    lines = [
        [cell if isinstance(cell, Cell) else number(cell) if isinstance(cell, int) else str(cell) for cell in row]
        for row in rows
    ]
    return sheet(title, heads, lines)
