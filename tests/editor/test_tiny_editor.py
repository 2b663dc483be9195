"""The tiny editor: shipped, small, and its answers are actions."""

import json
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from intraskill.editor.actions import parse_action
from intraskill.editor.domains.planted import CASES, TOPICS, rule_chunk
from intraskill.editor.tiny.tiny_editor import LEAK_FILTER, QUALITIES, EditorRecipe, traces
from intraskill.editor.tiny.traces import Trace
from intraskill.method.skill.skill import Skill
from intraskill.rl.start import policy_directory

LARGEST_WEIGHTS = 2_500_000
FIRST_SEED_OF_TRAINING = 1000


def test_the_tiny_editor_is_shipped_and_small() -> None:
    directory = policy_directory("tiny_editor")
    assert (directory / "model.safetensors").stat().st_size <= LARGEST_WEIGHTS
    recipe = json.loads((directory / "recipe.json").read_text())
    assert recipe["world"] >= FIRST_SEED_OF_TRAINING
    assert recipe.pop("sha256") == sha256((directory / "model.safetensors").read_bytes()).hexdigest()
    assert recipe == json.loads(json.dumps(asdict(EditorRecipe())))


def made(careless: float, astray: float) -> list[Trace]:
    return list(traces(1000, 40, careless=careless, astray=astray, evidence=(1, 2), seed=0))


def test_traces_are_reproducible_and_careless_ones_differ_from_the_best_answer() -> None:
    assert made(0.3, 0.3) == made(0.3, 0.3)
    assert all(trace.answer == trace.best for trace in made(0.0, 0.3))
    assert any(trace.answer != trace.best for trace in made(0.3, 0.0))


def test_a_pass_that_goes_astray_shows_other_states_than_the_best_one() -> None:
    straight, astray = ([trace.state.skill for trace in made(0.0, share)] for share in (0.0, 0.5))
    assert straight != astray


def test_the_best_answer_of_a_trace_replaces_nothing_under_another_title() -> None:
    replaced = 0
    for trace in made(0.0, 0.5):
        action = parse_action(trace.best, drafts=trace.state.drafts)
        if action.chunk is not None:
            titles = {trace.state.skill.chunks[number - 1].title for number in action.targets}
            assert titles <= {action.chunk.title}
            replaced += len(titles)
    assert replaced


def test_no_rule_of_a_planted_world_is_refused_by_its_leak_filter() -> None:
    """One that was would take every edit of its world with it: a skill is inspected as a whole."""
    for quality in QUALITIES:
        texts = [rule_chunk(topic, quality, variant, case) for topic in TOPICS for variant in (0, 1) for case in CASES]
        assert [chunk.body for chunk in texts if LEAK_FILTER.inspect_edit((chunk,), Skill(""))] == []


def test_another_path_is_still_a_directory_of_the_user(tmp_path: Path) -> None:
    assert policy_directory(str(tmp_path)) == tmp_path
