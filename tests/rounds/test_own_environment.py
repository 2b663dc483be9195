"""A user's own environment: the documented example is complete, short, checked, and can be trained on."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from intraskill.config.overrides import compose
from intraskill.environments import protocol
from intraskill.environments.contract import check_environment
from intraskill.environments.contract.check import RULES, violated
from intraskill.environments.tool_calls import write_call
from intraskill.method.skill.skill import parse_skill
from intraskill.rounds.setup import environment_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
MAX_LINES = 60
FEW = ("gate.tasks=120", "final.tasks=80")
LEARNED, BARELY = 0.1, 0.1
NAME = "env.name=number_hunt:NumberHunt"
SMALL = (
    *("env.preset=tiny", "rounds=1", "grpo.steps_per_round=1", "grpo.groups_per_step=2", "grpo.group_size=2"),
    *("grpo.reserve_groups=1", "rollout.max_new_tokens=16", "rollout.max_turns=3", "rollout.max_context=768"),
    *("triage.reruns=2", "frontier.max_tasks=1", "gate.tasks=8", "final.tasks=4"),
)


def cli(*words):
    environment = os.environ | {"PYTHONPATH": f"{EXAMPLES}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "intraskill.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return environment_of(compose([NAME, "env.preset=tiny"], default=False))


def guess(session, number):
    return session.step(write_call("guess", "number", str(number)))


def test_the_example_is_short_and_stands_verbatim_in_the_document():
    text = (EXAMPLES / "number_hunt.py").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/environments.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert text in blocks and len(text.splitlines()) <= MAX_LINES
    assert text.replace("higher", "lower") not in blocks


def test_the_document_names_every_member_of_the_protocol_and_every_rule():
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    names = [
        name for kind in (protocol.Environment, protocol.Session) for name in vars(kind) if not name.startswith("_")
    ]
    fields = [*protocol.Opening.__dataclass_fields__, *protocol.Outcome.__dataclass_fields__]
    rules = [rule.name for rule in RULES]
    assert len(names) == 9 and [name for name in (*names, *fields, *rules) if f"`{name}" not in text] == []


def test_the_example_keeps_the_contract(world):
    assert violated(check_environment(world, again=lambda: type(world)("tiny"), tasks=8)) == []


def test_halving_finds_every_number_and_counting_up_does_not(world):
    found = {"halving": 0, "counting": 0}
    for task in world.tasks("train"):
        for way in found:
            session, low, high = world.open(), 1, 30
            session.reset(task.id)
            for turn in range(1, 6):
                number = (low + high) // 2 if way == "halving" else turn
                outcome = guess(session, number)
                low, high = (number + 1, high) if "higher" in outcome.observation else (low, number - 1)
                if outcome.done:
                    break
            found[way] += outcome.reward == 1.0 == outcome.parts["r_close"]
    assert found["halving"] == len(world.tasks("train")) > found["counting"]


def test_its_skill_is_a_skill():
    skill = parse_skill((EXAMPLES / "number_hunt_skill.md").read_text(encoding="utf-8"))
    assert [chunk.title for chunk in skill.chunks] == ["Begin in the middle", "Halve what is left"]


def test_the_commands_take_it_by_its_import_path():
    done = cli("env", "check", NAME, "env.preset=tiny")
    assert done.returncode == 0 and "VIOLATED" not in done.stdout and "ok       same_steps" in done.stdout
    done = cli("train", "+exp=own", NAME, "--dry-run")
    assert done.returncode == 0 and "closing comparison" in done.stdout


def test_an_own_world_gets_preset_seed_and_options(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    one, other = (environment_of(compose([NAME, f"env.seed={seed}"], default=False)) for seed in (1, 2))
    assert one.version != other.version and one.family == "number-hunt"
    assert importlib.import_module("number_hunt").NumberHunt("small", 1).version == one.version


def test_the_whole_loop_trains_on_it_and_its_skill_is_absorbed(tmp_path):
    draft = f"coldstart.draft={EXAMPLES / 'number_hunt_skill.md'}"
    done = cli("train", "+exp=own", "env.name=hunting:HuntingWorld", draft, *FEW, f"run_dir={tmp_path / 'run'}")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    first = {chunk["title"]: chunk for chunk in found["rounds"][0]["chunks"]}
    assert first["Halve what is left"]["status"] == "active" and first["Begin in the middle"]["beta"] < BARELY
    free = [row["r_free"] for row in found["rounds"]]
    gaps = [row["gap"]["mean"] for row in found["rounds"]]
    assert free[-1] > free[0] + LEARNED and gaps[0] > LEARNED


@pytest.mark.slow
def test_a_run_with_the_shipped_policy_goes_through_every_stage(tmp_path):
    words = ("coldstart.draft=null", f"run_dir={tmp_path / 'run'}")
    done = cli("train", "+exp=own", NAME, *SMALL, *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "round_001" / "DONE").exists() and (tmp_path / "run" / "summary.json").exists()
