"""Artifacts are there whole or not at all, and whatever is wrong with them is one clear error."""

import errno
import json
import multiprocessing
import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from intraskill.config.config import Config
from intraskill.environments.factories import imported
from intraskill.method.curriculum.contexts import Curriculum
from intraskill.method.curriculum.frontier import Review
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.gate.intervals import Interval
from intraskill.method.gate.pairs import Conditions, Scored
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import Fate
from intraskill.method.rollouts import Group, GroupResult, Rollout, Turn
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import Chunk
from intraskill.method.tasks import Task
from intraskill.store.metrics import Metrics
from intraskill.store.provenance import claim, plan_of
from intraskill.store.records import from_json, lean, to_json
from intraskill.store.run_directory import (
    PartialLog,
    directory_written_whole,
    read_json,
    read_jsonl,
    seal,
    verify,
    write_json,
    write_jsonl,
    write_text,
)

CHUNK = Chunk("Read it", "All of it.")
TASK = Task("t1", "shopping", "train", {"axes": "2"})
ROLLOUT = Rollout(
    task_id="t1",
    visible=frozenset({"b", "a"}),
    checkpoint="c0",
    sample=3,
    prompt_ids=(1, 2),
    token_ids=(3, 4),
    loss_mask=(1, 0),
    logprobs=(-0.1, 0.0),
    reward=0.1 + 0.2,
    parts={"r_strict": 0.1 + 0.2},
    request="Buy.",
    turns=(Turn("home", "search(x)", "search", "x", "executed", {"actions": ["a"]}),),
)
PROPOSAL = Proposal("ADD", (), (CHUNK,), "why", ("t1#0",), "more")
RECORDS = [
    ROLLOUT,
    Rollout("t1", frozenset(), "c0", 0, (), (), (), (), None, fault="server"),
    GroupResult(Group("r001/s0000/g00", 1, 0, 0, TASK, "assisted", frozenset({"a"})), (ROLLOUT,)),
    Scored("t1", 0, frozenset({"a"}), 1.0, {"r_strict": 1.0}, Conditions("c", "skill_validation", "s", "p", "e")),
    Edit(("a-1",), (CHUNK,), "why", ("t1#0",)),
    Review("t1", (0.0, None), (1.0,), None),
    PROPOSAL,
    Ledger().record(1, PROPOSAL, Fate.SELECTED, "good"),
    Curriculum(0.2, {"a": 0.9}),
    Interval(0.1, 0.0, 0.2, 0.05, 9),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_every_record_survives_its_file(record, tmp_path):
    write_json(tmp_path / "record.json", to_json(record))
    assert from_json(type(record), read_json(tmp_path / "record.json")) == record


def test_contributions_survive_their_file_with_exact_numbers(tmp_path):
    vector = np.array([0.1 + 0.2, -1 / 3])
    found = Contributions(
        ("a", "b"), vector, vector, vector, vector, 9, np.array([4, 5]), 0.3, 2, 1.5, 0.4, {"r": (vector, vector)}
    )
    write_json(tmp_path / "c.json", to_json(found))
    again = from_json(Contributions, read_json(tmp_path / "c.json"))
    assert again.beta_J.tolist() == vector.tolist() and again.visible_J.dtype == np.int64
    assert again.parts["r"][1].tolist() == vector.tolist() and again.by_chunk == found.by_chunk
    assert again.beta_J.tolist() != (vector + 1e-16).tolist()


def test_equal_records_give_equal_bytes_whatever_the_order_of_their_sets():
    first = json.dumps(to_json(frozenset(["a", "b", "c"])))
    assert first == json.dumps(to_json(frozenset(["c", "b", "a"]))) == '["a", "b", "c"]'


def test_a_lean_rollout_has_no_tokens_and_keeps_its_evidence():
    assert lean(ROLLOUT).token_ids == () and lean(ROLLOUT).turns == ROLLOUT.turns
    assert lean(ROLLOUT, keep_turns=False).turns == () and lean(ROLLOUT).reward == ROLLOUT.reward


@pytest.mark.parametrize("data", [{"task_id": "t1"}, [], None, {"task_id": 3, "full": []}, {"task_id": "t", "full": 1}])
def test_data_that_is_no_record_is_refused_by_name(data):
    with pytest.raises(ArtifactError, match=r"reviews\.json does not hold a Review"):
        from_json(Review, data, Path("reviews.json"))


def test_a_corrupt_artifact_is_named_with_a_remedy(tmp_path):
    (tmp_path / "round_003").mkdir()
    path = tmp_path / "round_003" / "masks.json"
    path.write_text('{"visible": ')
    with pytest.raises(ArtifactError, match=r"masks\.json is not valid JSON.*delete .*round_003"):
        read_json(path)
    path.with_suffix(".jsonl").write_text('{"a": 1}\n{"a"\n')
    with pytest.raises(ArtifactError, match=r"masks\.jsonl, line 2"):
        read_jsonl(path.with_suffix(".jsonl"))
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_json(tmp_path / "absent.json")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r"])
def test_a_line_separator_inside_a_string_does_not_end_the_record(separator, tmp_path):
    rows = [{"text": f"one{separator}two"}, {"text": "three"}]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    assert read_jsonl(tmp_path / "rows.jsonl") == rows
    metrics = Metrics(tmp_path / "metrics.jsonl")
    for step, row in enumerate(rows):
        metrics.log(1, "train", step, row)
    metrics.rewind(1, "train", 1)
    assert [row["text"] for row in metrics.rows()] == [rows[0]["text"]]


def test_an_artifact_without_lines_is_empty_and_an_empty_line_is_corrupt(tmp_path):
    write_jsonl(tmp_path / "rows.jsonl", [])
    assert read_jsonl(tmp_path / "rows.jsonl") == []
    (tmp_path / "rows.jsonl").write_text("1\n\n2\n")
    with pytest.raises(ArtifactError, match=r"rows\.jsonl, line 2"):
        read_jsonl(tmp_path / "rows.jsonl")


def test_a_sealed_directory_refuses_a_changed_and_a_missing_file(tmp_path):
    for name in ("a.json", "b.json"):
        write_json(tmp_path / name, name)
    seal(tmp_path)
    verify(tmp_path)
    write_json(tmp_path / "a.json", "other")
    with pytest.raises(ArtifactError, match=r"changed since they were sealed, 1: .*a\.json"):
        verify(tmp_path)
    (tmp_path / "b.json").unlink()
    with pytest.raises(ArtifactError, match=r"2: .*a\.json, .*b\.json"):
        verify(tmp_path)


def test_a_run_directory_of_another_plan_is_refused_with_the_keys_that_differ(tmp_path):
    claim(tmp_path / "run", {"seed": 0, "grpo.lr": 0.1}, {})
    claim(tmp_path / "run", {"seed": 0, "grpo.lr": 0.1}, {"other": "versions"})
    with pytest.raises(ArtifactError, match=r"differs in 1: grpo\.lr: 0\.1 there, 0\.2 here"):
        claim(tmp_path / "run", {"seed": 0, "grpo.lr": 0.2}, {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    with pytest.raises(ArtifactError, match="is not empty and holds no plan"):
        claim(tmp_path / "full", {"seed": 0}, {})
    assert (tmp_path / "full" / "thesis.tex").read_text() == "mine"


def test_a_run_goes_on_without_a_retired_option_at_the_value_that_its_absence_means(tmp_path):
    claim(tmp_path / "off", {"seed": 0, "grpo.prefix_tree": False}, {})
    claim(tmp_path / "off", {"seed": 0}, {})
    claim(tmp_path / "on", {"seed": 0, "grpo.prefix_tree": True}, {})
    with pytest.raises(ArtifactError, match=r"differs in 1: grpo\.prefix_tree: True there"):
        claim(tmp_path / "on", {"seed": 0}, {})


def test_a_run_of_the_remote_shop_goes_on_under_its_factorys_new_name(tmp_path):
    earlier, present = (f"intraskill.environments.{name}:RemoteShop" for name in ("remote_shop", "remote.shop"))
    claim(tmp_path, {"seed": 0, "env.name": earlier}, {})
    claim(tmp_path, {"seed": 0, "env.name": present}, {})
    claim(tmp_path, {"seed": 0, "env.name": earlier}, {})
    assert imported(earlier) is imported(present)


def test_an_option_that_a_stored_plan_lacks_had_its_default(tmp_path):
    config = Config()
    earlier = {key: value for key, value in plan_of(config).items() if not key.startswith("leak_filter.")}
    claim(tmp_path / "run", earlier, {})
    claim(tmp_path / "run", plan_of(config), {})
    config.leak_filter.rare_words = 5
    with pytest.raises(ArtifactError, match=r"differs in 1: leak_filter\.rare_words: 4 there, 5 here"):
        claim(tmp_path / "run", plan_of(config), {})


def test_a_new_directory_is_taken_after_the_check_and_what_it_kept_does_not_bar_another_plan(tmp_path):
    root = tmp_path / "run"

    def refused():
        root.mkdir()
        (root / "attempts.jsonl").write_text("paid")
        raise ConfigError("too little")

    with pytest.raises(ConfigError, match="too little"):
        claim(root, {"seed": 0}, {}, check=refused)
    assert [path.name for path in root.iterdir()] == ["attempts.jsonl"]
    with pytest.raises(ArtifactError, match="is not empty and holds no plan"):
        claim(root, {"seed": 1}, {})
    claim(root, {"seed": 1}, {}, kept=["attempts.*"])
    claim(root, {"seed": 1}, {}, check=refused)  # its own already: nothing to check


def test_a_full_disk_is_one_error_and_the_old_file_stays(tmp_path, monkeypatch):
    write_text(tmp_path / "skill.md", "old")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="the disk is full.*free some space"):
        write_text(tmp_path / "skill.md", "new")
    assert (tmp_path / "skill.md").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["skill.md"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_may_not_be_written_is_one_error(tmp_path, monkeypatch, number):
    def barred(*_):
        raise OSError(number, os.strerror(number))

    write_text(tmp_path / "skill.md", "old")
    monkeypatch.setattr(os, "fsync", barred)
    for write in (
        lambda: write_text(tmp_path / "skill.md", "new"),
        lambda: PartialLog(tmp_path / "train.jsonl").append([{}]),
    ):
        with pytest.raises(ArtifactError, match="cannot be written.*choose another directory"):
            write()
    assert (tmp_path / "skill.md").read_text() == "old"


def test_another_disk_error_is_not_called_a_full_disk(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_text(tmp_path / "absent" / "skill.md", "new")


def _append_past_the_limit(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        PartialLog(path).append(["x" * 20_000])
    except ArtifactError:
        os._exit(7)


def test_a_batch_that_the_disk_cannot_hold_leaves_no_torn_line(tmp_path):
    log = PartialLog(tmp_path / "bare.jsonl")
    log.append([{"n": 1}])
    child = multiprocessing.get_context("fork").Process(target=_append_past_the_limit, args=(log.path,))
    child.start()
    child.join()
    assert child.exitcode == 7
    assert log.count() == 1 and log.keep(5) == [{"n": 1}]


def test_a_partial_log_cuts_a_torn_tail_and_what_was_not_committed(tmp_path):
    log = PartialLog(tmp_path / "train.jsonl")
    log.append([1, 2, 3])
    with (tmp_path / "train.partial.jsonl").open("a") as stream:
        stream.write('{"torn')
    assert log.count() == 3 and log.keep(2) == [1, 2]
    log.append([4])
    log.commit()
    assert read_jsonl(tmp_path / "train.jsonl") == [1, 2, 4]
    assert not (tmp_path / "train.partial.jsonl").exists()


def test_a_directory_is_written_whole_or_not_at_all(tmp_path):
    with directory_written_whole(tmp_path / "checkpoint") as aside:
        (aside / "weights").write_text("old")
    with pytest.raises(RuntimeError, match="killed"), directory_written_whole(tmp_path / "checkpoint") as aside:
        (aside / "weights").write_text("new")
        raise RuntimeError("killed")
    assert (tmp_path / "checkpoint" / "weights").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_library_that_hides_the_full_disk_in_its_own_error_is_understood(tmp_path):
    with pytest.raises(ArtifactError, match="the disk is full"), directory_written_whole(tmp_path / "checkpoint"):
        raise RuntimeError(f'serializing: IoError("{os.strerror(errno.ENOSPC)}")')


def test_metrics_forget_what_a_killed_stage_logged_and_nothing_else(tmp_path):
    metrics = Metrics(tmp_path / "metrics.jsonl")
    for step in range(4):
        metrics.log(1, "train", step, {"train/reward": 0.5})
    metrics.log(1, "bare", 0, {})
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"round": 1, "sta')
    metrics.rewind(1, "train", 2)
    assert [(row["stage"], row["step"]) for row in metrics.rows()] == [("train", 0), ("train", 1), ("bare", 0)]


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, "{"])
def test_json_that_no_reader_can_take_is_one_error(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    for read in (read_json, read_jsonl):
        with pytest.raises(ArtifactError, match="x.json.* is not valid JSON"):
            read(tmp_path / "x.json")
