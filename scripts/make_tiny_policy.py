"""Build the tiny policy from scratch: tokenizer, random weights, supervised warm start, in two stages.

    python scripts/make_tiny_policy.py [--out DIR] [--steps N N] [--unasked-rate P]

The defaults rebuild the weights in src/intraskill/policies/tiny (25 minutes on two cores). The second stage
continues at half the learning rates on fresh demonstrations. Nothing is downloaded.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from intraskill.recipes.tiny_policy import Recipe, train

SHIPPED = Path(__file__).parents[1] / "src" / "intraskill" / "policies" / "tiny"


def main() -> None:
    """Parse the arguments and run the recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--steps", type=int, nargs=2, default=[1000, 500], help="optimizer steps of each stage")
    parser.add_argument("--unasked-rate", type=float, default=Recipe().mix.unasked_rate)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    base = replace(Recipe(), mix=replace(Recipe().mix, unasked_rate=arguments.unasked_rate))
    first, second = arguments.steps
    with tempfile.TemporaryDirectory() as folder:
        train(replace(base, steps=first), Path(folder), print)
        train(second_stage(base, second), arguments.out, print, start=Path(folder))
        (arguments.out / "training_stage_1.jsonl").write_text((Path(folder) / "training.jsonl").read_text())


def second_stage(base: Recipe, steps: int) -> Recipe:
    """Return the recipe of the second stage: other demonstrations, half the learning rates."""
    rates = {"learning_rate": base.learning_rate / 2, "muon_rate": base.muon_rate / 2}
    return replace(base, steps=steps, seed=base.seed + 1, **rates)


if __name__ == "__main__":
    main()
