"""Tool dialogues: an agent, tools over a database, a user; the end of a conversation is what is scored."""

import dataclasses
import json
import re

import pytest
from chat_server import answering
from editor.answering import SAMPLES, configured, scored, worth_of
from editor.test_judges import judged

from intraskill.editor.domain import Job
from intraskill.editor.domains.dialogues import dialogues
from intraskill.editor.domains.dialogues_files import load_tools, read_tasks
from intraskill.editor.domains.dialogues_talk import read_action
from intraskill.editor.trials import Trials
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.skill.skill import Chunk, Skill

TOOLS = f"{SAMPLES / 'parcel_tools.py'}:tools"
DATABASE = json.loads((SAMPLES / "parcels.json").read_text())
TASKS = json.loads((SAMPLES / "parcel_tasks.json").read_text())
SKILL = Skill("", (Chunk("Look first", "Use find_parcel, redirect, and say how long it takes."),))
LEARN = "CREATE\n### Look first\n\nUse the tools before you speak."
EMPTY = Skill("")


def agent(messages):
    """Without a skill it only promises; with one it redirects and says what the tool's answer demands."""
    request = next(m["content"] for m in messages if m["content"].startswith("User: Please"))
    number, city = re.search(r"parcel (\w+) to (\w+)", request).groups()
    last = messages[-1]["content"]
    if "# Skill" not in messages[0]["content"] or last.startswith("User: Thank"):
        return json.dumps({"say": "I promise."})
    if last.startswith("User: Please"):
        return json.dumps({"tool": "redirect", "arguments": {"number": number, "city": city}})
    refused = last.startswith("Tool redirect refused")
    return json.dumps({"say": "It has left the depot." if refused else f"To {city}, in 3 days."})


def bench_of(asked, root, **more):
    options = {"path": "parcel_tasks.json", "database": "parcels.json", "policy": "parcel_policy.md"}
    options = {key: str(SAMPLES / value) for key, value in options.items()}
    options |= {"tools": TOOLS, "worker": asked.endpoint(), "per_stream": 2, "held_out": 0.5}
    return dialogues(configured(**options | more), root)


def tasks_file(root, **change):
    """The first sample task with other criteria, scenario or state."""
    task = json.loads(json.dumps(TASKS[0]))
    for name, value in change.items():
        task[name] = {**(task[name] or {}), **value} if isinstance(value, dict) else value
    path = root / "tasks.json"
    path.write_text(json.dumps([task, TASKS[1]]))
    return path


def score_of(bench, query_id, skill=EMPTY):
    query = bench.domain.query(query_id)
    (answer,) = bench.worker.answer([Job(query, skill, 1)])
    assert answer.fault is None
    return bench.verifier.score(query, answer), answer


def test_an_edit_that_makes_the_agent_act_is_rewarded_and_a_skill_is_worth_its_probes(tmp_path):
    with answering(agent) as asked:
        bench = bench_of(asked, tmp_path)
        trials = Trials(bench.worker, bench.verifier, tmp_path / "trials.jsonl")
        found = scored(bench, trials, [LEARN, "NOOP"])
        assert [one.reward for one in found.rollouts] == [1.0, 0.0] and found.control == (0.0,)
        (worth,) = worth_of(bench, trials, SKILL)
        assert (worth.before, worth.after) == (0.0, 1.0) and trials.faults == []
        told = asked.texts("system")[0]
        assert "it takes 3 days" in told and "redirect(number: str, city: str)" in told and "on fire" not in told


def test_evidence_shows_the_task_the_steps_and_what_was_wrong_and_no_goal(tmp_path):
    with answering(agent) as asked:
        (stream,) = bench_of(asked, tmp_path).domain.streams("train")
        (unit,) = stream.units
        assert unit.text.startswith("Task: Please send parcel") and unit.anchors == (unit.id,)
        assert "1. turn: say: I promise. -> executed" in unit.text and "something that the user needs" in unit.text
        assert "3 days" not in unit.text and "redirected" not in unit.text


def test_the_score_is_the_product_of_database_and_what_was_said(tmp_path):
    with answering(agent) as asked:
        bench = bench_of(asked, tmp_path)
        for name in ("redirect-P1", "redirect-P2"):
            assert score_of(bench, name, SKILL)[0] == 1.0 and score_of(bench, name)[0] == 0.0
        score, answer = score_of(bench, "redirect-P1", SKILL)
        query = bench.domain.query("redirect-P1")
        for change in (
            {"ended": False},
            {"database": DATABASE},
            {"said": [("user", "3 days")]},
        ):
            changed = dataclasses.replace(answer, facts={**answer.facts, **change})
            assert bench.verifier.score(query, changed) == 0.0 < score, change
    assert DATABASE["parcels"]["P1"]["city"] == "Bonn", "a conversation works on a copy"


def test_an_action_check_counts_the_named_arguments_only(tmp_path):
    use = {"name": "find_parcel", "arguments": {"number": "P1"}}
    path = tasks_file(tmp_path, evaluation_criteria={"actions": [use], "reward_basis": ["ACTION"]})
    with answering(agent) as asked:
        assert score_of(bench_of(asked, tmp_path / "a", path=str(path)), "redirect-P1", SKILL)[0] == 0.0
        use = {"name": "redirect", "arguments": {"number": "P1", "city": "Rome"}, "compare_args": ["number"]}
        path = tasks_file(tmp_path, evaluation_criteria={"actions": [use], "reward_basis": ["ACTION"]})
        assert score_of(bench_of(asked, tmp_path / "b", path=str(path)), "redirect-P1", SKILL)[0] == 1.0


def test_assertions_in_words_are_judged_when_they_count(tmp_path):
    basis = {"reward_basis": ["DB", "NL_ASSERTION"], "nl_assertions": ["The agent names the city."]}
    path = str(tasks_file(tmp_path, evaluation_criteria=basis))

    def reply(messages):
        if "<criteria>" in messages[1]["content"]:
            return judged("agent: To Kiel" in messages[1]["content"])
        return agent(messages)

    with answering(reply) as asked:
        with pytest.raises(ConfigError, match=r"need editor\.options\.judge, 1: redirect-P1"):
            bench_of(asked, tmp_path / "a", path=path)
        bench = bench_of(asked, tmp_path / "b", path=path, judge=asked.endpoint())
        assert score_of(bench, "redirect-P1", SKILL)[0] == 1.0
    with answering(lambda m: "hm" if "<criteria>" in m[1]["content"] else agent(m)) as asked:
        bench = bench_of(asked, tmp_path / "c", path=path, judge=asked.endpoint())
        trials = Trials(bench.worker, bench.verifier)
        assert trials.scores([Job(bench.domain.query("redirect-P1"), SKILL, 1)]) == (None,)
        assert "BadAnswerError" in trials.faults[0]


def test_a_first_state_changes_the_database_and_may_use_tools(tmp_path):
    state = {
        "initialization_data": {"agent_data": {"parcels": {"P2": {"state": "depot"}}}},
        "initialization_actions": [
            {"env_type": "assistant", "func_name": "redirect", "arguments": {"number": "P2", "city": "Nice"}}
        ],
    }
    path = tasks_file(tmp_path, initial_state=state)
    first, second = read_tasks(path, DATABASE, load_tools(TOOLS))
    assert first.start["parcels"]["P2"] == {"city": "Nice", "state": "depot"}
    assert first.goal["parcels"]["P1"]["city"] == "Kiel" != first.start["parcels"]["P1"]["city"]
    assert second.start == second.goal == DATABASE


def test_an_llm_plays_the_user_until_it_says_stop(tmp_path):
    def reply(messages):
        if "You play a user" not in messages[0]["content"]:
            return agent(messages)
        assert messages[1]["role"] == "user"  # the agent speaks first
        return "Please send parcel P1 to Kiel." if len(messages) == 2 else "Thanks. ###STOP###"

    with answering(reply) as asked:
        bench = bench_of(asked, tmp_path, user=asked.endpoint(temperature=0.5))
        score, answer = score_of(bench, "redirect-P1", SKILL)
        assert score == 1.0 and answer.facts["said"][-1] == ("agent", "To Kiel, in 3 days.")
        situation = next(text for text in asked.texts() if "You play a user" in text)
        assert "known info: The number is P1." in situation and "Look first" not in situation
        assert bench.worker.version != bench_of(asked, tmp_path / "b").worker.version


def test_what_the_agent_writes_wrongly_is_told_to_it_and_costs_a_turn(tmp_path):
    wrong = iter(
        ["I will help!", '{"tool": "fly", "arguments": {}}', '{"tool": "redirect", "arguments": {"to": "x"}}',
         '{"tool": "find_parcel", "arguments": {"number": "P9"}}', '{"say": "3 days"}', '{"say": "bye"}']
    )  # fmt: skip
    with answering(lambda messages: next(wrong)) as asked:
        _, answer = score_of(bench_of(asked, tmp_path), "redirect-P1")
        heard = asked.bodies[-1]["messages"][3::2]
        assert [h["content"].split(":")[0] for h in heard[:4]] == [
            "That was no action", "Tool fly refused", "Tool redirect refused", "Tool find_parcel refused",
        ]  # fmt: skip
        assert "there are find_parcel, redirect, scan" in heard[1]["content"] and "no parcel P9" in heard[3]["content"]
        assert answer.facts["ended"] and len(answer.facts["turns"]) == 7


def test_a_conversation_that_does_not_end_is_worth_nothing(tmp_path):
    with answering(lambda messages: '{"tool": "find_parcel", "arguments": {"number": "P1"}}') as asked:
        score, answer = score_of(bench_of(asked, tmp_path, max_turns=3), "redirect-P1")
        assert score == 0.0 and not answer.facts["ended"] and len(asked.bodies) == 3
        assert "limit of turns" in answer.facts["turns"][-1]["feedback"]


def test_a_tool_that_raises_is_a_fault_and_never_a_score(tmp_path):
    with answering(lambda messages: '{"tool": "scan", "arguments": {"number": "P1"}}') as asked:
        bench = bench_of(asked, tmp_path)
        trials = Trials(bench.worker, bench.verifier)
        assert trials.scores([Job(bench.domain.query("redirect-P1"), EMPTY, 1)]) == (None,)
        assert "tool scan: OSError: the scanner is on fire at P1" in trials.faults[0]


@pytest.mark.parametrize(
    "text",
    ["[]", '{"say": 1}', '{"say": "a", "tool": "b"}', '{"tool": "a", "arguments": []}', "hello", '{"arguments": {}}'],
)
def test_an_action_of_another_form_is_refused(text):
    with pytest.raises(ValueError, match="."):
        read_action(text)
    assert read_action('```json\n{"tool": "a"}\n```') == ("a", {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": ""}, "id is missing"),
        ({"id": "redirect-P2"}, "stands twice"),
        ({"evaluation_criteria": None}, "are needed"),
        ({"evaluation_criteria": {"reward_basis": ["DBS"]}}, "'DBS', which is not offered"),
        ({"evaluation_criteria": {"env_assertions": [{}]}}, "env_assertions are not offered"),
        ({"evaluation_criteria": {"actions": [{"name": "x", "requestor": "user"}]}}, "users have no tools"),
        (
            {"evaluation_criteria": {"actions": [{"name": "redirect", "arguments": {"number": "P2", "city": "x"}}]}},
            "the expected call of redirect is refused: the parcel has left the depot",
        ),
        (
            {"evaluation_criteria": {"actions": [{"name": "scan", "arguments": {"number": "P2"}}]}},
            "tool scan: OSError",
        ),
        ({"initial_state": {"message_history": [{}]}}, "message_history is not offered"),
        ({"user_scenario": {"instructions": "", "script": []}}, "no instructions"),
    ],
)
def test_tasks_that_cannot_be_used_are_named(tmp_path, change, words):
    path = tasks_file(tmp_path, **change)
    with pytest.raises(ArtifactError) as error:
        read_tasks(path, DATABASE, load_tools(TOOLS))
    assert words in str(error.value) and "entry " in str(error.value)


def test_wrong_options_and_files_are_named(tmp_path):
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "bad_tools.py").write_text("import nothing_of_this_name")
    with answering(agent) as asked:
        with pytest.raises(ConfigError, match=r"databse is no option, did you mean 'database'\?"):
            bench_of(asked, tmp_path, databse="x")
        with pytest.raises(ArtifactError, match="broken.json is no JSON"):
            bench_of(asked, tmp_path, database=str(tmp_path / "broken.json"))
        with pytest.raises(ConfigError, match="is no factory"):
            bench_of(asked, tmp_path, tools="parcel_tools.py")
        with pytest.raises(ConfigError, match="No module named 'nothing_of_this_name'"):
            bench_of(asked, tmp_path, tools=f"{tmp_path / 'bad_tools.py'}:tools")
        with pytest.raises(ConfigError, match="is no Python file"):
            bench_of(asked, tmp_path, tools="absent.py:tools")
        with pytest.raises(ConfigError, match=r"tasks without user_scenario\.script, 1: redirect-P1"):
            path = tasks_file(tmp_path, user_scenario={"script": []})
            bench_of(asked, tmp_path, path=str(path))
