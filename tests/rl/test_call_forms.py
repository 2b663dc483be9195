"""Every chat template that TRL ships: which form of calls it teaches, and that this form earns reward in the shop."""

import copy
from pathlib import Path
from typing import Any

import pytest
import trl
from rl.toy import tokenizer

from intraskill.environments.protocol import Outcome
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.proof import Oracle
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import read_call, write_arguments
from intraskill.method.errors import ConfigError
from intraskill.method.thoughts import without_thoughts
from intraskill.rl.call_forms import FORMS, form_of, typed
from intraskill.rl.chat import ChatCodec

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
EOS = {
    "qwen": "<|im_end|>",
    "nemotron": "<|im_end|>",
    "lfm2": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "gemma": "<end_of_turn>",
    "gemma4": "<turn|>",
    "diffusion_gemma": "<turn|>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "gptoss": "<|return|>",
    "phi": "<|end|>",
}
"""How the answers of a family end: its tokenizer's EOS token. The longest fitting name counts."""
TAUGHT = {
    "qwen2_5": "Hermes JSON",
    "qwen3": "Hermes JSON",
    "qwen3_instruct_2507": "Hermes JSON",
    "qwen3_vl": "Hermes JSON",
    "qwen3_5_nothink": "Qwen XML",
    "qwen3_5_think": "Qwen XML",
    "qwen3_6": "Qwen XML",
    "qwen3_8": "Qwen XML",
    "nemotron_3_nano": "Qwen XML",
    "nemotron_3_super": "Qwen XML",
    "nemotron_3_ultra": "Qwen XML",
    "nemotron_3_5_lightning": "Qwen XML",
    "llama3_1": "Llama JSON",
    "llama3_2": "Llama JSON",
    "lfm2_v2": "LFM2 Python",
    "lfm2_2_5": "LFM2 Python",
    "lfm2_2_5_v2": "LFM2 Python",
    "lfm2_2_5_vl": "LFM2 Python",
}
TOLD = ("llama3", "lfm2", "qwen2_5_vl", "deepseek_r1_distill", "deepseekv3", "gemma4_v2")
"""Templates that teach no form that we read: the system message says how to call."""
REFUSED = (
    *("cohere", "cohere2", "gemma", "gemma3", "gemma4", "gemma4_v3", "gemma4_v4", "gemma4_v5", "diffusion_gemma"),
    *("gptoss", "phi3", "phi3_5", "llava_next", "idefics3", "smolvlm", "glm4moe", "muse_glimmer"),
)
"""Templates that cannot show a system message, an answer and a tool message in a row."""
SHIPPED = sorted(path.stem for path in TEMPLATES.glob("*.jinja") if not path.stem.endswith("_training"))
WORLD = ShopWorld("tiny", 0)


def codec_of(stem: str, tools: Any = WORLD.tools, **options: Any) -> ChatCodec:
    words = copy.deepcopy(tokenizer())
    words.chat_template = (TEMPLATES / f"{stem}.jinja").read_text(encoding="utf-8")
    family = max((name for name in EOS if stem.startswith(name)), key=len, default=None)
    words.add_special_tokens({"eos_token": EOS[family] if family else "<eos>", "bos_token": "<bos>"})
    return ChatCodec(words, tools, system="You are a shopping agent.", options=options)


def test_every_shipped_template_is_accounted_for() -> None:
    assert sorted([*TAUGHT, *TOLD, *REFUSED]) == SHIPPED


@pytest.mark.parametrize("stem", TAUGHT)
def test_the_form_of_calls_is_read_off_the_template(stem: str) -> None:
    codec = codec_of(stem)
    assert codec.form.name == TAUGHT[stem]
    assert "search" in codec.text(codec.prompt("", "Find it."))
    assert "Answer with one call." not in codec.text(codec.prompt("", "Find it.")), "the template itself says how"


@pytest.mark.parametrize("stem", TOLD)
def test_a_template_that_teaches_no_form_is_told_ours(stem: str) -> None:
    codec = codec_of(stem)
    assert codec.form.name == "Hermes JSON"
    text = codec.text(codec.prompt("", "Find it."))
    assert text.count("Answer with one call.") == 1 and text.count('{"name": "search"') == 1


@pytest.mark.parametrize("stem", REFUSED)
def test_a_template_that_cannot_show_an_episode_is_refused_in_its_own_words(stem: str) -> None:
    with pytest.raises(ConfigError, match="chat template"):
        codec_of(stem)


def played(codec: ChatCodec, *, thought: str = "") -> Outcome:
    """Play one task with an oracle that writes its calls as the template does."""
    task = WORLD.tasks("train")[0].id
    session, oracle = WORLD.open(), Oracle(WORLD.shop_task(task).goal, WORLD.strings)
    session.reset(task)
    for _ in range(8):
        call = oracle.act(session.state)
        arguments = {PARAMETERS[call.name]: call.argument}
        taught = codec.form.name != "Hermes JSON"
        answer = codec.written((call.name, arguments)) if taught else write_arguments(call.name, arguments)
        outcome = session.step(codec.action_of(codec.decode(codec.action(thought + answer))))
        assert codec.text(codec.observation(outcome.observation))
        if outcome.done:
            return outcome
    raise AssertionError("the oracle needs more than 8 actions")


@pytest.mark.parametrize("stem", [*TAUGHT, *TOLD])
def test_a_scripted_shopper_earns_the_whole_reward_through_the_real_template(stem: str) -> None:
    codec = codec_of(stem)
    drafted = '<tool_call>{"name": "search", "arguments": {"query": "a draft"}}</tool_call>'
    closing = f"It could be {drafted}, but no.\n</think>\n\n"
    ends_inside = codec.text(codec.prompt("", "x")).rstrip().endswith("<think>")
    assert played(codec, thought=closing if ends_inside else f"<think>\n{closing}").reward == 1.0
    if not ends_inside:
        assert played(codec).reward == 1.0


@pytest.mark.parametrize("stem", ["qwen3_5_think", "qwen3_6", "nemotron_3_nano"])
def test_thinking_can_be_switched_off_by_the_templates_own_option(stem: str) -> None:
    codec = codec_of(stem, enable_thinking=False)
    assert "</think>" in codec.text(codec.prompt("", "x"))
    assert played(codec).reward == 1.0


def test_a_call_without_the_end_of_its_thought_is_not_executed() -> None:
    codec = codec_of("qwen3_5_think")
    call = codec.written(("search", {"query": "mug"}))
    assert read_call(codec.action_of(call), PARAMETERS) == "invalid_format"
    assert read_call(codec.action_of(f"</think>{call}"), PARAMETERS) != "invalid_format"


def test_an_answer_in_another_form_than_the_templates_is_no_action() -> None:
    hermes = '<tool_call>\n{"name": "search", "arguments": {"query": "mug"}}\n</tool_call>'
    xml = "<tool_call>\n<function=search>\n<parameter=query>\nmug\n</parameter>\n</function>\n</tool_call>"
    assert read_call(codec_of("qwen3_5_nothink").action_of(hermes), PARAMETERS) == "invalid_format"
    assert read_call(codec_of("qwen3").action_of(xml), PARAMETERS) == "invalid_format"


def test_two_calls_are_refused_and_none_is_executed() -> None:
    codec = codec_of("qwen3_5_nothink")
    call = codec.written(("search", {"query": "mug"}))
    assert read_call(codec.action_of(f"{call}\n{call}"), PARAMETERS) == "multiple_actions_not_allowed"


@pytest.mark.parametrize(
    "broken",
    [
        "<tool_call>\n<function=search>\n<parameter=query>\nmug\n</parameter>\n</function>",
        "<tool_call>\n<function=search>\n<parameter=query>\nmug\n</function>\n</tool_call>",
        "<tool_call>\n<function=search>\n<parameter=query>\nmug\n</parameter>\nor a cup\n</function>\n</tool_call>",
        "<function=search>\n<parameter=query>\nmug\n</parameter>\n</function>",
        "<tool_call>\n<function=search>\n<parameter=query>\na\n</parameter>\n<parameter=query>\nb\n</parameter>\n</function>\n</tool_call>",
    ],
)
def test_a_malformed_call_is_invalid_format(broken: str) -> None:
    assert read_call(codec_of("qwen3_5_nothink").action_of(broken), PARAMETERS) == "invalid_format"


def test_a_json_key_that_stands_twice_is_refused() -> None:
    twice = '<tool_call>{"name": "search", "arguments": {"query": "a", "query": "b"}}</tool_call>'
    assert read_call(twice, PARAMETERS) == "invalid_format"
    assert read_call(twice.replace('"query": "a", ', ""), PARAMETERS) != "invalid_format"


def test_each_form_reads_several_typed_arguments_and_none() -> None:
    tools = [{"function": {"name": "book", "parameters": {"properties": {
        "seats": {"type": "integer"}, "name": {"type": "string"}, "window": {"type": "boolean"}}}}}]  # fmt: skip
    codec = codec_of("qwen3_5_nothink")
    calls = codec.form.calls(codec.written(("book", {"seats": 2, "name": "7", "window": True})))
    # The template writes a boolean as Python does; a model that follows the schema writes JSON. Both are read.
    assert calls == [("book", {"seats": "2", "name": "7", "window": "True"})]
    assert typed(calls[0], tools) == ("book", {"seats": 2, "name": "7", "window": True})
    assert typed(("book", {"window": "false"}), tools) == ("book", {"window": False})
    assert typed(("book", {"seats": "two"}), tools) is None
    for stem in ("qwen3_5_nothink", "qwen3", "llama3_1", "lfm2_2_5"):
        assert form_of(codec_of(stem).written(("leave", {})), ("leave", {})) is not None, stem


def test_thoughts_are_no_answer() -> None:
    assert without_thoughts("<think>a</think>b", thinking=False) == "b"
    assert without_thoughts("a</think>b<think>c</think>d", thinking=True) == "bd"
    assert without_thoughts("<think>a", thinking=False) is None
    assert without_thoughts("a", thinking=True) is None


def test_a_page_is_quoted_where_the_template_quotes_tool_messages() -> None:
    codec = codec_of("llama3_1")
    assert r"a \"b\"\nc" in codec.text(codec.observation('a "b"\nc'))
    assert 'a "b"\nc' in codec_of("qwen3").text(codec_of("qwen3").observation('a "b"\nc'))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_collapsed_policy_costs_linear_time(form: Any) -> None:
    # A quadratic reader needs minutes for these; a linear one milliseconds.
    for text in ("<tool_call>" * 60_000, "<function=" * 60_000, "[TOOL_CALLS]" * 60_000, "{" * 60_000,
                 "<|tool_call_start|>" * 60_000, "<think>" * 60_000):  # fmt: skip
        assert not form.calls(text)
        without_thoughts(text, thinking=False)
