"""Build the tiny policy from scratch: tokenizer, random weights, supervised warm start (about 30 minutes on a core).

    python scripts/make_tiny_policy.py [--out DIR] [--steps N] [--unasked-rate P]

The default recipe rebuilds the weights in src/intraskill/policies/tiny. Nothing is downloaded.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from intraskill.runtime.warm_start import Recipe, train

SHIPPED = Path(__file__).parents[1] / "src" / "intraskill" / "policies" / "tiny"


def main() -> None:
    """Parse the arguments and run the recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--unasked-rate", type=float, default=Recipe().mix.unasked_rate)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipe = replace(Recipe(), steps=arguments.steps)
    recipe = replace(recipe, mix=replace(recipe.mix, unasked_rate=arguments.unasked_rate))
    train(recipe, arguments.out, print)


if __name__ == "__main__":
    main()
