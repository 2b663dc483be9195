"""Peak memory and time of the log-prob head, plain and fused; write docs/results/bench_head.csv.

python scripts/bench_head.py [--vocabulary 248320 --width 2560 --tokens 256 1024 4096] [--plain-tokens 256 1024]

Each case runs in a process of its own. Peak is the largest resident memory above weights, hidden states, the gradient
of these and (where the head is trained) the one gradient of its weights that no method can do without. The plain head
is measured at fewer sizes: what it needs grows with T, to 16 GiB at T = 4,096.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import torch
from bench_model import write_rows

from intraskill.rl import logprobs

COLUMNS = ("head", "trained", "vocabulary", "width", "tokens", "peak_mib", "cpu_s", "checksum")


def resident_peak() -> float:
    """Largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def warm_up() -> None:
    """Load what both heads import and allocate once, so that it does not count."""
    small = torch.nn.Linear(8, 2**13, bias=False)
    hidden = torch.randn(2**10, 8, requires_grad=True)
    target = torch.zeros(2**10, dtype=torch.long)
    for scored, _ in (
        logprobs._score(small, hidden[:9], target[:9], 1.0, None),
        logprobs._chunked(small, hidden, target, 1.0),
    ):
        scored.sum().backward()


def measure(kind: str, trained: bool, vocabulary: int, width: int, tokens: int) -> dict[str, float | str | int]:
    """Run one forward and backward pass; this process must have done nothing larger before."""
    generator = torch.Generator().manual_seed(0)
    head = torch.nn.Linear(width, vocabulary, bias=False).requires_grad_(trained)
    hidden = torch.randn(tokens, width, generator=generator, requires_grad=True)
    target = torch.randint(vocabulary, (tokens,), generator=generator)
    with torch.no_grad():
        head.weight.normal_(0, 0.02, generator=generator)
    warm_up()
    before, began = resident_peak(), time.process_time()
    if kind == "plain":
        scored, _ = logprobs._score(head, hidden, target, 1.0, None)
    else:
        scored, _ = logprobs._head(SimpleNamespace(head=head), hidden, target, 1.0, None)  # type: ignore[arg-type]
    scored.sum().backward()
    seconds = time.process_time() - began
    assert hidden.grad is not None
    gradients = hidden.numel() + (head.weight.numel() if trained else 0)
    peak = resident_peak() - before - gradients * 4 / 2**20
    values = (kind, trained, vocabulary, width, tokens, round(peak, 1), round(seconds, 2), float(hidden.grad.norm()))
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    """Measure every case in a fresh process and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=248_320)
    parser.add_argument("--width", type=int, default=2_560)
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--plain-tokens", type=int, nargs="*", default=[256, 1024])
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        kind, trained, tokens = json.loads(arguments.case)
        print(json.dumps(measure(kind, trained, arguments.vocabulary, arguments.width, tokens)))
        return
    cases = [("fused", trained, tokens) for trained in (False, True) for tokens in arguments.tokens]
    cases += [("plain", trained, tokens) for trained in (False, True) for tokens in arguments.plain_tokens]
    rows: list[dict[str, Any]] = []
    for case in sorted(cases, key=lambda case: case[2]):
        size = ["--vocabulary", str(arguments.vocabulary), "--width", str(arguments.width)]
        command = [sys.executable, __file__, *size, "--case", json.dumps(case)]
        rows.append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
        print(*(f"{key}={rows[-1][key]}" for key in COLUMNS), flush=True)
        write_rows("bench_head", rows)


if __name__ == "__main__":
    main()
