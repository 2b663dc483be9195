"""Loaders of a user's files: every row loads or is listed, oddities of the releases survive, bad files say so once."""

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from intraskill.config.config import Config
from intraskill.environments.persona import persona_text
from intraskill.environments.shop_files import (
    FileShop,
    Loaded,
    load_shopsimulator,
    load_webshop,
    shopsimulator,
    webshop,
)
from intraskill.environments.shop_files.factories import tagged_splits
from intraskill.environments.shop_files.fields import (
    UnusableError,
    axes_of,
    category_of,
    prices_of,
    text_of,
    texts_of,
    variants,
)
from intraskill.environments.shopworld.budget import budget_of
from intraskill.environments.shopworld.splits import linked_components
from intraskill.environments.shopworld.task import ShopTask
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.tasks import SPLITS
from intraskill.rounds.setup import environment_of

SAMPLES = Path(__file__).parent / "samples"
ROWS = SAMPLES / "shopsimulator_rows.json"
ITEMS, INSTRUCTIONS, HUMAN = (SAMPLES / f"webshop_{n}" for n in ("items.jsonl", "instructions.json", "human.json"))
REAL = Path(__file__).parents[3] / "shared" / "data"
REAL_ITEMS, REAL_INSTRUCTIONS = REAL / "webshop_100_products.jsonl", REAL / "webshop_instructions_1000.json"


@pytest.fixture(scope="module")
def shop() -> FileShop:
    return shopsimulator(ROWS)


@pytest.fixture(scope="module")
def loaded(shop: FileShop) -> Loaded:
    return shop.loaded


def task_of(loaded: Loaded, task_id: str) -> ShopTask:
    return next(task for task in loaded.tasks if task.id == task_id)


def reasons(loaded: Loaded, what: str) -> dict[str, str]:
    return {item.id: item.reason for item in loaded.excluded if item.what == what}


def every_task(shop: FileShop) -> Iterator[str]:
    return (task.id for split in SPLITS for task in shop.tasks(split))


# -- ShopSimulator ---------------------------------------------------------------------------------------------------


def test_every_row_loads_or_is_listed_with_its_reason(loaded: Loaded) -> None:
    rows = json.loads(ROWS.read_text())
    listed = reasons(loaded, "row")
    assert len(loaded.catalogue.products) + len(listed) == len(rows)
    assert listed == {
        "10000007": "several axes set the price: 颜色, 功率",
        "10000008": "every attribute is blank",
        "10000010": "an earlier row has the same asin",
        "10000011": "no price can be read",
        "10000018": "options are a list, not an object of axes",
        "row 13": "the row has no asin",
        "row 14": "the row is no object",
    }
    instructions = sum(
        len(row["instructions"]) if isinstance(row["instructions"], list) else 1
        for row in rows
        if isinstance(row, dict)
        if isinstance(row, dict) and row.get("asin") in loaded.catalogue.by_id and "instructions" in row
    )
    assert len(loaded.tasks) + len(reasons(loaded, "task")) == instructions
    assert reasons(loaded, "task") == {
        "10000003-1": "the instruction is null or blank",
        "10000009": "every goal attribute is blank",
    }


def test_a_persona_task_shows_the_simple_request_and_scores_the_full_one(loaded: Loaded) -> None:
    task = task_of(loaded, "10000001")
    assert task.request == "想买个陶瓷马克杯,预算60元以内" and "雾蓝" in task.instruction
    assert task.goal.attributes == ("陶瓷", "哑光") and task.goal.budget == 60.0
    assert task.goal.options == {"颜色分类": "雾蓝|灰"}


def test_a_task_without_simple_request_or_without_persona_has_no_persona(loaded: Loaded) -> None:
    for task_id in ("10000005", "10000006"):
        task = task_of(loaded, task_id)
        assert task.persona is None and task.request == task.instruction
        assert task.features["persona"] == "False"


def test_the_budget_is_price_upper_else_the_instruction(loaded: Loaded) -> None:
    assert task_of(loaded, "10000003-2").goal.budget == 1300.0  # price_upper "1,300"; the text names no price
    assert task_of(loaded, "10000002").goal.budget == 286.0  # 260元左右
    assert task_of(loaded, "10000005").goal.budget is None  # 100元以上 is a lower bound


def test_of_two_budgets_the_one_in_the_visible_request_decides(tmp_path: Path, loaded: Loaded) -> None:
    task_id = next(task.id for task in loaded.tasks if task.persona is not None)
    with_two = lambda rows: [  # noqa: E731
        item.update(instruction="想买它，预算500元以内", instruction_simple="想买它，预算300元以内", price_upper=None)
        for row in rows
        if isinstance(row, dict)
        for item in row.get("instructions") or []
        if isinstance(item, dict) and item.get("instruction_simple")
    ]
    path = variation(tmp_path, with_two)
    changed = load_shopsimulator(path)
    assert task_of(changed, task_id).persona is not None and task_of(changed, task_id).goal.budget == 300.0
    assert any("names another budget" in note for note in map(str, changed.notes))


def test_an_unreadable_price_upper_excludes_the_task_and_zero_means_none(tmp_path: Path) -> None:
    path = variation(tmp_path, lambda rows: rows[2]["instructions"][1].update(price_upper="cheap"))
    assert reasons(load_shopsimulator(path), "task")["10000003-2"] == "price_upper='cheap' is no price"
    for nothing in (0, 0.0, "0", "0.00", -1, "-1"):
        path = variation(tmp_path, lambda rows, n=nothing: rows[2]["instructions"][1].update(price_upper=n))
        assert task_of(load_shopsimulator(path), "10000003-2").goal.budget is None, nothing
    path = variation(tmp_path, lambda rows: rows[2]["instructions"][1].update(price_upper="1"))
    assert task_of(load_shopsimulator(path), "10000003-2").goal.budget == 1.0


def test_oddities_of_the_release_survive(loaded: Loaded) -> None:
    products = loaded.catalogue.by_id
    assert products["10000002"].title == "?防水? 冲锋衣 男 三合一"
    assert products["10000002"].attributes == ("防水", "三合一")
    assert products["10000002"].category == ("服饰", "外套", "冲锋衣")
    assert products["10000003"].category == ("数码", "影音", "耳机")
    assert products["a1b2c3d4e5f6g7h8i9j0"].category == ("户外", "家具", "桌椅")
    assert products["10000002"].price_of({"尺码": "XL", "颜色": "黑色"}) == 259.0
    assert products["10000002"].price_of({"尺码": "L"}) == 229.0
    assert products["10000003"].price == 1299.0
    assert products["10000005"].axes == {} and products["10000003"].axes == {}
    assert [value.value for value in products["10000001"].axes["颜色分类"]] == ["米白", "墨绿", "雾蓝/灰"]


def test_a_value_that_stands_on_two_axes_stays_two_goals_and_two_actions(shop: FileShop) -> None:
    task = task_of(shop.loaded, "a1b2c3d4e5f6g7h8i9j0")
    assert task.goal.options == {"桌面": "黑色", "椅面": "黑色"}
    session = shop.open()
    session.reset(task.id)
    session.step(write_call("search", "query", "折叠 桌椅"))
    state = session.step(write_call("click", "value", task.id)).state
    choices = [action for action in state["actions"] if "=" in action]
    assert len(choices) == len(set(choices)) == 5 and "桌面=黑色" in choices and "椅面=黑色" in choices
    for action in ("桌面=黑色", "椅面=黑色", ":款式:=A=B"):
        assert session.step(write_call("click", "value", action)).feedback == "executed", action
    bought = session.step(write_call("click", "value", shop.strings.buy))
    assert bought.done and bought.parts["r_option"] == 1.0 and bought.parts["r_success"] == 1.0


def test_what_the_gold_product_cannot_fulfil_is_noted_and_every_other_task_is_solvable(shop: FileShop) -> None:
    noted = next(note for note in shop.loaded.notes if note.startswith("buying the gold product misses"))
    assert noted == "buying the gold product misses r_price, 1: 10000017"
    assert {task_id for task_id in every_task(shop) if not shop.solvable(task_id)} == {"10000017"}


def test_rules_that_change_a_value_are_noted(loaded: Loaded) -> None:
    assert "blank attributes among others were dropped, 1: 10000002" in loaded.notes
    assert any(note.startswith("a price range without a price per variant") for note in loaded.notes)
    assert any("without a task, 1: 10000010" in note for note in loaded.notes)


def test_tags_are_kept_and_a_linked_component_never_crosses_them(shop: FileShop) -> None:
    split_of = {task.id: task.split for split in SPLITS for task in shop.tasks(split)}
    tagged_train = {"10000002", "10000003-2", "10000005", "10000006"}
    assert {task_id for task_id, split in split_of.items() if split == "train"} == tagged_train
    # 10000015 is tagged train, but asks in the words of the eval row 10000016: both stand on the eval side.
    assert split_of["10000015"] == split_of["10000016"] != "train"
    for group in linked_components(shop.loaded.tasks):
        assert len({split_of[task.id] for task in group}) == 1


def test_the_eval_side_fills_four_roles_and_an_untagged_file_all_five(tmp_path: Path) -> None:
    def many(tag: str | None) -> Path:
        rows = [
            {"asin": f"{i:08d}", "title": f"杯{i}", "pricing": [9], "attribute": ["陶瓷"], "tag": tag,
             "instructions": [{"instruction": f"第{i}号陶瓷杯", "attributes": ["陶瓷"]}]}
            for i in range(100)
        ]  # fmt: skip
        return write(tmp_path / f"{tag}.json", rows)

    sizes = {tag: {s: len(shopsimulator(many(tag)).tasks(s)) for s in SPLITS} for tag in ("eval", "train", None)}
    assert sizes["eval"] == {"train": 0, "skill_validation": 44, "model_dev": 8, "audit": 8, "test": 40}
    assert (
        sizes["train"] == sizes[None] == {"train": 50, "skill_validation": 22, "model_dev": 4, "audit": 4, "test": 20}
    )


def test_splits_are_a_function_of_the_seed_and_not_of_the_order(loaded: Loaded) -> None:
    there = {task.id: task.split for task in tagged_splits(loaded.tasks, 5)}
    assert there == {task.id: task.split for task in tagged_splits(loaded.tasks, 5)}
    assert any(there != {t.id: t.split for t in tagged_splits(loaded.tasks, seed)} for seed in range(6, 12))


def test_json_lines_and_gzip_load_the_same_shop(tmp_path: Path, shop: FileShop) -> None:
    rows = json.loads(ROWS.read_text())
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "rows.jsonl").write_text(lines)
    (tmp_path / "rows.json.gz").write_bytes(gzip.compress(ROWS.read_bytes()))
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "with_mark.json").write_text(ROWS.read_text(), encoding="utf-8-sig")
    for name in ("rows.jsonl", "rows.json.gz", "rows.jsonl.gz", "with_mark.json"):
        assert shopsimulator(tmp_path / name).version == shop.version, name


# -- personas --------------------------------------------------------------------------------------------------------

PERSONA = {"年龄": "30, 上海", "偏好": {"颜色": ["藏青, 深色", "灰"], "品牌": "山岚, 或小众"}, "历史": ["a, b", "c"]}
PERSONA_TEXT = "年龄: 30, 上海\n偏好: 颜色: 藏青, 深色 | 灰; 品牌: 山岚, 或小众\n历史: a, b; c"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (PERSONA, PERSONA_TEXT),
        (json.dumps(PERSONA, ensure_ascii=False), PERSONA_TEXT),
        (str(PERSONA), PERSONA_TEXT),
        ("喜欢藏青, 深色\n\n 住在上海 ", "喜欢藏青, 深色\n住在上海"),
        ("__reasoning__: 选灰\n喜欢灰", "喜欢灰"),
        # a section inside another one stands on its own line
        ({"基本": {"年龄": 30, "偏好": {"颜色": "灰"}}}, "基本: 年龄: 30\n偏好: 颜色: 灰"),
        # the same section in two places is one section
        ({"偏好": {"颜色": "灰"}, "基本": {"偏好": {"品牌": "山岚"}}}, "偏好: 颜色: 灰; 品牌: 山岚"),
        # what explains the annotation tells the answer
        ({"__reasoning__": "选灰", "reason_key": "颜色", "偏好": {"_note": "x", "颜色": "灰"}}, "偏好: 颜色: 灰"),
        ({"历史": [{"商品": "杯", "价格": 20}, {"商品": "伞"}]}, "历史: 商品: 杯, 价格: 20; 商品: 伞"),
        ("{broken, 喜欢灰}", "{broken, 喜欢灰}"),
        ("{{'a': 1}, 喜欢灰}", "{{'a': 1}, 喜欢灰}"),
        ("{{'a': 1}}", "{{'a': 1}}"),
        *((nothing, None) for nothing in (None, {}, [], "", " ", "null", {"偏好": {}}, {"偏好": [" ", None]})),
    ],
)
def test_a_persona_is_read_in_each_of_its_written_forms(value: object, expected: str | None) -> None:
    assert persona_text(value) == expected


def test_a_persona_that_holds_only_the_reason_is_none() -> None:
    assert persona_text({"__reasoning__": "选灰"}) is None


@pytest.mark.parametrize("key", ["goal", "Reason_Key", "answer", "target_asin", "reasonKey", "Goal Options", "_why"])
def test_a_key_that_tells_the_answer_is_left_out_however_it_is_spelled(key: str) -> None:
    shown = {"hobby": "tea", key: "steel mug"}
    for value in (
        shown,
        json.dumps(shown),
        {"likes": shown},
        [shown],
        f"hobby: tea\n{key}: steel mug",
        f"hobby: tea\n {key}：steel mug",
    ):
        assert "tea" in (persona_text(value) or "") and "steel" not in (persona_text(value) or "")
    assert "steel" in (persona_text({"hobby": "tea", "material": "steel mug"}) or "")


# Rows in the shape of the public release, made up here: ids of 12 digits, a user id made of the wanted product's.


def release_row(asin: str, persona: Any, simple: str = "想买个马克杯") -> dict[str, Any]:
    wish = {"instruction": f"想买个{asin[-1]}号陶瓷马克杯", "instruction_simple": simple, "attributes": ["陶瓷"]}
    return {"asin": asin, "title": f"马克杯 {asin[-1]}", "pricing": [59], "attribute": ["陶瓷"], "tag": "eval",
            "instructions": [wish], "user_persona": persona}  # fmt: skip


@pytest.mark.parametrize("key", ["用户ID", "用户 id", "user id", "User_ID", "userId", "uid", "ID", "ＩＤ", "用户编号"])
def test_an_identifier_field_of_a_persona_never_reaches_the_policy(tmp_path: Path, key: str) -> None:
    one, two = "111111111111", "222222222222"
    forms: list[Any] = [
        {key: f"U{one}, ", "年龄": "30"},
        json.dumps({"年龄": "30", "基本": {key: f"U{one}"}}, ensure_ascii=False),
        f"年龄：30\n{key}：U{one}",
        f"年龄: 30, {key}: U{one}, 城市: 上海",
        [{key: "someone"}, {"年龄": "30"}],
    ]
    for form in forms:
        loaded = load_shopsimulator(write(tmp_path / "rows.json", [release_row(one, form), release_row(two, "喜欢灰")]))
        persona = task_of(loaded, one).persona or ""
        assert "30" in persona and not any(part in persona for part in (one, key, "U", "someone")), form
        assert f"identifier fields of the persona were dropped, 1: {one}" in loaded.notes
    assert (
        persona_text({"名称": "杯", "Size": "id card holder", "paid": 3}) == "名称: 杯\nSize: id card holder\npaid: 3"
    )


def test_product_ids_are_taken_out_of_personas_and_requests_with_one_are_excluded(tmp_path: Path) -> None:
    one, two, three = "111111111111", "222222222222", "333333333333"
    rows = [
        release_row(one, {"购买历史": f"买过U{two}和保温杯", "年龄": "30"}),
        release_row(two, "喜欢灰", simple=f"想买{three}那种杯子"),
        release_row(three, "看过３３３３３３３３３３３３, 喜欢灰"),
    ]
    loaded = load_shopsimulator(write(tmp_path / "rows.json", rows))
    assert task_of(loaded, one).persona == "购买历史: 买过和保温杯\n年龄: 30"
    assert task_of(loaded, three).persona == "看过, 喜欢灰"
    assert f"product ids were taken out of the persona, 2: {one}, {three}" in loaded.notes
    assert reasons(loaded, "task") == {two: "the request holds a product id"}


def test_a_webshop_instruction_with_a_product_id_is_excluded_and_counted(tmp_path: Path) -> None:
    items = [{"asin": f"B0{n}ABCDEFG", "name": f"mug {n}", "pricing": "$9", "Attributes": ["steel"]} for n in "123"]
    entries = {
        item["asin"]: {"attributes": ["steel"], "instruction": "find a steel mug", "instruction_attributes": ["steel"]}
        for item in items
    }
    entries["B02ABCDEFG"]["instruction"] = "find a steel mug like b01abcdefg"
    loaded = load_webshop(write(tmp_path / "items.json", items), write(tmp_path / "instructions.json", entries))
    assert reasons(loaded, "task") == {"B02ABCDEFG": "the request holds a product id"} and len(loaded.tasks) == 2


# -- fields ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (9, (9.0, 9.0)),
        ([9.5], (9.5, 9.5)),
        ([20, 10.5], (10.5, 20.0)),
        ("[10, 20]", (10.0, 20.0)),
        ("$19.99 to $29.99", (19.99, 29.99)),
        ("$1,234.50", (1234.5, 1234.5)),
        ("￥1,099.50 - 1,299", (1099.5, 1299.0)),
        *((nothing, None) for nothing in ("", None, [], 0, [0.0], "free", True, float("nan"), {"a": 1})),
    ],
)
def test_a_price_is_read_in_each_of_its_written_forms(value: object, expected: tuple[float, float] | None) -> None:
    assert prices_of(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("家居›杯具›马克杯", ("家居", "杯具", "马克杯")),
        ("Home > Kitchen > Mugs", ("Home", "Kitchen", "Mugs")),
        ("a/b/c", ("a", "b", "c")),
        ("a\\b\\c", ("a", "b", "c")),
        ("Hair › Wigs/Extensions › A>B", ("Hair", "Wigs/Extensions", "A>B")),
        (["a", " ", "b"], ("a", "b")),
        ("one", ("one",)),
        ("", ()),
        (None, ()),
    ],
)
def test_a_category_is_split_at_one_separator(value: object, expected: tuple[str, ...]) -> None:
    assert category_of(value) == expected


def test_texts_are_read_from_lists_texts_and_written_lists() -> None:
    assert texts_of(["a, b", " ", None, "null", 3]) == ("a, b", "3")
    assert texts_of("['a', 'b']") == texts_of('["a", "b"]') == ("a", "b")
    assert texts_of("a, b") == ("a, b",) and texts_of(None) == ()
    assert text_of({"name": "材质", "value": "棉"}) == "材质 棉"


def test_axes_are_read_in_each_of_their_written_forms() -> None:
    assert axes_of("") == axes_of({}) == axes_of(None) == axes_of({"Color": None, "Size": []}) == {}
    assert axes_of({"a=b": ["x", "x", " "]}) == {"a:b": {"x": None}}
    assert axes_of({"s": {"M": 10, "L": "¥12"}}) == {"s": {"M": 10.0, "L": 12.0}}
    assert axes_of({"s": [{"value": "M", "price": 0, "price_string": "$9.90"}]}) == {"s": {"M": 9.9}}
    assert axes_of({"s": [{"value": "M"}, {"value": "M", "price": 3}, {"value": "M", "price": 4}]}) == {"s": {"M": 3.0}}
    assert axes_of(json.dumps({"s": ["M"]})) == {"s": {"M": None}}
    with pytest.raises(UnusableError, match="options are a list"):
        axes_of(["a"])


def test_one_axis_at_most_varies_the_price() -> None:
    size = {"S": 10.0, "L": 20.0}
    axes, base = variants({"size": size, "color": {"a": 15.0, "b": 15.0}}, (10.0, 20.0))
    assert base == 10.0 and [v.price for v in axes["size"]] == [10.0, 20.0]
    assert [v.price for v in axes["color"]] == [None, None]  # one price on every value varies nothing
    axes, base = variants({"color": {"a": 15.0, "b": 15.0}}, (10.0, 20.0))
    assert base == 15.0 and [v.price for v in axes["color"]] == [None, None]
    assert variants({"size": size}, None)[1] == 10.0
    assert variants({"size": {"S": 10.0, "L": 20.0, "XL": None}}, (10.0, 30.0))[1] == 30.0
    for bad in ({"size": size, "power": {"a": 1.0, "b": 2.0}}, {"a": {"x": 1.0}, "b": {"y": 2.0}}):
        with pytest.raises(UnusableError, match="several axes"):
            variants(bad, (1.0, 2.0))  # type: ignore[arg-type]
    with pytest.raises(UnusableError, match="no price"):
        variants({"size": {"S": 1.0, "L": None}}, None)


# -- WebShop ---------------------------------------------------------------------------------------------------------


def test_webshop_rows_load_or_are_listed() -> None:
    loaded = load_webshop(ITEMS, INSTRUCTIONS)
    assert len(loaded.catalogue.products) + len(reasons(loaded, "row")) == len(ITEMS.read_text().splitlines())
    assert reasons(loaded, "row") == {
        "row 5": "the row has no asin",
        "B000000001": "an earlier row has the same asin",
        "B000000005": "the name is blank",
    }
    assert reasons(loaded, "task") == {
        "B000000002": "the instruction is null or blank",
        "B000000099": "its product is not among the items",
    }
    assert [task.id for task in loaded.tasks] == ["B000000001", "B000000003"]
    products = loaded.catalogue.by_id
    assert products["B000000001"].price == 24.99 and products["B000000002"].price == 1234.5
    assert products["B000000003"].price == 100.0 and any("read as 100" in note for note in loaded.notes)
    assert products["B000000001"].query == "women's dresses" and products["B000000003"].category == ("garden",)
    assert [v.value for v in products["B000000001"].axes["color"]] == ["navy/white", "red"]
    assert all(v.price is None for p in products.values() for values in p.axes.values() for v in values)


def test_a_webshop_budget_is_one_of_the_next_tens_and_stands_in_the_instruction() -> None:
    drawn = set()
    for seed in range(30):
        task = load_webshop(ITEMS, INSTRUCTIONS, seed=seed).tasks[0]  # 24.99: the tens above are 30, 40, 50, 60
        drawn.add(task.goal.budget)
        assert budget_of(task.instruction) == (task.goal.budget, True)
    assert drawn == {40.0, 50.0, 60.0}  # the larger of two
    plain = load_webshop(ITEMS, INSTRUCTIONS, budgets=False).tasks[0]
    assert plain.goal.budget is None and plain.instruction.endswith("for daily wear")


def test_human_instructions_replace_the_written_ones_and_name_options() -> None:
    shop = webshop(ITEMS, INSTRUCTIONS, HUMAN)
    tasks = {task.id: task for task in shop.loaded.tasks}
    assert tasks["B000000001-1"].goal.options == {"size": "x-large", "color": "navy | white"}
    assert tasks["B000000004-1"].goal.options == {"size": "15 oz"}
    assert reasons(shop.loaded, "task") == {"B000000001-2": "every goal attribute is blank"}
    assert all(shop.solvable(task_id) for task_id in every_task(shop))
    # the twin: without the wanted size the purchase is not full
    parts = shop.score("B000000001-1", "B000000001", {"size": "small", "color": "navy/white"})
    assert parts["r_option"] == 0.5 and parts["r_success"] == 0.0


@pytest.mark.skipif(not REAL_ITEMS.exists(), reason=f"{REAL_ITEMS} is not here: real WebShop files are not shipped")
def test_all_hundred_real_products_load_and_each_of_the_44_instructions_is_solvable() -> None:
    shop = webshop(REAL_ITEMS, REAL_INSTRUCTIONS)
    rows = [json.loads(line) for line in REAL_ITEMS.read_text().splitlines()]
    entries = json.loads(REAL_INSTRUCTIONS.read_text())
    wanted = {key for key, entry in entries.items() if "instruction" in entry}
    assert set(shop.catalogue.by_id) == {row["id"] for row in rows} and len(rows) == 100
    tasks = set(every_task(shop))
    assert tasks == wanted & set(shop.catalogue.by_id) and len(tasks) == 44
    assert reasons(shop.loaded, "row") == {}
    assert set(reasons(shop.loaded, "task")) == wanted - tasks
    assert all(shop.solvable(task_id) for task_id in tasks)
    assert not any(note.startswith("buying the gold") for note in shop.loaded.notes)
    # the twin: a product of another shelf is no success
    other = next(p for p in shop.catalogue.products if p.category[0] == "Video Games")
    assert all(shop.score(task_id, other.id, {})["r_success"] == 0.0 for task_id in tasks if task_id != other.id)


# -- factories -------------------------------------------------------------------------------------------------------


def test_a_config_line_plugs_a_file_in() -> None:
    config = Config()
    config.env.name = "intraskill.environments.shop_files:shopsimulator"
    config.env.options = {"path": str(ROWS), "page_size": 2, "renderer": "sep"}
    shop = environment_of(config)
    assert isinstance(shop, FileShop) and shop.settings.page_size == 2 and shop.settings.language == "zh"
    config.env.options = {"path": str(ROWS), "pagesize": 2}
    with pytest.raises(ConfigError, match=r"unknown env.options, pagesize; .* page_size"):
        environment_of(config)
    config.env.options = {}
    with pytest.raises(ConfigError, match="env.options do not fit .*path"):
        environment_of(config)


def test_settings_are_checked_and_kept() -> None:
    assert webshop(ITEMS, INSTRUCTIONS).settings.reward == "webshop"
    with pytest.raises(ConfigError, match="unknown renderer"):
        webshop(ITEMS, INSTRUCTIONS, renderer="html")
    with pytest.raises(ConfigError, match="wrong type"):
        shopsimulator(ROWS, page_size="many")


# -- bad input -------------------------------------------------------------------------------------------------------


def write(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return path


def variation(directory: Path, change: Callable[[list[Any]], object]) -> Path:
    rows = json.loads(ROWS.read_text())
    change(rows)
    return write(directory / "variation.json", rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("[]", "empty list"),
        (ROWS.read_text()[:900], "truncated or no JSON"),
        ('{"asin": "1", "title": "a"}\n{"asin": ', "broken in line 2 of 2"),
        ("no json at all", "truncated or no JSON"),
        ('{\n "a": {"attributes": []}\n}', "one JSON object with 1 keys .a.*not a list of rows"),
        ('"a text"', "a JSON str, not a list of rows"),
        (INSTRUCTIONS.read_text(), "one JSON object with 5 keys"),
        (ITEMS.read_text(), "no ShopSimulator file.*webshop"),
        ("[1, 2]", "no ShopSimulator file.*rows are no objects"),
        (b"\xff\xfe\x00bad", "not UTF-8"),
        (gzip.compress(ROWS.read_bytes())[:400], "truncated or corrupt gzip"),
        (gzip.compress(ROWS.read_bytes())[:-8] + b"\0" * 8, "cannot be read .CRC check failed"),
        ([{"asin": "1", "title": "a", "pricing": 1, "attribute": ["x"]}], "1 usable product and no usable task"),
        (
            [{"asin": "1", "title": "a", "pricing": 1, "attribute": ["x"], "instructions": [{"instruction": None}]}],
            "no usable task: the instruction is null or blank .1: 1",
        ),
    ],
)
def test_a_bad_file_is_one_clear_error(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "rows.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        write(path, content)
    with pytest.raises(ConfigError, match=message) as error:
        shopsimulator(path)
    assert str(path) in str(error.value)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(ConfigError, match=f"path={path} cannot be read"):
            load_shopsimulator(path)


def test_each_webshop_file_in_the_place_of_another_is_named() -> None:
    with pytest.raises(ConfigError, match=r"items=.* is no WebShop items file.*shopsimulator"):
        load_webshop(ROWS, INSTRUCTIONS)
    with pytest.raises(ConfigError, match=r"instructions=.*is it the file for human="):
        load_webshop(ITEMS, HUMAN)
    with pytest.raises(ConfigError, match=r"human=.*is it the file for instructions="):
        load_webshop(ITEMS, INSTRUCTIONS, INSTRUCTIONS)
    with pytest.raises(ConfigError, match=r"instructions=.* truncated or no JSON"):
        load_webshop(INSTRUCTIONS, ITEMS)
    with pytest.raises(ConfigError, match="not a list of rows"):
        load_webshop(INSTRUCTIONS, INSTRUCTIONS)


JUNK: list[Any] = [
    *(None, "", 0, -1, float("nan"), True, "x", "$", "[1", "{'a':1}", '["a"]', "›››", "a=b", "预算", "-5元"),
    *(
        [],
        {},
        [[]],
        [{}],
        [None],
        {"a": None},
        {"a": [{"value": None}]},
        [{"value": "v", "price": "$3"}],
        {"": ["", "x"]},
    ),
]


def spoiled(value: Any, draw: random.Random) -> Any:
    """Return the value with junk in the place of one thing inside it."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        return value | {key: spoiled(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.9:
        at = draw.randrange(len(value))
        return [*value[:at], spoiled(value[at], draw), *value[at + 1 :]]
    return draw.choice(JUNK)


@pytest.mark.parametrize("kind", ["shopsimulator", "webshop"])
def test_junk_in_any_field_neither_breaks_a_loader_nor_loses_a_row(tmp_path: Path, kind: str) -> None:
    rows, entries = json.loads(ROWS.read_text()), json.loads(INSTRUCTIONS.read_text())
    if kind == "webshop":
        rows = [json.loads(line) for line in ITEMS.read_text().splitlines()]
    counted = 0
    for seed in range(150):
        draw, some, other = random.Random(seed), rows, entries
        for _ in range(6):
            some, other = spoiled(some, draw), spoiled(other, draw)
        path, instructions = write(tmp_path / "rows.json", some), write(tmp_path / "instructions.json", other)
        try:
            loaded = load_shopsimulator(path) if kind == "shopsimulator" else load_webshop(path, instructions)
        except (ConfigError, SplitError):
            continue
        counted += 1
        assert len(loaded.catalogue.products) + len([item for item in loaded.excluded if item.what == "row"]) == len(
            some
        )
    assert counted > 30


def test_an_id_tagged_eval_and_train_is_refused(tmp_path: Path) -> None:
    path = variation(tmp_path, lambda rows: rows[11].update(tag="eval"))
    with pytest.raises(SplitError, match="eval and as train, 1: 10000010"):
        load_shopsimulator(path)


def test_personas_are_read_without_anything_else_of_a_shop() -> None:
    code = "import sys, intraskill.environments.persona; print([n for n in sys.modules if 'shop' in n])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
