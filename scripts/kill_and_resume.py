"""Kill a run of the tiny policy at random moments, resume it each time, and compare it byte by byte with a whole run.

    python scripts/kill_and_resume.py [--runs 4] [--kills 5]

A life that ends before its kill does not count, so a run gets as many lives as it needs for its kills or its end.
Rows go to docs/results/kill_and_resume.csv. Exit status 1 if any file differs.
"""

import argparse
import csv
import hashlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
START_UP_S = 4.0
COMPARED = (
    "*/skill.md",
    "*/curriculum.json",
    "*/contributions.json",
    "*/*.jsonl",
    "*/checkpoint/*",
    "final/final.json",
)


def main() -> None:
    """Run, kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--kills", type=int, default=5, help="SIGKILLs per run")
    arguments = parser.parse_args()
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        start(Path(folder) / "whole").wait()
        seconds = time.monotonic() - started
        expected = contents(Path(folder) / "whole")
        rows = []
        for number in range(arguments.runs):
            target = Path(folder) / f"killed_{number}"
            moments = killed_in(target, draw, arguments.kills, seconds)
            start(target).wait()
            found = contents(target)
            different = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
            stages = " ".join(moments)
            rows.append([number, len(moments), stages, len(expected), len(different), " ".join(different[:3])])
            print(*rows[-1], flush=True)
    with (ROOT / "docs" / "results" / "kill_and_resume.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "kills", "killed_in", "files_compared", "files_different", "first_different"])
        writer.writerows(rows)
    sys.exit(any(row[4] for row in rows))


def start(target: Path) -> subprocess.Popen[bytes]:
    """Start the run, or continue it."""
    command = [sys.executable, "-m", "intraskill", "train", "+exp=tiny_kill", f"run_dir={target}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_in(target: Path, draw: random.Random, kills: int, seconds: float) -> list[str]:
    """Kill the run up to ``kills`` times, each life a little longer than start-up; return the moments."""
    moments: list[str] = []
    while len(moments) < kills:
        moment = kill_after(target, START_UP_S + draw.uniform(0.02, 0.25) * seconds)
        if moment is None:
            break
        moments.append(moment)
    return moments


def kill_after(target: Path, seconds: float) -> str | None:
    """Kill the run after a while; return the artifact written last, or ``None`` when it had ended before."""
    process = start(target)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    if process.wait() != -signal.SIGKILL:
        return None
    files = [path for path in target.rglob("*") if path.is_file()]
    newest = max(files, key=lambda path: path.stat().st_mtime_ns, default=target)
    return str(newest.relative_to(target))


def contents(run: Path) -> dict[str, str]:
    """Return file → hash of everything that must not depend on interruptions; timings are left out of metrics."""
    paths = sorted({path for pattern in COMPARED for path in run.glob(pattern) if path.is_file()})
    hashes = {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in row.items() if not key.endswith(("_s", "_per_s"))} for row in rows]
    return hashes | {"metrics.jsonl": hashlib.sha256(json.dumps(kept).encode()).hexdigest()}


if __name__ == "__main__":
    main()
