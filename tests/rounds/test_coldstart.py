"""Stage A alone: on recorded trajectories in both forms, or on fresh ones; bad files are one clear error."""

import json

import pytest
from recorded_answers import KEY_ENV, serving
from shop_rollouts import play

from intraskill.cli import main
from intraskill.config.config import Config
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL
from intraskill.llm.client import EndpointError
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.skill.skill import parse_skill
from intraskill.proposers.trajectories import read_trajectories
from intraskill.rounds.coldstart import run_cold_start
from intraskill.store.records import to_json
from intraskill.store.run_directory import read_json, read_jsonl


@pytest.fixture(scope="module")
def played():
    world = ShopWorld("tiny", page_size=5, language="plain")
    return [
        play(world, task.id, rules, sample=sample)
        for task in world.tasks("train")[:12]
        for sample, rules in enumerate([(), USEFUL])
    ]


def shop_config(run_dir):
    config = Config(run_dir=str(run_dir))
    config.env.preset, config.env.options = "tiny", {"language": "plain", "page_size": 5}
    return config


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def public(one):
    turns = [{"page": t.page, "action": t.action, "feedback": t.feedback} for t in one.turns]
    return {"task_id": one.task_id, "request": one.request, "reward": one.reward, "turns": turns}


def test_rows_of_a_run_give_a_draft_with_a_record_for_every_rollout(played, tmp_path):
    file = write(tmp_path / "t.jsonl", [to_json(one) for one in played])
    skill, root = run_cold_start(shop_config(tmp_path / "a"), file)
    assert parse_skill((root / "draft.md").read_text()) == skill and skill.chunks
    records = read_jsonl(root / "analyses.jsonl")
    assert len(records) == len(played)
    made = {one["edit_id"] for record in records for one in record["proposals"] if one["fate"] == "to_gate"}
    assert len(made) == len(skill.chunks)
    for proposal in read_json(root / "edits.json")["proposals"]:
        assert set(proposal["calls"]) <= {record["id"] for record in records} and proposal["calls"]
    assert "private_notes" not in (root / "edits.json").read_text()


def test_the_order_of_the_lines_does_not_matter(played, tmp_path):
    rows = [to_json(one) for one in played]
    first = run_cold_start(shop_config(tmp_path / "a"), write(tmp_path / "a.jsonl", rows))[0]
    again = run_cold_start(shop_config(tmp_path / "b"), write(tmp_path / "b.jsonl", rows[::-1]))[0]
    fewer = run_cold_start(shop_config(tmp_path / "c"), write(tmp_path / "c.jsonl", rows[:2]))[0]
    assert first.hash == again.hash != fewer.hash


def test_the_public_form_is_read_with_its_calls(played, tmp_path):
    file = write(tmp_path / "t.jsonl", [public(one) for one in played])
    read = read_trajectories(file, ShopWorld("tiny", language="plain").tools)
    assert [[(t.tool, t.argument) for t in one.turns] for one in read] == [
        [(t.tool, t.argument) for t in one.turns] for one in played
    ]
    assert [one.sample for one in read[:2]] == [0, 1]


def test_trajectories_without_rewards_are_one_error_with_their_lines(played, tmp_path):
    rows = [public(one) for one in played[:5]]
    del rows[1]["reward"]
    rows[3]["reward"] = None
    file = write(tmp_path / "t.jsonl", rows)
    with pytest.raises(ArtifactError, match="without a reward, 2: line 2, line 4; give each row"):
        run_cold_start(shop_config(tmp_path / "a"), file)
    assert not (tmp_path / "a").exists(), "a file that cannot be read claims no directory"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turns": 3}, "turns must be a list, got int"),
        ({"turns": [{"page": "p"}]}, r"turns\[0\] lacks action, feedback"),
        ({"goal": "b1"}, "the row has unknown keys goal"),
        ({"reward": "high"}, "reward must be a number, got 'high'"),
        ({"request": None}, "request must be a text, got NoneType"),
        ({"sample": "x"}, "invalid literal"),
        ({"parts": [1]}, "parts must be an object"),
    ],
)
def test_a_line_that_is_no_trajectory_is_named(played, tmp_path, change, message):
    file = write(tmp_path / "t.jsonl", [public(played[0]), public(played[1]) | change])
    with pytest.raises(ArtifactError, match=f"line 2: .*{message}"):
        read_trajectories(file)


@pytest.mark.parametrize("text", ["", "\n\n"], ids=["empty", "blank"])
def test_a_file_without_trajectories_is_an_error(tmp_path, text):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(ArtifactError, match="holds no trajectory"):
        read_trajectories(tmp_path / "t.jsonl")


def test_another_file_or_other_settings_do_not_continue_a_directory(played, tmp_path):
    rows = [public(one) for one in played]
    file = write(tmp_path / "t.jsonl", rows)
    run_cold_start(shop_config(tmp_path / "a"), file)
    before = (tmp_path / "a" / "edits.json").read_bytes()
    run_cold_start(shop_config(tmp_path / "a"), file)
    assert (tmp_path / "a" / "edits.json").read_bytes() == before
    with pytest.raises(ArtifactError, match="trajectories"):
        run_cold_start(shop_config(tmp_path / "a"), write(tmp_path / "u.jsonl", rows[1:]))


def test_stage_a_needs_a_proposer_and_something_to_read(tmp_path):
    config = shop_config(tmp_path / "a")
    config.coldstart.tasks = 0
    with pytest.raises(ConfigError, match="samples nothing"):
        run_cold_start(config, None)
    config.proposer.name = "none"
    with pytest.raises(ConfigError, match="proposes nothing"):
        run_cold_start(config, tmp_path / "t.jsonl")
    config.proposer.name = "rules"
    with pytest.raises(ConfigError, match="no file of trajectories"):
        run_cold_start(config, tmp_path / "t.jsonl")


def test_the_command_samples_fresh_trajectories_of_any_world(tmp_path, capsys):
    words = ["+exp=planted", "coldstart.tasks=8", "--out", str(tmp_path / "a")]
    assert main(["coldstart", *words]) == 0
    assert "draft.md" in capsys.readouterr().out
    assert {"plan.json", "cold_start.jsonl", "edits.json", "analyses.jsonl", "draft.md"} <= {
        path.name for path in (tmp_path / "a").iterdir()
    }
    assert main(["coldstart", *words]) == 0, "the same command continues"
    assert main(["coldstart", *words, "seed=5"]) == 2
    assert "seed: 0 there, 5 here" in capsys.readouterr().err


def test_a_stop_of_the_endpoint_is_resumed_without_paying_again(played, tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_ENV, "k")
    lesson = {"title": "Read", "applies_when": "", "procedure": ["Read the page."], "verify": "", "avoid": ""}
    made = {"op": "ADD", "targets": [], "chunks": [lesson], "root_cause": "r", "expected_effect": "e"}
    answer = {"lean_path": [1], "lessons": [{"action": 1, "proposal": made}]}
    solved = [one for one in played if one.reward == 1.0][:3]
    file = write(tmp_path / "t.jsonl", [to_json(one) for one in solved])
    config = shop_config(tmp_path / "a")
    config.proposer.name, config.proposer.model, config.proposer.api_key_env = "openai", "m", KEY_ENV
    keys = [json.dumps(one.request, ensure_ascii=False) for one in solved]
    with serving({keys[0]: [answer], keys[1]: [answer]}) as (records, url):
        config.proposer.base_url = url
        with pytest.raises(EndpointError, match="the same command again"):
            run_cold_start(config, file)
        records.answers[keys[2]] = [answer]
        asked = len(records.requests)
        skill, root = run_cold_start(config, file)
        assert [chunk.title for chunk in skill.chunks] == ["Read"]
        refused = [messages for messages in records.requests if keys[2] in messages[1]["content"]]
        assert len(records.requests) <= asked + 2 and len(refused) >= 1
        assert len({json.dumps(m) for m in records.requests}) >= len(records.requests) - 1, "only the refused one twice"
    assert read_json(root / "edits.json")["counts"]["merged"] == 2
    facts = read_json(root / "plan.json")
    facts["about"]["prompts"] = "0" * 16
    (root / "plan.json").write_text(json.dumps(facts))
    with pytest.raises(ArtifactError, match="other prompts"):
        run_cold_start(config, file)
