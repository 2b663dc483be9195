"""A training and a pass that are killed at any fsync and continued end in the same bytes, and pay nothing twice."""

import signal

import pytest
from editor.lives import compile_, lived, train
from planted_runs import content

from intraskill.method.errors import ConfigError
from intraskill.store.run_directory import read_jsonl

TRAINING_KILLS = 4
KILLED = -signal.SIGKILL


def files(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def trials(root):
    rows = read_jsonl(root / "trials.partial.jsonl")
    return sorted((row["skill"], row["query"], row["seed"], row["score"]) for row in rows)


def artifacts(root):
    """Everything but the trials' log, whose order is that of asking, and the clocks."""
    return {name: bytes_ for name, bytes_ in content(root).items() if not name.startswith("trials")}


def test_a_training_killed_at_any_fsync_ends_in_the_same_bytes_and_pays_no_trial_twice(editing_place):
    code, (asked, syncs) = lived(train, editing_place, "whole")
    assert code == 0
    expected, paid = artifacts(editing_place / "whole"), trials(editing_place / "whole")
    assert "editor/checkpoint/weights.safetensors" in expected
    assert asked == len(paid) == len(set(paid)) > 0
    # The first and the last moments, where a run is claimed and sealed, and some between.
    for moment in sorted({1, *range(2, syncs, -(-syncs // TRAINING_KILLS)), syncs - 1, syncs}):
        name = f"killed-{moment}"
        assert lived(train, editing_place, name, syncs=moment)[0] == KILLED
        assert lived(train, editing_place, name)[0] == 0, moment
        found = artifacts(editing_place / name)
        assert [key for key in {*found, *expected} if found.get(key) != expected.get(key)] == [], moment
        assert trials(editing_place / name) == paid, moment


@pytest.mark.parametrize("kind", ["files", "held-out"])
def test_a_pass_killed_at_any_fsync_ends_in_the_same_bytes(editing_place, tmp_path, kind):
    evidence = tmp_path / "notes.md" if kind == "files" else None
    if evidence:
        evidence.write_text("First.\n\nSecond.\n\nThird.\n")
    code, (edits, syncs) = lived(compile_, editing_place, evidence, tmp_path / "whole")
    assert (code, edits) == (0, 3 if evidence else 4)
    expected = files(tmp_path / "whole")
    assert sum(name.endswith(".md") for name in expected) == (1 if evidence else 2)
    for moment in range(1, syncs + 1):
        out = tmp_path / f"killed-{moment}"
        assert lived(compile_, editing_place, evidence, out, syncs=moment)[0] == KILLED
        if moment < syncs:  # at the last one all is there, and the same command says so
            assert lived(compile_, editing_place, evidence, out)[0] == 0, moment
        assert files(out) == expected, moment
    with pytest.raises(ConfigError, match="already"):
        compile_(editing_place, evidence, tmp_path / "whole")
