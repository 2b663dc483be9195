"""The budget that a request states, in English or Chinese words.

A range gives its upper end, "about" (左右, 大约 …) gives × 1.1, a lower bound alone (over, 以上 …) is no budget.
A number is money only beside a sign of it: a currency, a price word, or an upper bound at the end of a clause.
Without that rule "size 10-12" or "500毫升" would be a budget.
"""

import math
import re
import unicodedata
from collections.abc import Iterator

ABOUT_FACTOR = 1.1
_COMMAS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

# -- English ---------------------------------------------------------------------------------------------------------
_NUMBER = r"[$£€]?\s*(\d+(?:\.\d+)?)"
_RANGES = (
    re.compile(rf"between\s+{_NUMBER}\s*(?:dollars|usd)?\s*(?:to|and|-|–)\s*{_NUMBER}"),
    re.compile(rf"{_NUMBER}\s*(?:dollars|usd)?\s*(?:to|-|–|~)\s*{_NUMBER}"),
)
_ABOUT = re.compile(rf"(?:about|around|roughly|approximately)\s+{_NUMBER}")
_UPPER = re.compile(
    r"(?:under|below|at most|up to|no more than|within|less than|lower than|cheaper than|not exceeding)\s+" + _NUMBER
)
_PLAIN = re.compile(rf"(?:budget|price|cost)\s*(?:is|of|:)*\s*{_NUMBER}|{_NUMBER}\s*(?:dollars\s*)?or (?:less|under)")
_LOWER = re.compile(rf"(?:over|above|at least|more than)\s+{_NUMBER}")
_STATED = re.compile(r"\$|budget|price")
_SIGN = re.compile(r"[$£€]")
_CURRENCY_AFTER = re.compile(r"\s*(?:dollars?|usd|bucks|euros?|pounds? sterling)\b")
_PRICE_BEFORE = re.compile(r"\b(?:price[ds]?|budget|costs?|spend|pay)\b[^,;.!?]*$")
_CLAUSE_END = re.compile(r"\s*(?:[,;.!?](?!\d)|$)")

# -- Chinese ---------------------------------------------------------------------------------------------------------
_HAN = re.compile(r"[\u3400-\u9fff]")
_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "k": 1000}
_AMOUNT = r"(\d+(?:\.\d+)?\s*[k万千百]?|[零〇一二两三四五六七八九十百千万]+)"
# 块 also counts pieces (3块毛巾), so it is money only where nothing countable follows.
_YUAN = r"(?:元|圆|rmb|人民币|块钱|块(?=$|[,.。!?;、\s以之内左上附的多吧就到至~—–-]))"
_CONTEXT = r"(?:预算|价格|售价|价位|价钱|心理价)"
_BOUND = r"(?:不超过|别超过|不要超过|不高于|低于|少于|小于|最多|控制在|不到)"
_CHINESE_RANGE = re.compile(
    rf"(?P<context>{_CONTEXT}[^,。!?;\d]{{0,8}}?)?¥?{_AMOUNT}\s*(?P<a>{_YUAN})?\s*(?:-|—|–|~|至|到)+"
    rf"\s*¥?{_AMOUNT}\s*(?P<b>{_YUAN})?"
)
_MONEY = re.compile(
    rf"(?P<context>{_CONTEXT}[^,。!?;\d]{{0,8}}?)?(?P<yen>¥)?{_AMOUNT}(?P<more>多|来)?\s*(?P<unit>{_YUAN})?"
    r"\s*(?P<suffix>以内|以下|之内|内|左右|上下|附近|以上|往上|起|\+)?"
)
_ABOUT_BEFORE = re.compile(r"(?:大概|大约|约|差不多)[^,。!?;\d]{0,4}$")
_BOUND_BEFORE = re.compile(rf"{_BOUND}[^,。!?;\d]{{0,4}}$")
_LOWER_BEFORE = re.compile(r"(?:不低于|不少于|至少|高于|(?<!不)(?<!别)(?<!要)超过)[^,。!?;\d]{0,4}$")


def budget_of(instruction: str) -> tuple[float | None, bool]:
    """Read the upper price from an instruction.

    Returns:
        The upper price in currency units, or ``None``; and whether any budget is stated, readable or not.
    """
    text = " ".join(unicodedata.normalize("NFKC", instruction).casefold().split())
    text = _COMMAS.sub("", text)
    if _HAN.search(text):
        found = _chinese(text)
        if found[1]:
            return found
    return _english(text)


def _english(text: str) -> tuple[float | None, bool]:
    for pattern in _RANGES:
        for found in pattern.finditer(text):
            if float(found[2]) >= float(found[1]) and _is_money(found, text):
                return float(found[2]), True
    for found in _ABOUT.finditer(text):
        if _is_money(found, text):
            return round(float(found[1]) * ABOUT_FACTOR, 2), True
    for found in _UPPER.finditer(text):
        if _is_money(found, text) or _CLAUSE_END.match(text, found.end()):
            return float(found[1]), True
    for found in _PLAIN.finditer(text):
        if found[1] or _is_money(found, text):
            return float(found[1] or found[2]), True
    return None, bool(_STATED.search(text)) and not _LOWER.search(text)


def _is_money(found: re.Match[str], text: str) -> bool:
    """A currency sign in the match, a currency word behind it, or a price word before it in the same clause."""
    return bool(
        _SIGN.search(found[0])
        or _CURRENCY_AFTER.match(text, found.end())
        or _PRICE_BEFORE.search(text[: found.start()])
    )


def _chinese(text: str) -> tuple[float | None, bool]:
    uppers = [_amount(m[4]) for m in _CHINESE_RANGE.finditer(text) if m["context"] or m["a"] or m["b"]]
    if uppers:
        return uppers[-1], True
    mentions = list(_mentions(text))
    if uppers := [upper for upper in mentions if upper is not None]:
        return uppers[-1], True
    return None, "预算" in text and not mentions


def _mentions(text: str) -> Iterator[float | None]:
    """Every amount of money in the text as an upper price; ``None`` for a lower bound."""
    for found in _MONEY.finditer(text):
        before, suffix = text[: found.start(3)], found["suffix"] or ""
        bounded = suffix in ("以内", "以下", "之内")
        if not (found["unit"] or found["yen"] or bounded or (found["context"] and _ends(text, found))):
            continue
        if suffix in ("以上", "往上", "起", "+") or _LOWER_BEFORE.search(before):
            yield None
        elif found["more"]:
            yield _next_step(_amount(found[3]))
        elif suffix in ("左右", "上下", "附近") or (_ABOUT_BEFORE.search(before) and not _BOUND_BEFORE.search(before)):
            yield round(_amount(found[3]) * ABOUT_FACTOR, 2)
        else:
            yield _amount(found[3])


def _ends(text: str, found: re.Match[str]) -> bool:
    """Whether an amount without currency stands free: 价格300的 is money, 价格便宜的3米线 is not."""
    following = text[found.end() : found.end() + 1]
    return bool(found["suffix"]) or found[0].endswith(" ") or following in ("", *",。!?;、 的吧")


def _next_step(amount: float) -> float:
    """300多 is less than 400, 30多 less than 40."""
    step = 10.0 ** max(1, int(math.log10(max(amount, 1))))
    return (amount // step + 1) * step


def _amount(written: str) -> float:
    """Read 300, 3.5k, 2千, 三百五, 一千零五十; a trailing digit takes the next lower place (三百五 = 350)."""
    written = written.strip()
    if written[0].isascii():
        unit = _UNITS.get(written[-1], 1)
        return float(written.rstrip("k万千百").strip()) * unit
    total, section, digit, place = 0.0, 0.0, None, 1.0
    for char in written:
        if char in _DIGITS:
            digit = float(_DIGITS[char])
            place = 1.0 if char in "零〇" else place
            continue
        unit = _UNITS[char]
        if unit == 10_000:
            total, section = (total + section + (digit or 0)) * unit, 0.0
        else:
            section += (1 if digit is None else digit) * unit
        digit, place = None, unit / 10
    return total + section + (digit or 0) * place
