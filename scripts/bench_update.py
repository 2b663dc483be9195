"""One GRPO update with the shared prefix beside the same update without it: time and peak memory.

python scripts/bench_update.py [--shapes 700x150x8 2000x300x16] [--repeats 5]

A shape is prompt × tokens after it × rollouts of the group. All updates get the same rollouts. The dense one is
measured twice: with the whole group in one micro-batch, as the shared prefix has it, and with one rollout at a time.
On a CPU the latter is faster, as its activations are small, so the ratio to the former can exceed a limit by
operations. Every update runs in a process of its own, after a small one that warms
it up, the layouts in turns; time is processor time of one thread, optimizer included, and peak memory is what one
update needs above model, optimizer state and its gradients. The limit by tokens is G(P+R) / (P+GR); the limit by
operations also counts attention and the head, which no sharing makes cheaper. Shapes after the first, which is the
published one, get two repeats. Writes docs/results/bench_update.csv, one row per repeat.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any

import torch
from bench_model import flops, random_group, random_policy, write_rows

from intraskill.config.config import Config
from intraskill.config.learning import GrpoConfig
from intraskill.rl.trainer import Updater

WHOLE_GROUP = 10**6
LAYOUTS: dict[str, dict[str, Any]] = {
    "dense": {"shared_prefix": False},
    "dense_one_by_one": {"shared_prefix": False, "micro_batch_tokens": 1},
    "prefix": {},
    "prefix_recomputed": {"checkpoint_activations": True},
}


def updater(layout: str, vocabulary: int) -> Updater:
    """Return the optimizer of a fresh model."""
    options = {"micro_batch_tokens": WHOLE_GROUP, "self_check": "off"} | LAYOUTS[layout]
    return Updater(random_policy(vocabulary), Config(grpo=GrpoConfig(**options)))


def limits(prompt: int, suffix: int, size: int, vocabulary: int) -> tuple[float, float]:
    """Return the largest possible ratio, by forwarded tokens and by operations."""
    whole = prompt + suffix
    sampled = size * suffix
    dense = flops([(size * whole, size * whole * whole // 2)], sampled, vocabulary)
    shared = flops(
        [(prompt, prompt * prompt // 2), (size * suffix, size * suffix * (prompt + suffix // 2))], sampled, vocabulary
    )
    return size * whole / (prompt + size * suffix), dense / shared


def measure(layout: str, shape: tuple[int, int, int], vocabulary: int) -> dict[str, float]:
    """Return time and peak memory of one update; this process does nothing larger before."""
    work, group = updater(layout, vocabulary), random_group(*shape, vocabulary)
    work.update([random_group(9, 3, 2, vocabulary)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, began = time.perf_counter(), time.process_time()
    work.update([group])
    spent, wall = time.process_time() - began, time.perf_counter() - wall
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"cpu_s": round(spent, 3), "wall_s": round(wall, 3), "peak_mib": round(peak, 1)}


def alone(layout: str, shape: tuple[int, int, int], vocabulary: int) -> dict[str, float]:
    """Run `measure` in a process of its own."""
    command = [sys.executable, __file__, "--case", json.dumps([layout, shape, vocabulary])]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def compare(shape: tuple[int, int, int], vocabulary: int, repeats: int) -> list[dict[str, Any]]:
    """Measure one shape, print what was found and return its rows."""
    by_tokens, by_flops = limits(*shape, vocabulary)
    facts = {"shape": "x".join(map(str, shape)), "vocabulary": vocabulary}
    facts |= {"limit_tokens": round(by_tokens, 3), "limit_flops": round(by_flops, 3)}
    rows = [
        facts | {"variant": layout, "repeat": repeat} | alone(layout, shape, vocabulary)
        for repeat in range(repeats)
        for layout in LAYOUTS
    ]
    cpu, peak = (
        {name: median(row[column] for row in rows if row["variant"] == name) for name in LAYOUTS}
        for column in ("cpu_s", "peak_mib")
    )
    for layout in ("prefix", "prefix_recomputed"):
        for dense in ("dense", "dense_one_by_one"):
            print(
                f"P x R x G = {facts['shape']}, {layout}: {cpu[dense] / cpu[layout]:.2f} x faster than {dense} (limit "
                f"{by_tokens:.2f} by tokens, {by_flops:.2f} by operations), "
                f"{peak[dense] / peak[layout]:.2f} x less memory ({peak[dense]:.0f} to {peak[layout]:.0f} MiB)",
                flush=True,
            )
    return rows


def main() -> None:
    """Measure every shape and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["700x150x8", "2000x300x16"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=1280, help="that of the shipped policy")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.case:
        layout, shape, vocabulary = json.loads(arguments.case)
        print(json.dumps(measure(layout, tuple(shape), vocabulary)))
        return
    rows: list[dict[str, Any]] = []
    for place, text in enumerate(arguments.shapes):
        prompt, suffix, size = map(int, text.split("x"))
        repeats = min(arguments.repeats, 2) if place else arguments.repeats
        rows += compare((prompt, suffix, size), arguments.vocabulary, repeats)
        write_rows("bench_update", rows)


if __name__ == "__main__":
    main()
