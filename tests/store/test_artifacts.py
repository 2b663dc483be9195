"""One place knows the file names of a run directory and what they hold."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from intraskill.method.curriculum.contexts import Curriculum
from intraskill.method.errors import ArtifactError
from intraskill.method.gate.regression import Contributions
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store import artifacts
from intraskill.store.artifacts import CURRICULUM, DECISION, MASKS, PLAN, ROUND, SKILL, Artifact, arm, batch_of
from intraskill.store.contents import GateContributions, GateMasks
from intraskill.store.records import from_json
from intraskill.store.run_directory import read_json, seal, write_json

PACKAGE = Path(artifacts.__file__).parents[1]
NAMES = {one.name for one in vars(artifacts).values() if isinstance(one, Artifact)}
OUTSIDE = {"store", "environments", "recipes"}
"""Packages that may write such a name: the store itself, and those that read files of other people."""


def literal_names(source: str) -> Iterator[str]:
    """Every string of a source that is the name of an artifact, or a path or pattern that ends in one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            last = re.split(r"[\s/]", node.value)[-1]
            if last in NAMES and (last == node.value or "/" in node.value) and " " not in node.value:
                yield node.value


def test_no_other_module_names_a_file_of_a_run_directory() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in OUTSIDE]
    assert len(modules) > 100
    wrong = {str(path.relative_to(PACKAGE)): [*literal_names(path.read_text())] for path in modules}
    assert {name: literals for name, literals in wrong.items() if literals} == {}


@pytest.mark.parametrize(
    "line",
    ['read_json(directory / "masks.json")', 'root.glob("round_*/bare.jsonl")', 'path = root / f"{x}/skill.md"'],
)
def test_a_literal_name_is_caught(line: str) -> None:
    assert [*literal_names(f'"""Reads ``masks.json``."""\n{line}\n')]
    assert not [*literal_names('raise ArtifactError(f"{gate} holds no masks.json and bare.jsonl of a gate")')]


def test_a_record_is_read_back_with_the_keys_that_stand_beside_it(tmp_path: Path) -> None:
    curriculum = Curriculum(0.25, {"a": 0.5})
    CURRICULUM.write(tmp_path, curriculum, {"bare_probability": 0.6})
    assert CURRICULUM.read(tmp_path) == curriculum
    assert list(read_json(tmp_path / "curriculum.json").items())[-1] == ("bare_probability", 0.6)
    skill = Skill("Before", (Chunk("A", "Do it."),))
    SKILL.write(tmp_path, skill)
    assert SKILL.exists(tmp_path) and SKILL.read(tmp_path) == skill


def test_an_artifact_that_is_missing_or_of_another_shape_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"decision\.json cannot be read"):
        DECISION.read(tmp_path)
    write_json(tmp_path / "decision.json", {"skill": 3})
    with pytest.raises(ArtifactError, match=r"decision\.json does not hold a Decision .*restore"):
        DECISION.read(tmp_path)
    write_json(tmp_path / "round.json", [1])
    with pytest.raises(ArtifactError, match=r"round\.json does not hold a RoundRow"):
        ROUND.read(tmp_path)


def test_a_sealed_artifact_that_changed_is_refused(tmp_path: Path) -> None:
    PLAN.write(tmp_path, {"plan": {"seed": 1}, "about": {}})
    seal(tmp_path)
    assert PLAN.sealed(tmp_path)["plan"] == {"seed": 1}
    PLAN.write(tmp_path, {"plan": {"seed": 2}, "about": {}})
    with pytest.raises(ArtifactError, match=r"changed since they were sealed.*plan\.json"):
        PLAN.sealed(tmp_path)


def test_masks_of_an_older_gate_have_one_rollout_in_each_arm(tmp_path: Path) -> None:
    older = {"round": 2, "estimator": "paired_ols", "inclusion": 0.5, "checkpoint": "c", "conditions": {}}
    write_json(tmp_path / "masks.json", older | {"chunks": ["a"], "edits": [], "visible": {"t": ["a"]}})
    masks = MASKS.read(tmp_path)
    assert (masks.bare_replicates, masks.masked_replicates, masks.seeds) == (1, 1, None)
    assert masks.sets("t") == [["a"]]
    twice = GateMasks(0, "ancova", 0.5, "c", {}, ("a",), (), {"t": [["a"], []]}, design={"masked_replicates": 2})
    assert twice.sets("t") == [["a"], []]


def test_contributions_fall_back_on_themselves_where_no_paired_fit_stands_beside() -> None:
    row = {"chunk_ids": [], "num_pairs": 3, "residual_sd": 0.5, "rank": 0, "condition_number": 1.0, "max_leverage": 0.0}
    row |= dict.fromkeys(("beta_J", "se_J", "low_J", "high_J", "visible_J"), [])
    alone = from_json(GateContributions, row)
    assert alone.paired is alone and alone.correlation is None
    both = from_json(GateContributions, row | {"beside": {"paired_ols": row | {"residual_sd": 0.25}}})
    assert isinstance(both.paired, Contributions) and both.paired.residual_sd == 0.25


def test_batches_of_an_arm_stand_beside_the_whole() -> None:
    assert batch_of(arm("bare"), 7).name == "bare_007.jsonl"
