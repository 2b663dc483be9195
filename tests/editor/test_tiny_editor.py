"""The tiny editor: shipped, small, and its answers are actions."""

import json
from pathlib import Path

from intraskill.assembly import policy_directory
from intraskill.editor.tiny_editor import EditorRecipe, traces

LARGEST_WEIGHTS = 2_500_000
FIRST_SEED_OF_TRAINING = 1000


def test_the_tiny_editor_is_shipped_and_small() -> None:
    directory = policy_directory("tiny_editor")
    assert (directory / "model.safetensors").stat().st_size <= LARGEST_WEIGHTS
    recipe = json.loads((directory / "recipe.json").read_text())
    assert recipe["world"] >= FIRST_SEED_OF_TRAINING
    assert {key: recipe[key] for key in ("steps", "careless")} == {
        "steps": EditorRecipe().steps,
        "careless": EditorRecipe().careless,
    }


def test_traces_are_reproducible_and_careless_ones_differ_from_the_best_answer() -> None:
    def made(careless: float) -> list[tuple[str, str, str]]:
        found = traces(1000, 40, careless=careless, evidence=1, seed=0)
        return [(trace.state.prompt, trace.answer, best) for trace, best in found]

    assert made(0.3) == made(0.3)
    assert all(answer == best for _, answer, best in made(0.0))
    assert any(answer != best for _, answer, best in made(0.3))


def test_another_path_is_still_a_directory_of_the_user(tmp_path: Path) -> None:
    assert policy_directory(str(tmp_path)) == tmp_path
