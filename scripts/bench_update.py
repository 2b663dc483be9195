"""One GRPO update with the shared prefix beside the same update without it: time and peak memory.

python scripts/bench_update.py [--shapes 700x150x8 2000x300x16] [--repeats 5]

A shape is prompt × tokens after it × rollouts of the group. Both updates get the same rollouts and the same budget,
which holds the whole group in one micro-batch; time is processor time of one thread, in turns, optimizer included.
Peak memory is measured in processes of their own. The limit by tokens is G(P+R) / (P+GR); the limit by operations also
counts attention and the head, which no sharing makes cheaper. Writes docs/results/bench_update.csv, one row per repeat.
"""

import argparse
import json
import resource
import subprocess
import sys
from functools import partial
from typing import Any

import torch
from bench_model import flops, in_turns, merge, random_group, random_policy, write_rows

from intraskill.runtime.trainer_settings import TrainerSettings
from intraskill.runtime.update import Updater

LAYOUTS: dict[str, dict[str, Any]] = {
    "dense": {"shared_prefix": False},
    "prefix": {},
    "prefix_recomputed": {"checkpoint_activations": True},
}


def updater(layout: str, vocabulary: int) -> Updater:
    """Return the optimizer of a fresh model."""
    settings = TrainerSettings(token_budget=10**6, self_check="off", max_context=4096, **LAYOUTS[layout])
    return Updater(random_policy(vocabulary), settings)


def limits(prompt: int, suffix: int, size: int, vocabulary: int) -> tuple[float, float]:
    """Return the largest possible ratio, by forwarded tokens and by operations."""
    whole = prompt + suffix
    sampled = size * suffix
    dense = flops([(size * whole, size * whole * whole // 2)], sampled, vocabulary)
    shared = flops(
        [(prompt, prompt * prompt // 2), (size * suffix, size * suffix * (prompt + suffix // 2))], sampled, vocabulary
    )
    return size * whole / (prompt + size * suffix), dense / shared


def peak_mib(layout: str, shape: tuple[int, int, int], vocabulary: int) -> float:
    """Return what one update needs above model, optimizer state and its gradients; this process does nothing else."""
    work, group = updater(layout, vocabulary), random_group(*shape, vocabulary)
    work.update([random_group(9, 3, 2, vocabulary)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work.update([group])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def memory(layout: str, shape: tuple[int, int, int], vocabulary: int) -> float:
    """Run `peak_mib` in a process of its own."""
    command = [sys.executable, __file__, "--peak", json.dumps([layout, shape, vocabulary])]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()[-1])


def compare(shape: tuple[int, int, int], vocabulary: int, repeats: int, rows: list[dict[str, Any]]) -> float:
    """Measure one shape, add its rows and print what was found; return dense / shared time."""
    by_tokens, by_flops = limits(*shape, vocabulary)
    group = random_group(*shape, vocabulary)
    updaters = {layout: updater(layout, vocabulary) for layout in LAYOUTS}
    peaks = {layout: memory(layout, shape, vocabulary) for layout in LAYOUTS}
    facts = {"shape": "x".join(map(str, shape)), "vocabulary": vocabulary}
    facts |= {"limit_tokens": round(by_tokens, 3), "limit_flops": round(by_flops, 3)}
    spent = in_turns(
        {layout: partial(one.update, [group]) for layout, one in updaters.items()},
        repeats,
        lambda row: rows.append(facts | row | {"peak_mib": round(peaks[str(row["variant"])], 1)}),
    )
    for layout in ("prefix", "prefix_recomputed"):
        print(
            f"P x R x G = {facts['shape']}, {layout}: {spent['dense'] / spent[layout]:.2f} x faster than dense (limit "
            f"{by_tokens:.2f} by tokens, {by_flops:.2f} by operations), "
            f"{peaks['dense'] / peaks[layout]:.2f} x less memory ({peaks['dense']:.0f} to {peaks[layout]:.0f} MiB)",
            flush=True,
        )
    return spent["dense"] / spent["prefix"]


def main() -> None:
    """Measure every shape and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["700x150x8", "2000x300x16"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=1280, help="that of the shipped policy")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak:
        layout, shape, vocabulary = json.loads(arguments.peak)
        print(peak_mib(layout, tuple(shape), vocabulary))
        return
    rows: list[dict[str, Any]] = []
    for text in arguments.shapes:
        prompt, suffix, size = map(int, text.split("x"))
        ratio = compare((prompt, suffix, size), arguments.vocabulary, arguments.repeats, rows)
        write_rows("bench_update", rows)
        if (prompt, suffix, size) == (700, 150, 8):
            merge({"update_shared_prefix": round(ratio, 2)})


if __name__ == "__main__":
    main()
