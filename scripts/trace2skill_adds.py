"""What a compiled skill adds for the tiny policy, per seed and with intervals; docs/results/trace2skill_adds.csv.

python scripts/trace2skill_adds.py [--seeds 3] [--work DIR] [--draft FILE --analyst NAME] [key=value …]

Stage A on fresh trajectories of the tiny policy in the plain ShopWorld (or a skill from elsewhere, --draft), then the
gate of round 0 on skill-validation: β of every chunk, and what the kept ones add together. The gate chose them on these
very tasks, so the whole draft and the kept part are played again on model_dev, each task beside its skill-free run.
Rows of other proposers in the file are kept; the same command with --work goes on where it was stopped.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from csv_rows import with_others, write_csv

from intraskill.config.config import Config
from intraskill.config.overrides import compose
from intraskill.method.skill.skill import Skill, parse_skill
from intraskill.rounds.evaluate import compare, evaluate
from intraskill.rounds.loop import run
from intraskill.rounds.setup import bench
from intraskill.store.run_directory import read_json

OUT = Path(__file__).parents[1] / "docs" / "results" / "trace2skill_adds.csv"
WORDS = ("rounds=0", "final.tasks=0", "coldstart.draft=null", "coldstart.max_drafts=16")
REPEATS = 4
"""Rollouts per task and arm on model_dev, which holds few tasks."""
COLUMNS = ("analyst", "seed", "what", "split", "mean", "se", "low", "high", "pairs", "fate", "skill")
NUMBERS = ("mean", "se", "low", "high")
Row = dict[str, Any]


def main() -> None:
    """Measure every seed and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="directory of the runs (default: a temporary one)")
    parser.add_argument("--draft", type=Path, help="measure this skill instead of compiling one")
    parser.add_argument("--analyst", default="rules", help="who compiled it, for the rows (default: rules)")
    arguments, words = parser.parse_known_args()
    if arguments.draft is not None:
        words = [f"coldstart.draft={arguments.draft.resolve()}", "coldstart.tasks=0", *words]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(arguments.seeds):
            root = (arguments.work or Path(temporary)) / f"{arguments.analyst}_{seed}".replace("/", "-")
            config = compose([*WORDS, *words, f"seed={seed}", f"run_dir={root}"])
            found = measured(config)
            print(*(f"{row['what']}: {row['mean']:+.3f} ± {row['se']:.3f}" for row in found), sep="\n", flush=True)
            rows += [{"analyst": arguments.analyst, "seed": seed, **row} for row in found]
    write(rows)


def measured(config: Config) -> list[Row]:
    """Run stage A and the gate, then the panels; return the rows of one seed."""
    directory = run(config) / "round_000"
    drafted, kept = (parse_skill((directory / name).read_text()) for name in ("draft.md", "skill.md"))
    row, pairs = read_json(directory / "round.json"), read_json(directory / "contributions.json")["num_pairs"]
    found = [
        {"what": f"chunk: {chunk['title']}", "split": "skill_validation", "mean": chunk["beta"], "pairs": pairs}
        | {name: chunk[name] for name in NUMBERS[1:]}
        | {"fate": chunk["status"], "skill": chunk["id"]}
        for chunk in row["chunks"]
    ]
    if row["gap"] is not None:
        found.append(difference("kept chunks", "skill_validation", row["gap"], kept))
    shown = {"whole draft": drafted, "kept chunks": kept}
    return found + [panel_row(config, directory, what, skill) for what, skill in shown.items() if skill.chunks]


def panel_row(config: Config, directory: Path, what: str, skill: Skill) -> Row:
    """Return what a skill adds on model_dev, paired by task with skill-free runs."""
    stand = bench(config, directory.parent / "panels")
    free, shown = (
        evaluate(stand, directory / "checkpoint", mode=mode, split="model_dev", skill=skill, repeats=REPEATS)[0]
        for mode in ("skill-free", "skill-augmented")
    )
    reward = compare(free, shown).reward
    numbers = {name: getattr(reward, name) for name in (*NUMBERS, "n")}
    return difference(what, "model_dev", numbers, skill)


def difference(what: str, split: str, numbers: Row, skill: Skill) -> Row:
    """Return the row of a paired difference to skill-free runs."""
    row = {"what": f"{what} - free", "split": split, "pairs": numbers["n"], "fate": "", "skill": skill.hash}
    return row | {name: numbers[name] for name in NUMBERS}


def write(rows: list[Row]) -> None:
    """Write the rows with six digits, and keep those of other proposers."""
    short = [{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    write_csv(OUT, with_others(OUT, short, "analyst"), COLUMNS)


if __name__ == "__main__":
    main()
