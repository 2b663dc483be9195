"""Build the tiny editor from scratch: tokenizer, random weights, supervised warm start on planted edit traces.

    python scripts/make_tiny_editor.py [--out DIR] [--steps N]

Writes src/intraskill/policies/tiny_editor unless told otherwise; without --steps these are the shipped weights, to the
bit on a processor of the same kind. Fifteen to twenty minutes of one core; nothing is downloaded.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from intraskill.editor.tiny.tiny_editor import EditorRecipe, train

SHIPPED = Path(__file__).parents[1] / "src" / "intraskill" / "policies" / "tiny_editor"


def main() -> None:
    """Parse the arguments and run the recipe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--steps", type=int, default=EditorRecipe().steps)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(replace(EditorRecipe(), steps=arguments.steps), arguments.out, print)


if __name__ == "__main__":
    main()
