"""What a user brings gets neutral defaults: nothing of the demo reaches it, and the command says what was chosen."""

import json

import pytest

from intraskill.cli import main
from intraskill.commands import config_beside
from intraskill.config.overrides import compose
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import parse_skill
from intraskill.store.run_directory import read_json

GOODS = "intraskill.environments.shop_files:shopsimulator"
ROW = {
    "asin": "z{n}",
    "title": "云杉 {n} 号 保温杯",
    "shop_name": "云杉",
    "category": "家居›水具›保温杯",
    "pricing": [39.0],
    "customization_options": {"颜色": [{"value": "红色"}, {"value": "蓝色"}]},
    "attribute": ["不锈钢", "大容量"],
    "images": [],
    "tag": "train",
    "instructions": [
        {
            "instruction": "我想买一个不锈钢的第 {n} 号保温杯,要红色,50元以内。",
            "instruction_simple": None,
            "attributes": ["不锈钢"],
            "instruction_options": ["红色"],
            "price_upper": 50.0,
        }
    ],
    "user_persona": None,
}
"""The row that ShopSimulator's public release has; built from its description."""


def goods(path, rows=80):
    lines = [json.dumps(ROW, ensure_ascii=False).replace("{n}", str(n)) for n in range(rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_what_one_brings_learns_at_the_rate_of_a_language_model():
    assert compose(["policy.path=/models/mine"]).grpo.lr <= 1e-5 < compose([]).grpo.lr


@pytest.mark.parametrize("experiment", ["quickstart", "plain_grpo", "tiny_kill", "smollm", "remote", "shopsim"])
def test_an_experiment_made_for_another_world_is_refused(experiment):
    with pytest.raises(ConfigError, match=rf"\+exp={experiment} is made for env.name=.* leave \+exp={experiment} out"):
        compose([f"+exp={experiment}", f"env.name={GOODS}"])


@pytest.mark.parametrize("experiment", ["own", "planted"])
def test_an_experiment_without_options_of_its_world_takes_another_one(experiment):
    assert compose([f"+exp={experiment}", f"env.name={GOODS}"]).env.name == GOODS


def test_own_trajectories_of_a_chinese_file_shop_get_no_chunk_of_the_demo(tmp_path, capsys):
    turn = {"page": "搜索页", "action": "click[立即购买]", "feedback": "executed"}
    row = {"task_id": "t", "request": "我想买一个保温杯", "reward": 0.0, "turns": [turn]}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    words = [f"env.name={GOODS}", f"env.options.path={goods(tmp_path / 'goods.jsonl')}"]
    out = tmp_path / "out"
    assert main(["coldstart", "--trajectories", str(tmp_path / "mine.jsonl"), "--out", str(out), *words]) == 0
    assert parse_skill((out / "draft.md").read_text(encoding="utf-8")).chunks == ()
    planned = read_json(out / "plan.json")["plan"]
    assert planned["coldstart.draft"] is None and "language" not in planned["env.options"]
    printed = capsys.readouterr()
    assert printed.err.startswith("no experiment, because of your --trajectories and env.name\nworld intraskill.env")
    assert f"Next: intraskill train {' '.join(words)} coldstart.draft={out}/draft.md" in printed.out


def test_own_trajectories_alone_are_enough(tmp_path):
    row = {"task_id": "t", "request": "hello", "reward": 0.0, "turns": []}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    out = tmp_path / "out"
    assert main(["coldstart", "--trajectories", str(tmp_path / "mine.jsonl"), "--out", str(out)]) == 0
    assert parse_skill((out / "draft.md").read_text()).chunks == ()


def test_fresh_trajectories_are_gone_on_from_with_the_experiment_that_made_them(tmp_path, capsys):
    words = ["rollout.max_turns=1", "coldstart.tasks=2", "proposer.max_candidates=1"]
    assert main(["coldstart", *words, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("+exp=quickstart, the demo, because nothing of yours is given: env.name, policy.path")
    assert f"Next: intraskill train +exp=quickstart {' '.join(words)} coldstart.draft={tmp_path}" in printed.out


def test_a_dry_run_says_first_what_was_chosen_and_why(capsys):
    assert main(["train", "--dry-run"]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == "+exp=quickstart, the demo, because nothing of yours is given: env.name, policy.path"
    assert second.startswith(
        "world shopworld, language=plain, page_size=4; weights tiny; draft skills/shopping_draft.md; "
    )
    assert main(["train", "--dry-run", "env.name=shopworld", "policy.path=/models/mine"]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first == "+exp=own, because of your env.name and policy.path; +exp=quickstart is the demo"
    assert second.startswith(
        "world shopworld; weights /models/mine; draft none; proposer none; an episode: ≤ 20 actions"
    )
    assert main(["train", "--dry-run", "+exp=planted"]) == 0
    assert capsys.readouterr().out.startswith("+exp=planted, as given\n")


def test_a_run_says_it_before_its_first_stage(tmp_path, capsys):
    words = ["rounds=0", "final.tasks=0", "coldstart.tasks=4", "gate.tasks=24", f"run_dir={tmp_path / 'run'}"]
    assert main(["train", "+exp=planted", *words]) == 0
    assert capsys.readouterr().err.startswith("+exp=planted, as given\nworld planted; ")


def test_loose_weights_are_ones_own():
    assert config_beside(None, []) == compose(["+exp=own"])
    assert config_beside(None, ["+exp=quickstart"]) == compose(["+exp=quickstart"])


def test_the_tiny_policy_is_refused_in_a_shop_that_it_cannot_read_before_anything_runs(capsys):
    assert main(["train", "--dry-run", "env.name=shopworld"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "policy.path=tiny reads env.options.language=plain only" in printed.err
    assert "+exp=quickstart" in printed.err and printed.err.count("\n") == 1
