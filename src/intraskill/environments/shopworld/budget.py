"""The budget that a request states, in English or Chinese words.

A range gives its upper end, "about" (左右, 大约, 出头 …) gives × 1.1, a lower bound alone (over, 以上 …) is no budget.
A number is money only beside a sign of it: a currency, a price word, or an upper bound at the end of a clause.
Without that rule "size 10-12" or "500毫升" would be a budget. Of several amounts the surest counts: beside a price
word, then with a currency, then with a bound; of equally sure ones the largest.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ABOUT_FACTOR = 1.1
_LEAST_BARE = 10.0
"""The least that a bare bound (以内), or a bare 块, which counts pieces too, makes money of."""
_COMMAS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class _Mention:
    """An amount of money: how sure (price word, currency, bound), and its upper price; ``None`` for a lower bound."""

    sure: tuple[bool, bool, bool]
    upper: float | None


# -- English ---------------------------------------------------------------------------------------------------------
_NUMBER = r"[$£€]?\s*(\d+(?:\.\d+)?(?:\s?k\b)?)"
_RANGES = (
    re.compile(rf"between\s+{_NUMBER}\s*(?:dollars|usd)?\s*(?:to|and|-|–)\s*{_NUMBER}"),
    re.compile(rf"{_NUMBER}\s*(?:dollars|usd)?\s*(?:to|-|–|~)\s*{_NUMBER}"),
)
_ABOUT = re.compile(rf"(?:about|around|roughly|approximately)\s+{_NUMBER}")
_BOUND_WORDS = (
    r"(?:under|below|at most|up to|no more than|not more than|not over|within|less than|lower than|cheaper than"
    r"|not exceeding|max(?:imum)?(?: of)?)"
)
_UPPER = re.compile(rf"\b{_BOUND_WORDS}\s+{_NUMBER}")
_PLAIN = re.compile(
    rf"(?:budget|price|cost)\s*(?:is|of|:)*\s*{_NUMBER}"
    rf"|{_NUMBER}\s*(?:dollars\s*)?(?:or (?:less|under)|max(?:imum)?\b|at most\b|tops\b)"
)
_LOWER = re.compile(rf"(?:over|above|at least|more than)\s+{_NUMBER}")
_STATED = re.compile(rf"\$|budget|price|\b{_BOUND_WORDS}\s[a-z\s-]{{1,40}}\b(?:dollars|bucks|euros)\b")
_SIGN = re.compile(r"[$£€]")
_CURRENCY = r"(?:dollars?|usd|bucks|euros?|pounds? sterling)\b"
_CURRENCY_WORD = re.compile(rf"\b{_CURRENCY}")
_CURRENCY_AFTER = re.compile(rf"\s*{_CURRENCY}")
_PRICE_BEFORE = re.compile(r"\b(?:price[ds]?|budget|costs?|spend|pay)\b[^,;.!?]*$")
_CLAUSE_END = re.compile(r"\s*(?:[,;.!?](?!\d)|$)")
_SMALL = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORD_VALUES = {word: float(n) for n, word in enumerate(f"{_SMALL} eighteen nineteen".split(), start=1)} | {
    word: 10.0 * n for n, word in enumerate(_TENS.split(), start=2)
}
_WORD = rf"(?:{'|'.join((*_WORD_VALUES, 'hundred', 'thousand'))})"
_WRITTEN = re.compile(rf"\b(?:a\s+)?({_WORD}(?:[\s-]+(?:and\s+)?{_WORD})*)(?=\s+{_CURRENCY})")

# -- Chinese ---------------------------------------------------------------------------------------------------------
_HAN = re.compile(r"[\u3400-\u9fff]")
_DIGITS = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "k": 1000}
# 1万2 is 12,000 and 3千5 is 3,500; the digit behind is no count of its own (1万2件).
_AMOUNT = (
    r"(\d+(?:\.\d+)?\s*(?:[万千百]\d(?![\d.]|\s*[件个张台双只支片瓶])|[k万千百])?"
    r"|[零〇一二两三四五六七八九十百千万]+)"
)
# 块 also counts pieces (3块毛巾), so it is money only where nothing countable follows.
_YUAN = r"(?:元|圆|rmb|人民币|块钱|块(?=$|[,.。!?;、\s以之内左上附的多吧就到至出应差~—–-]))"
_CONTEXT = r"(?:预算|价格|售价|价位|价钱|心理价|费用|花费|开销)"
_AFTER = r"(?P<after>\s*(?:这个|这样的|这种|之间的|的)(?:价位|价格|价钱|预算))"
_NEAR = r"[^,。!?;\d]"
_CHINESE_RANGE = re.compile(
    rf"(?P<context>{_CONTEXT}{_NEAR}{{0,8}}?)?¥?{_AMOUNT}\s*(?P<a>{_YUAN})?\s*(?:(?:-|—|–|~|至|到)+|(?P<and>[和与跟]))"
    rf"\s*¥?{_AMOUNT}\s*(?P<b>{_YUAN})?(?P<between>\s*之间)?(?:{_AFTER})?"
)
_MONEY = re.compile(
    rf"(?P<context>{_CONTEXT}{_NEAR}{{0,8}}?)?(?P<yen>¥)?{_AMOUNT}(?P<more>多|来|几)?\s*(?P<unit>{_YUAN})?"
    r"\s*(?P<suffix>以内|以下|之内|内|左右|上下|附近|出头|(?:应该|大概)?差不多|以上|往上|起|\+)?"
    rf"(?:{_AFTER})?"
)
_VAGUE = re.compile(rf"(?<![十百千万])[几数][十百千万]+[多来]?\s*{_YUAN}|{_CONTEXT}{_NEAR}{{0,8}}?[几数][十百千万]+")
_ABOUT_BEFORE = re.compile(rf"(?:大概|大约|约|差不多){_NEAR}{{0,4}}$")
_BOUND_BEFORE = re.compile(
    r"(?:(?P<least>不低于|不少于|不小于|至少|最少|起码)"
    r"|(?P<most>[不别](?:要|能|可以|可|会|想|得)?超过|不高于|不大于|不多于|低于|少于|小于|最多|至多|顶多|控制在|不到)"
    rf"|(?P<more>高于|大于|多于|超过)){_NEAR}{{0,4}}$"
)
_MEASURE_BEFORE = re.compile(
    r"(?:[长宽高厚深]度|身高|体重|[重容电流]量|净重|尺[寸码]|[直半]径|功率|转速|温度|度数|年龄|[胸腰臀]围|[长宽厚重])"
    rf"(?:{_NEAR}{{0,2}}|{_NEAR}*(?:超过|[高大多低少小]于|最多|至多|顶多|控制在|不到){_NEAR}{{0,4}})$"
)


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


def _surest(mentions: Iterable[_Mention]) -> float | None:
    """Return the largest upper price of the surest mentions; ``None`` where those are lower bounds, or none."""
    found = list(mentions)
    best = max((mention.sure for mention in found), default=None)
    return max((m.upper for m in found if m.sure == best and m.upper is not None), default=None)


def _english(text: str) -> tuple[float | None, bool]:
    text = _WRITTEN.sub(lambda found: f"{_value(found[1]):g}", text)
    upper = _surest(_english_mentions(text))
    return upper, upper is not None or (bool(_STATED.search(text)) and not _LOWER.search(text))


def _english_mentions(text: str) -> Iterator[_Mention]:
    for pattern in _RANGES:
        for found in pattern.finditer(text):
            if _figure(found[2]) >= _figure(found[1]) and any(_money(found, text)):
                yield _Mention((*_money(found, text), True), _figure(found[2]))
    for found in _ABOUT.finditer(text):
        if any(_money(found, text)):
            yield _Mention((*_money(found, text), True), round(_figure(found[1]) * ABOUT_FACTOR, 2))
    for found in _UPPER.finditer(text):
        if any(_money(found, text)) or _CLAUSE_END.match(text, found.end()):
            yield _Mention((*_money(found, text), True), _figure(found[1]))
    for found in _PLAIN.finditer(text):
        priced, currency = _money(found, text)
        if found[1] or priced or currency:
            yield _Mention((priced or bool(found[1]), currency, bool(found[2])), _figure(found[1] or found[2]))


def _money(found: re.Match[str], text: str) -> tuple[bool, bool]:
    """A price word before the match in the same clause; a currency sign in it, or a currency word in or behind it."""
    currency = _SIGN.search(found[0]) or _CURRENCY_WORD.search(found[0]) or _CURRENCY_AFTER.match(text, found.end())
    return bool(_PRICE_BEFORE.search(text[: found.start()])), bool(currency)


def _figure(written: str) -> float:
    return float(written.rstrip("k ")) * (1000 if written.endswith("k") else 1)


def _value(words: str) -> float:
    """Read forty, forty-five, a hundred and twenty, two thousand."""
    total, section = 0.0, 0.0
    for word in re.findall("[a-z]+", words):
        if word == "thousand":
            total, section = total + (section or 1) * 1000, 0.0
        elif word == "hundred":
            section = (section or 1) * 100
        else:
            section += _WORD_VALUES.get(word, 0.0)
    return total + section


def _chinese(text: str) -> tuple[float | None, bool]:
    certain = _VAGUE.sub(" ", text)
    mentions = [*_chinese_ranges(certain), *_mentions(certain)]
    upper = _surest(mentions)
    return upper, upper is not None or (not mentions and ("预算" in text or certain != text))


def _chinese_ranges(text: str) -> Iterator[_Mention]:
    for found in _CHINESE_RANGE.finditer(text):
        currency, priced = bool(found["a"] or found["b"]), bool(found["context"] or found["after"])
        if (priced or currency) and bool(found["and"]) <= bool(found["between"]):
            yield _Mention((priced, currency, True), _amount(found[5]))


def _mentions(text: str) -> Iterator[_Mention]:
    """Every single amount of money in the text."""
    for found in _MONEY.finditer(text):
        before, suffix, amount = text[: found.start(3)], found["suffix"] or "", _amount(found[3])
        bound = _BOUND_BEFORE.search(before)
        most = bool(bound and bound["most"])
        bounded = most or suffix in ("以内", "以下", "之内")
        if not _is_chinese_money(text, found, bounded, most):
            continue
        about = suffix.endswith(("左右", "上下", "附近", "出头", "差不多")) or found["more"] == "来"
        sure = (
            bool(found["context"] or found["after"]),
            bool(found["unit"] or found["yen"]),
            bool(bounded or suffix or about or bound),
        )
        if suffix in ("以上", "往上", "起", "+") or (bound and not most):
            yield _Mention(sure, None)
        elif found["more"] in ("多", "几"):
            yield _Mention(sure, _next_step(amount))
        elif about or (_ABOUT_BEFORE.search(before) and not most):
            yield _Mention(sure, round(amount * ABOUT_FACTOR, 2))
        else:
            yield _Mention(sure, amount)


def _is_chinese_money(text: str, found: re.Match[str], bounded: bool, most: bool) -> bool:
    unit, amount = found["unit"] or "", _amount(found[3])
    if found["yen"] or (found["after"] and not _MEASURE_BEFORE.search(text[: found.start(3)])):
        return True
    if found["context"] and (unit or bounded or _ends(text, found)):
        return True
    if unit:
        return unit != "块" or bounded or amount >= _LEAST_BARE
    if not bounded or amount < _LEAST_BARE or _MEASURE_BEFORE.search(text[: found.start(3)]):
        return False
    return not most or bool(found["suffix"]) or _ends(text, found, spaces=False)


def _ends(text: str, found: re.Match[str], spaces: bool = True) -> bool:
    """Whether an amount without currency stands free: 价格300的 is money, 价格便宜的3米线 is not."""
    following = text[found.end() : found.end() + 1]
    free = bool(found["suffix"]) or following in ("", *",。!?;、的吧")
    return free or (spaces and (found[0].endswith(" ") or following == " "))


def _next_step(amount: float) -> float:
    """300多 is less than 400, 30多 and 三十几 less than 40."""
    step = 10.0 ** max(1, int(math.log10(max(amount, 1))))
    return (amount // step + 1) * step


def _amount(written: str) -> float:
    """Read 300, 3.5k, 2千, 三百五, 一千零五十; a trailing digit takes the next lower place (三百五 = 350)."""
    written = written.strip()
    if written[0].isascii():
        head, unit, tail = re.fullmatch(r"([\d.]+)\s*([k万千百]?)(\d?)", written).groups()  # type: ignore[union-attr]
        scale = _UNITS.get(unit, 1)
        return float(head) * scale + float(tail or 0) * scale / 10
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
