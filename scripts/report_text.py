"""The words and the figure of experiment_report.md; every number comes from the rows that it is given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from intraskill.environments.shopworld.lessons import USEFUL, titles
from intraskill.method.gate.intervals import mean_interval

Row = dict[str, Any]
USEFUL_TITLES = {title for rule in USEFUL for title in titles(rule)}
COLORS = {"method": "tab:blue", "plain GRPO": "tab:orange"}


def draw(rounds: list[Row], path: Path) -> None:
    """Draw R_free by round with 95 % intervals, one line per run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for (condition, seed), rows in by_run(rounds).items():
        x = [row["round"] for row in rows]
        mean = [row["r_free_mean"] for row in rows]
        error = [[row["r_free_mean"] - row["r_free_low"] for row in rows]]
        error.append([row["r_free_high"] - row["r_free_mean"] for row in rows])
        label = condition if seed == min(row["seed"] for row in rounds) else None
        axes.errorbar(x, mean, yerr=error, color=COLORS[condition], capsize=2, alpha=0.8, label=label)
    axes.set_xlabel("round")
    axes.set_ylabel("skill-free reward R_free (r_strict)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("One line per seed; bars are 95 % intervals over validation tasks")
    axes.legend()
    figure.savefig(path, dpi=110)


def write(tables: Mapping[str, list[Row]], summaries: Mapping[tuple[str, int], Row]) -> str:
    """Return the whole report as Markdown."""
    parts = [HEAD, rounds_section(tables["rounds"]), chunks_section(tables["chunks"])]
    parts += [changes_section(tables["chunks"]), final_section(tables["final"]), across_section(tables["final"])]
    parts += [checks_section(tables), cost_section(summaries), LIMITS.format(reads=len(summaries))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def by_run(rows: list[Row]) -> dict[tuple[str, int], list[Row]]:
    """Group rows by condition and seed, in order."""
    runs: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        runs.setdefault((row["condition"], row["seed"]), []).append(row)
    return runs


def rounds_section(rounds: list[Row]) -> str:
    """Return the table of rounds."""
    lines = ["## Round by round (skill-validation)", "", "![R_free by round](docs/results/quickstart.png)", ""]
    lines += table_head(
        "condition", "seed", "round", "R_free", "R_pair", "gap", "model / skill deficits", "edits taken / refused"
    )
    for row in rounds:
        cells = [row["condition"], row["seed"], row["round"]]
        cells += [between(row, key, signed=key == "gap") for key in ("r_free", "r_pair", "gap")]
        cells += [f"{row['model_deficit']} / {row['skill_deficit']}", f"{row['edits_taken']} / {row['edits_refused']}"]
        lines.append(table_row(cells))
    return "\n".join(lines)


def chunks_section(chunks: list[Row]) -> str:
    """Return β ± SE of every chunk by round, for the method's runs."""
    own = [row for row in chunks if row["condition"] == "method"]
    last = max((row["round"] for row in own), default=0)
    lines = ["## Contributions β ± SE by round", "", "A dash: the chunk was not in that round's pool.", ""]
    lines += table_head("seed", "chunk", *(f"round {k}" for k in range(last + 1)), "status at the end")
    names = sorted({(row["seed"], row["title"], row["id"]) for row in own})
    for seed, title, chunk_id in names:
        found = {row["round"]: row for row in own if row["seed"] == seed and row["id"] == chunk_id}
        cells = [f"{found[k]['beta']:+.3f} ± {found[k]['se']:.3f}" if k in found else "–" for k in range(last + 1)]
        lines.append(table_row([seed, title, *cells, found[max(found)]["status"]]))
    return "\n".join(lines)


def changes_section(chunks: list[Row]) -> str:
    """Return how β of every chunk changed between its first and its last measurement, useful lessons and others.

    No row is chosen by its outcome. A chunk leaves at a low β, so last measurements are low by selection: the useless
    and harmful ones beside the lessons show how much of a fall that alone makes.
    """
    lines = ["## Do contributions fall?", ""]
    lines += ["Every chunk that two gates or more measured; first against last measurement, 95 % interval.", ""]
    lines += table_head("seed", "chunk", "kind", "rounds", "first β", "last β", "difference", "status")
    by_kind: dict[str, list[float]] = {}
    for row in changes(chunks):
        by_kind.setdefault(row["kind"], []).append(row["change"])
        ends = f"{row['change']:+.3f} [{row['change'] - row['half']:+.3f}, {row['change'] + row['half']:+.3f}]"
        cells = [row["seed"], row["title"], row["kind"], row["rounds"], f"{row['first']:+.3f}", f"{row['last']:+.3f}"]
        lines.append(table_row([*cells, ends, row["status"]]))
    lines.append("")
    for kind, values in sorted(by_kind.items()):
        lines.append(f"- {kind}, {len(values)} chunks: mean difference {across(values)}.")
    return "\n".join(lines)


def changes(chunks: list[Row]) -> list[Row]:
    """Return one row per chunk of the method's runs that was measured more than once, whatever became of it."""
    measured: dict[tuple[int, str], list[Row]] = {}
    for row in chunks:
        if row["condition"] == "method" and "beta" in row:
            measured.setdefault((row["seed"], row["id"]), []).append(row)
    rows = []
    for (seed, _), own in sorted(measured.items()):
        own = sorted(own, key=lambda row: row["round"])
        if len(own) > 1:
            first, last = own[0], own[-1]
            kind = "lesson" if last["title"] in USEFUL_TITLES else "no lesson"
            rows.append({
                "seed": seed, "title": last["title"], "kind": kind, "status": last["status"],
                "rounds": f"{first['round']}→{last['round']}", "first": first["beta"], "last": last["beta"],
                "change": last["beta"] - first["beta"], "half": 1.96 * (first["se"] ** 2 + last["se"] ** 2) ** 0.5,
            })  # fmt: skip
    return rows


def across(values: list[float]) -> str:
    """Return the mean with its t interval over the values, or the value alone where there is one."""
    if len(values) < 2:
        return f"{values[0]:+.3f} (one: no interval)"
    if len(set(values)) == 1:  # such as two arms that are one, where a run ends without a skill
        return f"{values[0]:+.3f} in all {len(values)}"
    found = mean_interval(values)
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}] (t over {found.n})"


def across_section(final: list[Row]) -> str:
    """Return every comparison as a mean over seeds with the t interval over seeds."""
    lines = ["## Across seeds", ""]
    lines += ["Mean over seeds with Student's interval over seeds: how another seed of this world would come out.", ""]
    lines += table_head("condition", "comparison", "reward", "success")
    compared = dict.fromkeys((row["condition"], row["what"]) for row in final if " - " in row["what"])
    for condition, what in compared:
        cells = {
            measure: across([row["mean"] for row in final if (row["condition"], row["what"], row["measure"]) == key])
            for measure in ("reward", "success")
            for key in [(condition, what, measure)]
        }
        lines.append(table_row([condition, what.replace("_", " "), cells["reward"], cells["success"]]))
    return "\n".join(lines)


def final_section(final: list[Row]) -> str:
    """Return the closing comparison on the test split."""
    lines = ["## Start against end on the test split (95 % intervals over tasks, paired where two arms differ)", ""]
    lines += table_head("condition", "seed", "comparison", "reward", "success")
    for (condition, seed), rows in by_run(final).items():
        for what in dict.fromkeys(row["what"] for row in rows):
            cells = {row["measure"]: between(row, "", signed="-" in what) for row in rows if row["what"] == what}
            lines.append(table_row([condition, seed, what.replace("_", " "), cells["reward"], cells["success"]]))
    return "\n".join(lines)


def checks_section(tables: Mapping[str, list[Row]]) -> str:
    """Return what the runs were asked to show, and whether each seed shows it."""
    lines = ["## What was asked, seed by seed", ""]
    lines += table_head("question", *(f"seed {seed}" for seed in sorted({row["seed"] for row in tables["rounds"]})))
    for question, answers in answers_of(tables).items():
        lines.append(table_row([question, *(answers[seed] for seed in sorted(answers))]))
    return "\n".join(lines)


def answers_of(tables: Mapping[str, list[Row]]) -> dict[str, dict[int, str]]:
    """Return question → seed → answer, computed from the rows."""
    seeds = sorted({row["seed"] for row in tables["rounds"]})
    return {
        "R_free rises on test: paired interval of the method excludes 0": {s: gain(tables, "method", s) for s in seeds},
        "the same for plain GRPO": {s: gain(tables, "plain GRPO", s) for s in seeds},
        "skill-free at the end, method minus plain GRPO": {s: against(tables, s) for s in seeds},
        "gap R_pair − R_free, first round of training → last": {s: shrinking(tables, s) for s in seeds},
        "the harmful chunk of the draft at the first gate": {s: first_gate(tables, s, "Opening") for s in seeds},
        "the useless chunk of the draft at the first gate": {s: first_gate(tables, s, "Manners") for s in seeds},
        "model deficits / skill deficits found by triage": {s: deficits(tables, s) for s in seeds},
    }


def gain(tables: Mapping[str, list[Row]], condition: str, seed: int) -> str:
    """Return the paired gain of the skill-free policy with its verdict."""
    for row in tables["final"]:
        where = (row["condition"], row["seed"], row["measure"], row["what"])
        if where == (condition, seed, "reward", "final_free - start_free"):
            return f"{'yes' if row['low'] > 0 else 'no'}: {between(row, '', signed=True)}"
    return "not measured"


def against(tables: Mapping[str, list[Row]], seed: int) -> str:
    """Return the paired skill-free difference of the two conditions."""
    for row in tables["final"]:
        if (row["condition"], row["seed"], row["measure"]) == ("both", seed, "reward"):
            return between(row, "", signed=True)
    return "not measured"


def shrinking(tables: Mapping[str, list[Row]], seed: int) -> str:
    """Return the gap after the first and after the last round of training."""
    own = [row for row in tables["rounds"] if row["condition"] == "method" and row["seed"] == seed and row["round"] > 0]
    return f"{between(own[0], 'gap', signed=True)} → {between(own[-1], 'gap', signed=True)}"


def first_gate(tables: Mapping[str, list[Row]], seed: int, title: str) -> str:
    """Return β ± SE of a draft chunk at the first gate, what became of it, and whether that could be told."""
    for row in tables["chunks"]:
        if (row["condition"], row["seed"], row["round"], row["title"]) == ("method", seed, 0, title):
            told = "" if row["low"] > 0.0 or row["high"] < 0.0 else ", a coin flip: its interval holds 0"
            return f"β {row['beta']:+.3f} ± {row['se']:.3f}, {row['status']}{told}"
    return "not in the draft"


def deficits(tables: Mapping[str, list[Row]], seed: int) -> str:
    """Return the sums over rounds."""
    own = [row for row in tables["rounds"] if row["condition"] == "method" and row["seed"] == seed]
    return f"{sum(row['model_deficit'] for row in own)} / {sum(row['skill_deficit'] for row in own)}"


def cost_section(summaries: Mapping[tuple[str, int], Row]) -> str:
    """Return time and tokens per run."""
    lines = ["## Cost", ""]
    lines += table_head("condition", "seed", "seconds", "rollouts", "tokens sampled")
    for (condition, seed), summary in summaries.items():
        tokens = summary["tokens"]
        cells = [condition, seed, f"{summary['timing']['total_s']:.0f}", tokens["rollouts"], tokens["sampled"]]
        lines.append(table_row(cells))
    return "\n".join(lines)


def between(row: Row, key: str, *, signed: bool = False) -> str:
    """Return ``0.312 [0.280, 0.344]``."""
    prefix = f"{key}_" if key else ""
    form = "{:+.3f}" if signed else "{:.3f}"
    mean, low, high = (form.format(row[f"{prefix}{part}"]) for part in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def table_head(*names: str) -> list[str]:
    """Return the two head lines of a Markdown table."""
    return [table_row(names), table_row(["---"] * len(names))]


def table_row(cells: Any) -> str:
    """Return one line of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


HEAD = """
# Experiment report: the quickstart

What `intraskill train` shows with the tiny policy on the embedded `ShopWorld` (preset `small`), over several seeds,
beside plain GRPO from the same start with the same training tasks and number of training rollouts. Made by
`python scripts/quickstart_seeds.py`; the raw rows are `docs/results/quickstart_rounds.csv`, `quickstart_chunks.csv`,
`quickstart_final.csv` and, with the two final arms task by task for any other comparison, `quickstart_tasks.csv`. In
training only full success pays; what is reported, and what the gate reads, is `r_strict`, the product of four
components, so a purchase that misses one component wholly earns nothing. Intervals over tasks say how well one run's
reward is known; how runs differ is what the seeds show.
"""

LIMITS = """
## Limits

- The tiny policy has about one million parameters and understands its own template grammar, not free language. The
  runs show that the loop works; they say nothing about the size of the effect with a large model.
- Seeds share one world and one set of start weights: they differ in sampling, contexts, masks and task order.
- The validation split is queried by every gate of a run. The closing comparison on `test` is read once a run, at the
  end: {reads} runs have read it for this page.
- β is an additive approximation relative to no skill (see `paired_validation.md`). Here rules interact strongly by
  construction, since the reward is a product.
"""
