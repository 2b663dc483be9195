"""The words of the shop's own pages and buttons, one table per language."""

from collections.abc import Mapping
from dataclasses import dataclass

from intraskill.method.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Strings:
    """Buttons, messages and labels of one language.

    Attributes:
        next: button to the following page of results.
        prev: button to the page before.
        back: button to the search page.
        attributes: button to the page of attributes.
        buy: button that buys.
        messages: feedback code → one sentence to the policy.
        labels: name of a part of a page → its label.
        separator: what stands between the values of a list.
    """

    next: str
    prev: str
    back: str
    attributes: str
    buy: str
    messages: Mapping[str, str]
    labels: Mapping[str, str]
    separator: str = ", "


_ENGLISH_MESSAGES = {
    "executed": "done",
    "invalid_format": "reply with exactly one tool call",
    "multiple_actions_not_allowed": "one tool call per turn",
    "empty_argument": "the argument is empty",
    "search_unavailable": "go back to search first",
    "already_selected": "this value is already selected",
    "incomplete_options": "choose every option before buying",
    "unavailable_action": "this page has no such action",
    "unsendable_action": "the shop cannot be told this value",
}
_CHINESE_MESSAGES = {
    "executed": "已执行",
    "invalid_format": "请只回复一个工具调用",
    "multiple_actions_not_allowed": "每轮只能调用一个工具",
    "empty_argument": "参数为空",
    "search_unavailable": "请先返回搜索页",
    "already_selected": "该规格值已选中",
    "incomplete_options": "购买前请选好所有规格",
    "unavailable_action": "当前页面没有这个操作",
    "unsendable_action": "商店无法接收这个值",
}
_ENGLISH_LABELS = {
    "home": "Search page",
    "results": "Results",
    "query": "query",
    "page": "page",
    "found": "found",
    "nothing": "nothing found",
    "price": "Price",
    "brand": "Brand",
    "category": "Category",
    "features": "Features",
    "details": "Details",
    "options": "Options",
    "chosen": "Chosen",
    "missing": "To choose",
    "none": "none",
    "attributes": "Attributes",
    "end": "The end",
    "buttons": "Buttons",
    "search_available": "Search available",
    "currency": "$",
    "notice": "Notice",
}
_CHINESE_LABELS = {
    "home": "搜索页",
    "results": "搜索结果",
    "query": "搜索词",
    "page": "页码",
    "found": "商品数",
    "nothing": "没有找到商品",
    "price": "价格",
    "brand": "品牌",
    "category": "类目",
    "features": "特点",
    "details": "详情",
    "options": "规格",
    "chosen": "已选",
    "missing": "待选",
    "none": "无",
    "attributes": "商品属性",
    "end": "结束",
    "buttons": "可点击的按钮",
    "search_available": "搜索功能是否可用",
    "currency": "¥",
    "notice": "提示",
}
_ENGLISH = Strings("next >", "< prev", "back to search", "attributes", "buy now", _ENGLISH_MESSAGES, _ENGLISH_LABELS)
_CHINESE = Strings("下一页 >", "< 上一页", "返回搜索", "属性", "立即购买", _CHINESE_MESSAGES, _CHINESE_LABELS, "、")

STRINGS: dict[str, Strings] = {"plain": _ENGLISH, "en": _ENGLISH, "zh": _CHINESE}


def strings_of(language: str) -> Strings:
    """Return the table of one language.

    Raises:
        ConfigError: for a language that the shop does not speak.
    """
    if language not in STRINGS:
        raise ConfigError(f"unknown language {language!r}; choose one of {', '.join(STRINGS)}")
    return STRINGS[language]
