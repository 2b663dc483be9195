"""The tables on the gate, each between two markers: every number from a CSV of docs/results or the planner.

python scripts/statistics_tables.py           # rewrites the tables in place; a test checks that nothing changes
"""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from intraskill.method.gate.power import GateDesign, smallest_effect, standard_errors

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "docs" / "gate.md", ROOT / "docs" / "research" / "gate_designs.md")
RESULTS = ROOT / "docs" / "results"
Row = dict[str, str]
WORLDS = ("published", "published, still checkpoint", "lower correlation", "graded reward", "rare success")
COUNTED = tuple(world for world in WORLDS if world != "published, still checkpoint")
"""Without history in a design the published world is the same one, training or not; it counts once."""
IN_A_RUN = "mirrored, balanced, paired_ols"
"""What `intraskill train` can play: it always plays the bare arm, so a mirrored gate takes three rollouts per task."""
ESTIMATORS = ("paired_ols", "paired_ols_intercept", "ancova", "masked_ols", "covariate (H)", "covariate (H, B)")


def read(name: str) -> list[Row]:
    """Return the rows of a result file."""
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def percent(value: str) -> str:
    """Return a share as a percentage with one decimal."""
    return f"{100 * float(value):.1f}"


def power() -> str:
    """What the published gate can see, by number of tasks: from the planner's formula."""
    designs = [GateDesign(12, tasks, 0.44) for tasks in (400, 800, 1600, 3200)]
    rows = [[f"{d.tasks:,}", f"{standard_errors(d)[0]:.3f}", f"{smallest_effect(d):.3f}"] for d in designs]
    return table(["tasks", "standard error of a contribution", "smallest effect seen (80 % power)"], rows)


def small() -> str:
    """What small gates promise and keep, and how often a gate without effect names a chunk."""
    rows = []
    for row in read("gate_small"):
        cells = [
            row["chunks"],
            row["tasks"],
            f"{float(row['first_order_effect']):.3f}",
            percent(row["first_order_power"]),
        ]
        cells += [f"{float(row['planned_effect']):.3f}", percent(row["planned_power"])]
        rows.append([*cells, percent(row["named_alone"]), percent(row["named_together"])])
    head = ["chunks", "tasks", "first order sees", "power, %", "planned sees", "power, %"]
    return table([*head, "names one alone, %", "names one together, %"], rows)


def intervals() -> str:
    """Lowest coverage of Student's and of the printed interval, and the share of intervals without width, by kind."""
    found, rows = read("interval_coverage"), []
    for kind in dict.fromkeys(row["kind"] for row in found):
        for tasks in dict.fromkeys(row["tasks"] for row in found if row["kind"] == kind):
            cells = [kind, tasks]
            for name in ("t", "printed"):
                own = [r for r in found if (r["kind"], r["tasks"], r["interval"]) == (kind, tasks, name)]
                lowest = min(float(row["coverage"]) for row in own)
                cells += [f"{lowest:.1f}", f"{max(float(row['zero_width']) for row in own):.1f}"]
            rows.append(cells)
    head = [
        "of a",
        "tasks",
        "t: lowest coverage, %",
        "without width, %",
        "printed: lowest coverage, %",
        "without width, %",
    ]
    return table(head, rows)


def coverage() -> str:
    """Range of the coverages over the four worlds, by estimator and number of tasks."""
    found = [row for row in read("gate_coverage") if row["world"] == "additive" and row["masks"] == "bernoulli"]
    sizes = sorted({int(row["tasks"]) for row in found})
    rows = []
    for name in ESTIMATORS:
        cells = [f"`{name.split()[0]}`{name[len(name.split()[0]) :]}"]
        for tasks in sizes:
            here = [r for r in found if (r["estimator"], int(r["tasks"]), r["masked_per_task"]) == (name, tasks, "1")]
            values = [percent(row["coverage"]) for row in here]
            cells.append(f"{min(values)}–{max(values)}")
        rows.append(cells)
    return table(["estimator", *(f"n = {tasks:,}" for tasks in sizes)], rows)


def designs() -> str:
    """Range of the coverages over estimators, by mask design and replicates."""
    found = [row for row in read("gate_coverage") if row["world"] == "additive"]
    special = [row for row in found if row["masks"] == "balanced" or row["masked_per_task"] != "1"]
    keys = dict.fromkeys((r["masks"], r["tasks"], r["masked_per_task"], r["bare_per_task"]) for r in special)
    rows = []
    for key in keys:
        values = [
            percent(r["coverage"])
            for r in special
            if (r["masks"], r["tasks"], r["masked_per_task"], r["bare_per_task"]) == key
        ]
        rows.append([*key, f"{min(values)}–{max(values)}"])
    return table(["masks", "tasks", "masked runs per task", "bare runs per task", "coverage, %"], rows)


def wrong() -> str:
    """Bias and coverage where the additive model is wrong: graded rewards."""
    found = {
        (r["world"], r["estimator"], r["target"], r["tasks"]): r
        for r in read("gate_coverage")
        if r["world"] != "additive" and r["rewards"] == "graded"
    }
    words = {
        "alone": "the chunk alone",
        "marginal": "mean effect beside others",
        "projection": "additive approximation",
    }
    rows = []
    for world, estimator in ((w, e) for w in ("pairs", "ceiling", "text") for e in ("paired_ols", "ancova")):
        for target, meaning in words.items():
            small, large = (found[world, estimator, target, tasks] for tasks in ("400", "1600"))
            bias = [f"{float(large[key]):+.4f}" for key in ("mean_bias", "largest_bias")]
            rows.append(
                [world, f"`{estimator}`", meaning, *bias, percent(small["coverage"]), percent(large["coverage"])]
            )
    head = ["world", "estimator", "held against", "mean bias", "largest bias", "covers, n = 400", "covers, n = 1,600"]
    return table(head, rows)


def savings() -> str:
    """Rollouts for the published standard error, by design, accounting and world."""
    found = [row for row in read("gate_savings") if row["part"] == "equal SE"]
    by_key = {(row["world"], row["option"]): row for row in found}
    rows = []
    for option in dict.fromkeys(row["option"] for row in found):
        cells = [option]
        for accounting in ("all_counted", "bare_sunk"):
            cells += [worth(by_key[world, option], accounting) for world in WORLDS[:2]]
            others = sorted(float(by_key[world, option][accounting]) for world in WORLDS[2:])
            cells.append(f"{others[0]:.2f}–{others[-1]:.2f}")
        rows.append(cells)
    short = ("published", "still", "the others")
    return table(["design", *(f"all: {name}" for name in short), *(f"bare: {name}" for name in short)], rows)


def worth(row: Row, accounting: str) -> str:
    """Return a ratio with its interval, bold where the whole interval meets the goal."""
    low, high = (f"{float(row[f'{accounting}_{end}']):.2f}" for end in ("low", "high"))
    value = f"{float(row[accounting]):.2f} [{low}, {high}]"
    return f"**{value}**" if row[f"{accounting}_goal"] == "met" else value


KINDS = {
    "first round": (
        *("ancova", "masked_ols", "balanced", "balanced, masked_ols", "2 masked runs", "2 masked runs, ancova"),
        *("2 masked and 2 bare runs", "2 masked and 2 bare runs, ancova"),
    ),
    "H from masked rounds": ("H of 1 masked rounds", "H of 4 masked rounds", "H of 8 masked rounds"),
    "H from bare rounds": (
        *("H of 4 bare rounds", "8 bare rounds, a column each", "balanced, B and H of 8 bare rounds"),
        *("B and H of 4 bare rounds", "B and 8 bare rounds, a column each", "4 masked runs, B and H of 8 bare rounds"),
    ),
    "mirrored masks": ("mirrored", "mirrored, balanced", "mirrored, paired_ols", "mirrored, balanced, paired_ols"),
    "mirrored, two gates carried over": ("mirrored, two gates carried over",),
    "oracle": ("oracle",),
}


def goals() -> str:
    """The best design of each kind in each world, a minimum over estimates, against both goals."""
    by_key = {(row["world"], row["option"]): row for row in read("gate_savings") if row["part"] == "equal SE"}
    rows = []
    for accounting, words in (
        ("all_counted", "0.40, every rollout counts"),
        ("bare_sunk", "0.60, beside the bare run"),
    ):
        for kind, names in KINDS.items():
            cells = [words, kind]
            for world in WORLDS:
                best = min((by_key[world, name] for name in names), key=lambda row: float(row[accounting]))
                cells.append(worth(best, accounting))
            rows.append(cells)
    return table(["goal", "best of", *WORLDS], rows)


def answer() -> str:
    """Whether the goals are met, in words."""
    by_key = {(row["world"], row["option"]): row for row in read("gate_savings") if row["part"] == "equal SE"}
    lines = []
    for accounting, words in (
        ("all_counted", "at most 0.40 when every rollout counts, without a bare arm"),
        ("bare_sunk", "at most 0.60 beside the bare run"),
    ):
        best = {
            kind: {w: min((by_key[w, n] for n in names), key=lambda r: float(r[accounting])) for w in COUNTED}
            for kind, names in KINDS.items()
        }
        first, oracle = best["mirrored masks"]["published"], best["oracle"]["published"]
        plain = min(
            (best[kind]["published"] for kind in ("H from masked rounds", "H from bare rounds")),
            key=lambda r: float(r[accounting]),
        )
        lines += [
            f"- **{words[0].upper()}{words[1:]}**: in the published situation {worth(first, accounting)} with "
            f"mirrored masks ({first['option']}). {met_in(best['mirrored masks'].values(), accounting)} "
            f"Without mirrored masks the published situation allows {worth(plain, accounting)} ({plain['option']}); "
            f"with the task known perfectly, one masked run each, {worth(oracle, accounting)}."
        ]
    played = {world: by_key[world, IN_A_RUN] for world in COUNTED}
    lines += [
        "- **At most 0.40 when every rollout counts, in a run of the package**: `intraskill train` plays the bare "
        "arm in every gate, so a mirrored gate takes two masked runs and one bare run of each task: "
        f"{worth(played['published'], 'all_counted')} in the published situation ({IN_A_RUN}). "
        f"{met_in(played.values(), 'all_counted')}"
    ]
    return "\n".join(lines)


def met_in(rows: Iterable[Row], accounting: str) -> str:
    """Say in how many worlds a goal is met, and where it is missed or where the interval holds the goal."""
    told = list(rows)
    met = [row for row in told if row[f"{accounting}_goal"] == "met"]
    words = f"Met in {len(met)} of {len(told)} worlds"
    for verdict, verb in (("missed", "missed in"), ("open", "undecided in")):
        found = [f"{r['world']} ({float(r[accounting]):.2f})" for r in told if r[f"{accounting}_goal"] == verdict]
        words += f", {verb} {', '.join(found)}" if found else ""
    return f"{words}."


def situations() -> str:
    """What the worlds of the savings look like: σ, corr(R, B) and the published gate's standard error."""
    rows = []
    for row in read("gate_savings"):
        if row["option"] == "published" and row["part"] == "equal SE":
            rows.append([row["world"], row["sigma"], row["correlation"], f"{float(row['sd_beta']):.3f}"])
    return table(["world", "σ, SD of R − B", "corr(R, B)", "standard error of the published gate"], rows)


def at_goal() -> str:
    """The published gate and the candidates at the goal's budget, errors counted."""
    rows = []
    for row in (r for r in read("gate_savings") if r["part"] == "at goal" and r["world"] == WORLDS[0]):
        ratio = (
            f"{float(row['variance_ratio']):.2f} [{float(row['variance_low']):.2f}, {float(row['variance_high']):.2f}]"
        )
        errors = f"{float(row['errors']):.2f} [{float(row['errors_low']):.2f}, {float(row['errors_high']):.2f}]"
        counted = {"": "both arms", "all_counted": "every one", "bare_sunk": "beside the bare run"}[row["accounting"]]
        shares = [percent(row[key]) for key in ("useless_in", "harmful_in", "useful_out")]
        rows.append([row["option"], f"{row['rollouts']}, {counted}", ratio, *shares, errors])
    head = ["design", "rollouts", "variance, published = 1", "useless in, %", "harmful in, %", "useful out, %"]
    return table([*head, "wrong decisions of 12"], rows)


def losses(world: str) -> str:
    """Losses at 400 tasks, and rollouts for the published loss, of the estimates that the text is about."""
    rows = []
    told = ("paired_ols", "H", "mirrored")
    for row in (
        r for r in read("gate_losses") if (r["world"], r["tasks"]) == (world, "400") and r["estimator"] in told
    ):
        cells = [row["estimator"], row["policy"], f"{float(row['loss']):.3f} ± {1.96 * float(row['loss_se']):.3f}"]
        cells += [percent(row[key]) for key in ("useless_in", "harmful_in", "useful_out")]
        for accounting in ("all_counted", "bare_sunk"):
            value, low, high = (row[key] for key in (accounting, f"{accounting}_low", f"{accounting}_high"))
            words = "more than twice" if value == "inf" else f"{float(value):.2f} [{float(low):.2f}, {float(high):.2f}]"
            words = words.replace("inf", "∞")
            words = "1" if (row["estimator"], row["policy"]) == ("paired_ols", "positive_topk") else words
            cells.append(f"**{words}**" if row[f"{accounting}_goal"] == "met" else words)
        rows.append(cells)
    head = ["estimates", "rule", "loss at 400 tasks", "useless in, %", "harmful in, %", "useful out, %"]
    return table([*head, "rollouts, every one counts", "rollouts, bare run wanted anyway"], rows)


def policies() -> str:
    """Error rates of the three policies for candidates at n = 400, σ = 0.44."""
    rows = []
    for row in read("gate_error_rates"):
        if (row["sigma"], row["tasks"], row["role"]) == ("0.44", "400", "candidate"):
            shares = [percent(row[key]) if row[key] else "" for key in ("useless_in", "harmful_in", "useful_in")]
            rows.append([f"{float(row['effect']):.2f}", f"`{row['policy']}`", *shares])
    return table(["effect", "rule", "useless admitted, %", "harmful admitted, %", "useful admitted, %"], rows)


def sequential() -> str:
    """Pairs of a sequential gate with planned looks, and the errors of an impatient reader."""
    rows = []
    for row in (r for r in read("gate_sequential") if r["boundary"] == "spending"):
        cells = [row["chunks"], f"{float(row['effect']):.2f}", f"{row['pairs_of_gate']} of {row['planned_pairs']}"]
        cells += [row["pairs_until_effects_seen"]]
        cells += [percent(row[f"useless_called_{how}"]) for how in ("sequential", "naive_peeking")]
        rows.append(cells)
    head = ["chunks", "effect of half of them", "pairs until all is decided", "pairs until the effects are"]
    return table([*head, "useless called, %", "the same when peeking naively, %"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "power": power,
    "small": small,
    "intervals": intervals,
    "coverage": coverage,
    "designs": designs,
    "wrong": wrong,
    "savings": savings,
    "answer": answer,
    "goals": goals,
    "situations": situations,
    "at goal": at_goal,
    "losses, published": lambda: losses("published"),
    "losses, graded": lambda: losses("graded reward"),
    "policies": policies,
    "sequential": sequential,
}


def filled(text: str) -> str:
    """Return a document with every table between its markers made anew.

    Raises:
        KeyError: for a marker that names no table.
    """

    def fresh(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"

    return re.sub(r"(<!-- table: ([^>]+?) -->)\n.*?(<!-- end -->)", fresh, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the tables of both documents."""
    for document in DOCUMENTS:
        document.write_text(filled(document.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
