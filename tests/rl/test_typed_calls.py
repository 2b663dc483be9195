"""Tools with several typed arguments and with none, through the templates that TRL ships and a desk that is no shop."""

import json

import pytest
from rl.test_call_forms import TAUGHT, TOLD, codec_of
from ticket_desk import TEAMS, TOOLS, Desk

from intraskill.environments.contract import check_environment
from intraskill.environments.tool_calls import (
    Refusal,
    TypedCall,
    example_call,
    read_call,
    read_typed_call,
    write_arguments,
)
from intraskill.method.errors import ConfigError
from intraskill.proposers.llm import _example_actions

DESK = Desk("tiny")
TASK = DESK.tasks("train")[0].id


def written(codec, call):
    """Return a call as a policy that obeys the template answers it."""
    taught = codec.form.name != "Hermes JSON"
    return codec.written((call["name"], call["arguments"])) if taught else write_arguments(**call)


@pytest.mark.parametrize("stem", [*TAUGHT, *TOLD])
def test_a_scripted_agent_earns_the_whole_reward_in_every_family_s_form(stem):
    codec, session = codec_of(stem, TOOLS), DESK.open()
    session.reset(TASK)
    for call in DESK.solution(TASK):
        # A template that opens the thought itself gets it closed first.
        answer = ("I know.</think>" if codec._thinking else "") + written(codec, call)
        outcome = session.step(codec.action_of(answer))
        assert outcome.feedback == "executed", answer
    assert outcome.done and outcome.reward == 1.0


@pytest.mark.parametrize("stem", ["qwen3", "qwen3_5_nothink", "llama3_1", "lfm2_v2", "deepseekv3"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"ticket": "one", "team": "billing"},
        {"ticket": 1, "team": "kitchen"},
        {"ticket": 1},
        {"ticket": 1, "team": "billing", "colour": "red"},
        {"ticket": 0, "team": "billing"},
        {"ticket": 1, "team": "billing", "urgent": "perhaps"},
    ],
    ids=["type", "choice", "missing", "unknown", "range", "optional"],
)
def test_what_does_not_fit_the_schema_is_no_call_in_any_form(stem, arguments):
    codec, session = codec_of(stem, TOOLS), DESK.open()
    _, before = session.reset(TASK).observation, session.view()
    outcome = session.step(codec.action_of(written(codec, {"name": "assign", "arguments": arguments})))
    assert outcome.feedback == "invalid_format" and session.view() == before and not outcome.done


@pytest.mark.parametrize("stem", ["qwen3", "qwen3_5_nothink", "lfm2_v2"])
def test_parallel_calls_are_refused_and_none_is_done(stem):
    codec, session = codec_of(stem, TOOLS), DESK.open()
    session.reset(TASK)
    before = session.view()
    first, second = (written(codec, call) for call in DESK.solution(TASK)[:2])
    outcome = session.step(codec.action_of(first + second))
    assert outcome.feedback == "multiple_actions_not_allowed" and session.view() == before
    assert "one call, not 2" in outcome.observation


def test_reasons_name_what_is_wrong_and_what_there_is():
    def reason(name, **arguments):
        found = read_typed_call(write_arguments(name, arguments), TOOLS)
        assert isinstance(found, Refusal) and found.code == "invalid_format"
        return found.reason

    assert reason("close") == "there is no tool 'close'; there are list_open, assign"
    assert reason("assign", ticket="one", team="billing") == "assign, ticket: 'one' is not of type 'integer'"
    assert "'kitchen' is not one of" in reason("assign", ticket=1, team="kitchen")
    assert "'team' is a required property" in reason("assign", ticket=1)
    assert "'colour' was unexpected" in reason("assign", ticket=1, team="billing", colour="red")
    assert "'x' was unexpected" in reason("list_open", x=1)
    assert reason("assign", ticket=True, team="billing") == "assign, ticket: True is not of type 'integer'"


@pytest.mark.parametrize(
    "begun", ['<tool_call>\n{"name": "click", "arguments": {"value": "b7<|im_start|>\n', "<tool_call>"]
)
def test_a_call_after_one_that_was_never_closed_is_not_executed(begun):
    good = write_arguments("click", {"value": "Buy"})
    assert read_call(good, {"click": "value"}).argument == "Buy"
    assert read_call(begun + good, {"click": "value"}) == "invalid_format"
    assert read_call(begun + good + good, {"click": "value"}) == "multiple_actions_not_allowed"
    found = read_typed_call(begun + write_arguments("list_open", {}), TOOLS)
    assert isinstance(found, Refusal) and found.reason == "a call is opened and not closed"


def test_a_call_without_arguments_is_a_call_with_or_without_the_key():
    assert read_typed_call('<tool_call>{"name": "list_open", "arguments": {}}</tool_call>', TOOLS).name == "list_open"
    assert read_typed_call('<tool_call>{"name": "list_open"}</tool_call>', TOOLS) == TypedCall("list_open", {})
    bare = [{"type": "function", "function": {"name": "wait", "description": "Wait."}}]  # no schema at all
    assert read_typed_call(write_arguments("wait", {}), bare) == TypedCall("wait", {})
    assert isinstance(read_typed_call(write_arguments("wait", {"x": 1}), bare), Refusal)


def test_examples_fit_their_own_schema():
    for tool in TOOLS:
        example = example_call(tool)
        assert read_typed_call(write_arguments(example.name, example.arguments), TOOLS) == example
    assert [json.loads(text.split("\n")[1]) for text in _example_actions(TOOLS)] == [
        {"name": "list_open", "arguments": {}},
        {"name": "assign", "arguments": {"ticket": 1, "team": "billing", "urgent": True}},
    ]


def test_a_template_that_teaches_no_form_is_told_types_and_choices():
    codec = codec_of("deepseekv3", TOOLS)
    text = codec.text(codec.prompt("", "Sort them."))
    assert "ticket: integer" in text and f"team: string, one of {', '.join(map(json.dumps, TEAMS))}" in text
    assert "urgent: boolean, optional" in text


def test_the_contract_passes_whatever_the_first_tool_takes():
    findings = check_environment(DESK, tasks=3)
    assert [finding.rule for finding in findings if finding.status not in ("ok", "skipped")] == []
    assert {finding.rule for finding in findings if finding.status == "skipped"} == {"version", "snapshot"}


def test_the_shop_s_own_reader_takes_one_text():
    parameters = {"click": "value"}
    assert (
        read_call('<tool_call>{"name": "click", "arguments": {"value": " Buy "}}</tool_call>', parameters).argument
        == "Buy"
    )
    for arguments in ({"value": 3}, {"value": "a", "more": "b"}, {"query": "a"}, {}):
        assert read_call(write_arguments("click", arguments), parameters) == "invalid_format"
    assert read_call(write_arguments("click", {"value": "  "}), parameters) == "empty_argument"


@pytest.mark.parametrize("stem", [*TAUGHT, *TOLD])
def test_a_whole_dialogue_renders_or_fails_in_the_template_s_own_words(stem):
    codec = codec_of(stem, TOOLS)
    try:
        text = codec.dialogue()
    except ConfigError as error:
        assert "the chat template refuses a conversation of system, user, assistant, tool, assistant" in str(error)
    else:
        assert "PAGE" in text and "request" in text


def test_the_account_names_the_form_and_shows_one_call():
    assert codec_of("qwen3_5_nothink", TOOLS).account.startswith(
        "actions are read as Qwen XML, for example <tool_call>"
    )
    told = codec_of("deepseekv3", TOOLS).account
    assert "Hermes JSON, which the system message explains" in told and '{"name": "list_open", "arguments": {}}' in told
