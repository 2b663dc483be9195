"""Amounts of money in a text, however written: 12.99, 12,99, $12.99, "twelve ninety-nine", 十二块九."""

import re
from collections.abc import Iterable, Iterator

from intraskill.method.firewall_text import fold

_NUMBER = r"\d{1,3}(?:\.\d{3})+,\d{2}|\d{1,3}(?:[,' ]\d{3})+(?:\s?[.,]\s?\d{1,2})?|\d+(?:\s?[.,]\s?\d{1,2})?"
_CURRENCY = r"[$€£¥]|\b(?:usd|eur|gbp|rmb|cny)\b"
_UNIT = r"[$€£¥元块圆]|人民币|(?:usd|eur|gbp|rmb|cny|dollars?|yuan|kuai|euros?|pounds?|bucks?)\b"
_CENTS = r"(?:\s*(?:and\s*)?(\d{1,2})\s*(?:cents?\b|角|毛|分))?"
_ABOUT = r"(?:\b(?:budget|priced?|prices|costs?|spend|pay|paid|worth)\b|预算|价格|售价|花费|单价)"
_FIRST = r"(?<![\d.])(?!(?<=\d,)\d{3}(?!\d))"  # a comma may stand before an amount, but not one that groups its digits
_NO_COUNT = r"(?!\d|\s*(?:%|percent|stars?|results?|pages?))"
_APART = r"\d(?:\s\d)+(?:\s?[.,]\s?\d(?:\s?\d)?)?|\d+\s?[.,]\s?\d\s\d"  # digits with blanks between them
_DIGITS = (
    re.compile(rf"(?:{_CURRENCY})\s*({_NUMBER})()(?!\d)"),
    re.compile(rf"{_FIRST}({_NUMBER})\s*(?:{_UNIT}){_CENTS}"),
    re.compile(rf"(?:(?:{_CURRENCY})\s*|{_ABOUT}[^.,;:!?。，；\d\n]{{0,16}})(?<![\d.])({_APART})()(?![\d])"),
    re.compile(rf"(?<![\d.])({_APART})\s*(?:{_UNIT})()"),
    re.compile(r"(?<![\d.,])(\d(?:\s?\d){0,4}\s?[.,]\s?\d\s\d)()(?!\d|\s\d)"),
    re.compile(rf"{_FIRST}(\d+\s?[.,]\s?\d{{2}})()(?!\d|[.,]\d|\s*%)"),
    re.compile(rf"{_ABOUT}[^.,;:!?。，；\d\n]{{0,16}}(?<![\d.])({_NUMBER})(){_NO_COUNT}"),
    re.compile(rf"{_ABOUT}\s*[,:]\s*({_NUMBER})(){_NO_COUNT}"),
)
_SMALL = {
    word: value
    for value, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
} | {
    word: 20 + 10 * i
    for i, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"])
}
_ENGLISH = "|".join([*sorted(_SMALL, key=len, reverse=True), "hundred", "thousand"])
_SPELLED = re.compile(
    rf"\b((?:{_ENGLISH})(?:[\s-]+(?:and[\s-]+)?(?:{_ENGLISH}))*)\b"
    rf"(?:\s*(dollars?|euros?|pounds?|yuan|bucks?)\b(?:[\s,]+(?:and\s+)?((?:{_ENGLISH})(?:[\s-]+(?:{_ENGLISH}))*)"
    rf"(?:\s+cents?)?\b)?)?"
)
_RUN = rf"(?:{_ENGLISH})(?:[\s-]+(?:and[\s-]+)?(?:{_ENGLISH}))*"
_DIGIT_WORD = "|".join(["zero", "oh", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
_POINT = re.compile(
    rf"(?<![\d.,])\b({_RUN}|\d+)\s+(?:point|dot|comma)\s+"
    rf"(\d{{1,2}}(?!\d)|(?:{_DIGIT_WORD})(?:[\s-]+(?:{_DIGIT_WORD}))?\b(?![\s-]+(?:{_ENGLISH})\b)|{_RUN}\b)"
)
_MINOR = re.compile(rf"(?<![\d.,])(\d{{3,6}}|\b{_RUN})\s*(?:cents?\b|pence\b|pennies\b|¢|分(?![钟之米类店辨贝期]))")
_STATED = re.compile(rf"{_ABOUT}[^.,;:!?。，；\d\n]{{0,16}}?\b({_RUN})\b{_NO_COUNT}")
_HAN_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_HAN_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10_000}
_HAN_NUMBER = "零一二三四五六七八九两〇十百千万"
_HAN_POINT = re.compile(rf"([{_HAN_NUMBER}]+)点([零一二三四五六七八九〇]{{2}})(?![零一二三四五六七八九〇])")
_HAN_STATED = re.compile(
    rf"(?:预算|价格|售价|花费|单价)[^，。；\d{_HAN_NUMBER}\n]{{0,6}}([{_HAN_NUMBER}]{{2,}})(?![{_HAN_NUMBER}]|个|件|次|页|点|分之)"
)
_HAN_SPELLED = re.compile(
    rf"([{_HAN_NUMBER}]+)(?:点([零一二三四五六七八九]{{1,2}}))?\s*[元块圆](?:钱|([一二三四五六七八九])[角毛]?)?([一二三四五六七八九])?分?"
)


def amounts(text: str) -> Iterator[tuple[float, int, int]]:
    """Yield value, start and end of every amount in a folded text.

    A bare whole number is an amount only beside a currency or a word such as "budget", in digits or in words;
    spelled-out ones also in the form "twelve ninety-nine" or "twelve point nine nine".
    """
    yield from _spoken(text)
    for pattern in _DIGITS:
        for match in pattern.finditer(text):
            for number in _numbers(match[1]):
                yield round(number + (int(match[2]) if match[2] else 0) / 100, 2), match.start(), match.end()
                if match[2] and text[match.end() - 1] in "角毛":
                    yield round(number + int(match[2]) / 10, 2), match.start(), match.end()
    for match in _SPELLED.finditer(text):
        yield from ((value, match.start(), match.end()) for value in _spelled(match))
    for match in _HAN_SPELLED.finditer(text):
        tenths = match[2] or f"{match[3] or '零'}{match[4] or ''}"
        cents = "".join(str(_HAN_DIGITS[c]) for c in tenths).ljust(2, "0")
        yield round(_han(match[1]) + int(cents) / 100, 2), match.start(), match.end()


def _spoken(text: str) -> Iterator[tuple[float, int, int]]:
    """Yield amounts that are read out: with a point, all in cents, or a whole number after a word such as "budget"."""
    for match in _POINT.finditer(text):
        yield round(_whole(match[1]) + _hundredths(match[2]) / 100, 2), match.start(), match.end()
    for match in _MINOR.finditer(text):
        yield round(_whole(match[1]) / 100, 2), match.start(), match.end()
    for match in _STATED.finditer(text):
        yield float(_whole(match[1])), match.start(), match.end()
    for match in _HAN_POINT.finditer(text):
        cents = "".join(str(_HAN_DIGITS[c]) for c in match[2])
        yield round(_han(match[1]) + int(cents) / 100, 2), match.start(), match.end()
    for match in _HAN_STATED.finditer(text):
        yield float(_han(match[1])), match.start(), match.end()


def _whole(number: str) -> int:
    return int(number) if number.isdigit() else _english(_split(number))


def _hundredths(tail: str) -> int:
    """Return what stands after a point, in hundredths: 9, 99, "nine", "nine nine" or "ninety-nine"."""
    if tail.isdigit():
        return int(tail.ljust(2, "0"))
    digits = [str(_SMALL.get(word, 0)) for word in _split(tail)]
    if all(len(digit) == 1 for digit in digits):
        return int("".join(digits)[:2].ljust(2, "0"))
    return _english(_split(tail))


def _split(words: str) -> list[str]:
    return [word for word in re.split(r"[\s-]+", words) if word != "and"]


def stated_amounts(texts: Iterable[str]) -> Iterator[float]:
    """Yield every amount that some texts, as they stand, state."""
    return (value for text in texts for value, _, _ in amounts(fold(text)))


def _numbers(written: str) -> Iterator[float]:
    """Yield what digits may say: after a comma and a blank, "2, 40 dollars", the last number may stand alone."""
    yield _read(written)
    if alone := re.search(r",\s+(\d+)$", written):
        yield _read(alone[1])


def _read(number: str) -> float:
    """Read digits: a comma or blank before three digits groups them, any other comma is a decimal point."""
    if re.search(r"\.\d{3},", number):
        number = number.replace(".", "")
    grouped = re.sub(r"[,' ](?=\d{3}(?!\d))", "", number)
    return float(re.sub(r"\s", "", grouped).replace(",", "."))


def _spelled(match: re.Match[str]) -> Iterator[float]:
    words = _split(match[1])
    if match[2]:
        cents = _english(re.split(r"[\s-]+", match[3])) if match[3] else 0
        yield round(_english(words) + cents / 100, 2)
        return
    for cut in range(1, len(words)):
        whole, cents = _english(words[:cut]), _english(words[cut:])
        if 10 <= cents < 100:
            yield round(whole + cents / 100, 2)


def _english(words: list[str]) -> int:
    total = current = 0
    for word in words:
        if word == "hundred":
            current = max(current, 1) * 100
        elif word == "thousand":
            total, current = total + max(current, 1) * 1000, 0
        else:
            current += _SMALL[word]
    return total + current


def _han(number: str) -> int:
    total = current = 0
    for c in number:
        if c in _HAN_DIGITS:
            current = _HAN_DIGITS[c]
        else:
            scale = _HAN_SCALES[c]
            total, current = ((total + current) if c == "万" else 0) * scale or total + max(current, 1) * scale, 0
    return total + current
