"""What the rules proposer offers: lessons that both sides of the evidence speak for, in the language of the pages."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
import shop_rollouts

from intraskill.cli import main
from intraskill.environments.evidence import Sighting
from intraskill.environments.protocol import reader_of
from intraskill.environments.shop_evidence.reader import ShopReader
from intraskill.environments.shop_evidence.states import read_states
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import MECHANISMS, USEFUL, mechanism_of
from intraskill.environments.shopworld.render import render
from intraskill.environments.shopworld.shoppers import GreedyShopper
from intraskill.method.rollouts import Turn
from intraskill.method.skill.skill import Skill
from intraskill.proposers.rules import LEVEL, RulesProposer, Support, support_of
from intraskill.proposers.trajectories import read_trajectories

sys.path.append(str(Path(__file__).parents[2] / "docs" / "examples"))
from number_hunt import NumberHunt  # noqa: E402

ASKED = "我想买一个不锈钢保温杯,颜色要红色,50元以内。"
TITLE = "云杉 不锈钢 保温杯 大容量"


def chinese(parts, buttons, search=False):
    """A page of the first public ShopSimulator, built from its description in `intraskill.environments.remote.wire`."""
    listed = json.dumps(buttons, ensure_ascii=False)
    return f"{' [SEP] '.join(parts)}\n\n搜索功能是否可用: {search}\n\n可点击的按钮: {listed}"


HOME = chinese(["Instruction:", ASKED, "搜索"], ["search"], search=True)
RESULTS = chinese(
    ["返回搜索", "第 1 页 (总结果数: 2)", "z100", TITLE, "¥39.00", "z200", "青石 塑料 水壶", "¥19.00"],
    ["返回搜索", "z100", "z200"],
)


def product_page(left, bought=False):
    parts = ["返回搜索", "< 上一页", "颜色", *left, TITLE, "价格: ¥39.00", "属性", *(["立即购买"] if bought else [])]
    return chinese(parts, ["返回搜索", "< 上一页", *left, "属性", *(["立即购买"] if bought else [])])


def row(number, reward, steps, request=ASKED):
    turns = [
        {"page": "", "observation": page, "action": f"{tool}[{word}]", "tool": tool, "argument": word}
        | {"feedback": "executed"}
        for page, tool, word in steps
    ]
    return {"task_id": f"t{number}", "request": request, "reward": reward, "turns": turns}


def bought(number, color, reward):
    other = ["蓝色"] if color == "红色" else ["红色"]
    steps = [(HOME, "search", "保温杯"), (RESULTS, "click", "z100"), (product_page(["红色", "蓝色"]), "click", color)]
    return row(number, reward, [*steps, (product_page(other, bought=True), "click", "立即购买")])


def wandered(number):
    """An episode that ends at the action limit with every option chosen."""
    steps = [(HOME, "search", "保温杯"), (RESULTS, "click", "z100"), (product_page(["红色", "蓝色"]), "click", "红色")]
    return row(number, 0.0, [*steps, (product_page(["蓝色"], bought=True), "click", "属性")])


def analysed(tmp_path, rows, reader=ShopReader(), tools=()):  # noqa: B008
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows), encoding="utf-8")
    return RulesProposer(reader).analyse(read_trajectories(path, tools), Skill(""))


def test_chinese_pages_are_read_and_the_supported_lesson_is_chinese_with_its_counts(tmp_path):
    rows = [bought(n, "红色", 1.0) for n in range(9)] + [bought(n, "蓝色", 0.0) for n in range(9, 20)]
    analysis = analysed(tmp_path, rows)
    assert {proposal.root_cause for proposal in analysis.proposals} == {"option_request"}
    (chunk,) = {proposal.chunks[0] for proposal in analysis.proposals}
    assert chunk.body == "购买前选择需求里写明的规格值。"
    counted = "followed, it came out 9 of 9 times; not followed, 0 of 11; Fisher's exact p = 6e-06"
    assert all(counted in proposal.expected_effect for proposal in analysis.proposals)
    assert any(counted in record.diagnosis for record in analysis.records) and "unreadable" not in analysis.counts


def test_the_counts_are_those_of_fishers_test():
    sightings = [Sighting("m", followed, worked) for followed, worked in [(1, 1)] * 3 + [(0, 0)] * 3 + [(1, 0)]]
    support = support_of(sightings)["m"]
    assert dataclasses.astuple(support) == (4, 3, 3, 0)
    assert support.p == pytest.approx(4 / 35)  # C(4,3)·C(3,0)/C(7,3), by hand
    assert Support(5, 5, 0, 0).p == Support(0, 0, 5, 0).p == 1.0


def test_episodes_that_ran_into_the_limit_teach_nothing(tmp_path):
    analysis = analysed(tmp_path, [wandered(n) for n in range(203)])
    assert analysis.proposals == () and analysis.counts["failure/action_limit"] == 203 == analysis.counts["unsupported"]


@pytest.mark.parametrize("reward", [0.0, 1.0], ids=["all failed", "all succeeded"])
def test_one_side_alone_teaches_nothing(tmp_path, reward):
    rows = [bought(n, color, reward) for n, color in enumerate(["红色", "蓝色"] * 20)]
    analysis = analysed(tmp_path, rows)
    assert analysis.proposals == () and "unreadable" not in analysis.counts


def test_buying_once_all_is_chosen_is_a_lesson_when_wandering_on_failed(tmp_path):
    rows = [bought(n, "红色", 1.0) for n in range(8)] + [wandered(n) for n in range(8, 16)]
    bodies = {proposal.chunks[0].body for proposal in analysed(tmp_path, rows).proposals}
    assert bodies == {"选好所有规格且商品合适时,立即购买。"}


def webshop(*parts):
    """A page of AgentGym's WebShop, which lists no buttons; built from its description in `wire`."""
    return " [SEP] ".join(["WebShop", "Instruction:", "Find a steel mug, price lower than 40.00 dollars", *parts])


def webshop_rows(prices):
    for number, (price, reward) in enumerate(prices):
        listed = webshop(
            *("Back to Search", "Page 1 (Total results: 2)", "B07AAAAAAA", "Steel mug", f"${price}"),
            *("B07BBBBBBB", "Glass mug", "$9.00"),
        )
        page = webshop("Back to Search", "< Prev", "Steel mug", f"Price: ${price}", "Description", "Buy Now")
        steps = [(webshop("Search"), "search", "mug"), (listed, "click", "B07AAAAAAA"), (page, "click", "buy now")]
        yield row(number, reward, steps, "Find a steel mug, price lower than 40.00 dollars")


def test_webshop_pages_without_buttons_are_read_and_taught_in_english(tmp_path):
    analysis = analysed(tmp_path, list(webshop_rows([(30, 1.0)] * 7 + [(60, 0.5)] * 7)))
    assert "unreadable" not in analysis.counts
    # The public row tells no price part, so no failure is traced to the price; the counts are there all the same.
    reading = ShopReader().read(read_trajectories(tmp_path / "mine.jsonl"))
    sightings = support_of(one for reading_ in reading for one in reading_.sightings)
    assert dataclasses.astuple(sightings["price_check"]) == (7, 7, 7, 0)
    with_parts = [one | {"parts": {"r_price": float(one["reward"] == 1.0)}} for one in webshop_rows([(30, 1.0)] * 7)]
    with_parts += [
        one | {"task_id": f"d{n}", "parts": {"r_price": 0.0}} for n, one in enumerate(webshop_rows([(60, 0.5)] * 7))
    ]
    bodies = {proposal.chunks[0].body for proposal in analysed(tmp_path, with_parts).proposals}
    assert bodies == {"Compare the price of the chosen options with the budget before you buy."}


def test_trajectories_of_no_shop_are_refused_in_words_and_numbers(tmp_path, capsys):
    world, rows = NumberHunt("tiny"), []
    for number, task in enumerate(world.tasks("train")[:6]):
        session = world.open()
        page = session.reset(task.id).observation
        rows.append(row(number, float(number % 2), [(page, "guess", "31")], "Find the number."))
    analysis = analysed(tmp_path, rows, reader_of(world), world.tools)
    assert analysis.proposals == () and analysis.counts["unreadable"] == 6
    words = ["coldstart", "--trajectories", str(tmp_path / "mine.jsonl"), "--out", str(tmp_path / "out")]
    assert main([*words, "env.name=number_hunt:NumberHunt"]) == main([*words[:-1], str(tmp_path / "shop")]) == 0
    said = "rules: this analyst cannot read 6 of these 6 trajectories, whose pages are of no shop that it knows, and "
    err = capsys.readouterr().err
    assert err.count(said) == 2 and err.count("proposer.name=openai reads any pages") == 2


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("style", ["structured", "sep"])
def test_our_own_pages_read_back_to_the_state_that_they_show(language, style):
    world = ShopWorld("tiny", 0, language=language, page_size=4)
    for task in world.tasks("train")[:5]:
        session = world.open()
        opening = session.reset(task.id)
        shopper, state, turns = GreedyShopper(opening, world.strings), dict(opening.state), []
        for _ in range(8):
            call = shopper.act(state)
            text = render(state, style, language)
            turns.append((Turn("", "", call.name, call.argument, "executed", {"observation": text}), state))
            outcome = session.step(
                shop_rollouts.write_call(call.name, shop_rollouts.PARAMETERS[call.name], call.argument)
            )
            state = dict(outcome.state)
            if outcome.done:
                break
        one = shop_rollouts.rollout(opening.request, [turn for turn, _ in turns], {"r_success": 0.0})
        read = read_states(one)
        assert read is not None
        for seen, (_, true) in zip(read, turns, strict=True):
            assert seen["page_type"] == true["page_type"]
            for name in ("selected_options", "missing_option_axes", "available_options", "selected_price"):
                assert seen.get(name) == true.get(name), name
            rows = [[line["id"], line["title"], line["price"]] for line in true.get("products", ())]
            assert [[line["id"], line["title"], line["price"]] for line in seen.get("products", ())] == rows


def test_every_mechanism_that_the_reader_can_show_has_lessons_in_three_languages():
    requests = {"plain": "a red mug", "en": "a red mug", "zh": ASKED}
    shown = set(MECHANISMS) - {"stay_polite", "brands_vary"}
    for language, request in requests.items():
        rollouts = [shop_rollouts.rollout(request, [], {"r_success": 0.0})]
        for mechanism in shown:
            wordings = ShopReader(language).lessons(mechanism, rollouts)
            assert len({chunk.body for chunk in wordings}) == 2
            assert {mechanism_of(chunk) for chunk in wordings} == {mechanism}
            assert all(any("一" <= c <= "鿿" for c in chunk.body) == (language == "zh") for chunk in wordings)


LUCKY = [(), USEFUL, ("open_last", "option_request", "option_persona")]


def test_a_superstition_that_separates_nothing_is_not_offered():
    world = ShopWorld("tiny", page_size=5, language="plain")
    played = [shop_rollouts.play(world, task.id, rules) for task in world.tasks("train") for rules in LUCKY]
    analysis = RulesProposer(world.reader).analyse(played, Skill(""))
    assert analysis.counts["success/open_last"] > 0
    causes = {proposal.root_cause for proposal in analysis.proposals}
    assert "open_last" not in causes and set(USEFUL) <= causes and LEVEL == 0.05
