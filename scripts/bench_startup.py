"""How long it takes until something is on the screen: help, a dry run, and the package's import.

python scripts/bench_startup.py [--repeats 5]

Each is a process of its own, in turns, after one that fills the file cache; ``nothing`` is Python doing nothing and
the limit of the others. Writes docs/results/bench_startup.csv, in seconds of processor time and on the wall.
"""

import argparse
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any

from bench_model import write_rows

CLI = [sys.executable, "-m", "intraskill"]
COMMANDS = {
    "nothing": [sys.executable, "-c", "pass"],
    "import intraskill": [sys.executable, "-c", "import intraskill"],
    "intraskill --help": [*CLI, "--help"],
    "intraskill train --dry-run": [*CLI, "train", "--dry-run"],
}


def processor_seconds() -> float:
    """Processor time of all processes that this one waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows: list[dict[str, Any]] = []
    for repeat in range(-1, repeats):
        for name, command in COMMANDS.items():
            wall, began = time.perf_counter(), processor_seconds()
            subprocess.run(command, check=True, capture_output=True)
            spent, wall = processor_seconds() - began, time.perf_counter() - wall
            if repeat >= 0:
                rows.append({"variant": name, "repeat": repeat, "cpu_s": round(spent, 3), "wall_s": round(wall, 3)})
    write_rows("bench_startup", rows)
    for name in COMMANDS:
        cpu, wall = (median(row[key] for row in rows if row["variant"] == name) for key in ("cpu_s", "wall_s"))
        print(f"{name}: {cpu:.2f} s of processor time, {wall:.2f} s on the wall", flush=True)


if __name__ == "__main__":
    main()
