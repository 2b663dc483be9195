"""What no chunk may say, whatever the world: control text, markup, links, ids, commands to the model; and amounts.

The patterns stand in ``patterns.yaml``: shapes that are refused wherever they stand, and phrases of a command. A phrase
counts unless the words before it forbid what it says ("never reveal …"). Phrases are also looked for after
the typing errors of their words are corrected, and the shortest form ("ignore … instructions") in the letters alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from rapidfuzz.distance import OSA

from intraskill.method.leakage.index import LeakLimits
from intraskill.method.leakage.text import Reading, fold, shipped

_GAPS = {
    "english": r"(?:(?!\b(?:and|but|then) (?:follow|obey|use|keep|take|read|apply)\b)[^.!?;\n]){0,50}?",
    "chinese": r"[^。！？；\n]{0,12}?",  # noqa: RUF001
}


def entries(block: str) -> list[str]:
    """Return the patterns of a block: one a line or between bars; a deeper line goes on with the one above it."""
    lines = re.sub(r"\n +", "", block).splitlines()
    return [entry for line in lines if not line.startswith("# ") for entry in re.split(r" \| ", line) if entry]


def _lists(blocks: Mapping[str, str], gap: str = "", edge: str = "") -> dict[str, str]:
    """Return name → pattern of any entry of a list; a list may use those above it."""
    known: dict[str, str] = {}
    for name, block in blocks.items():
        known[name] = f"{edge}(?:{'|'.join(_filled(entry, known, gap) for entry in entries(block))}){edge}"
    return known


def _filled(pattern: str, known: Mapping[str, str], gap: str) -> str:
    """Put the lists of words into a pattern, and stretches of a sentence."""
    named = re.sub(r"\{([a-z_]+)\}", lambda name: known[name[1]], pattern)
    return named.replace(" … ", gap)


def _phrases(language: str) -> Iterator[re.Pattern[str]]:
    part, edge = _PATTERNS[language], r"\b" if language == "english" else ""
    known = _lists(part["words"], _GAPS[language], edge)
    for phrase in entries(part["phrases"]):
        filled = f"(?:{_filled(phrase, known, _GAPS[language])})"
        yield re.compile(rf"(?<![a-z]){filled}(?![a-z])" if edge else filled)


_PATTERNS = shipped("patterns.yaml")
_SHAPES = [
    (rule, re.compile(_filled(shape, _lists(_PATTERNS["shape_words"]), "")))
    for rule, block in _PATTERNS["shapes"].items()
    for shape in entries(block)
]
_LAYOUT = [re.compile(shape) for shape in entries(_PATTERNS["layout"])]
_TOOL_CALL = re.compile(entries(_PATTERNS["tool_call"])[0])
PHRASES = [phrase for language in _GAPS for phrase in _phrases(language)]
_FORBIDDEN = re.compile("|".join(entry for language in _GAPS for entry in entries(_PATTERNS[language]["forbidden"])))
_SHORTEST = {name: "|".join(entries(block)) for name, block in _PATTERNS["shortest"].items()}
_SPACED = re.compile(r"(?:{verb})(?:[^\w.!?;\n]+(?:{between}))*[^\w.!?;\n]+(?:{order})".format(**_SHORTEST))
_SQUASHED = re.compile("(?:{verb})(?:{between})*(?:{order})".format(**_SHORTEST).replace(" ", ""))
_LEET = [str.maketrans("0134578@$!|€", f"o{one}eastbas{one}{one}e") for one in "il"]
_LEET_SIGNS = frozenset("@$!|€")
_MISSPELT: list[str] = _PATTERNS["misspelt"].split()
_CORRECTED = 5  # letters: shorter words are too near to others
_LONG = 9  # letters of a word in which two errors may stand

_FENCE = re.compile(r"(?m)(?<=\S\n)(?:[ \t]*\n)?^ {0,3}(`{3,})[a-z0-9+#-]{0,12}[ \t]*\n((?:.*\n)*?) {0,3}\1[ \t]*$")
"""A closed fence after a line of text, with at most the name of a language."""
_TABLE = re.compile(
    r"""(?mx) (?<![^\n])
    (?: ^[ \t]* \| [^|\n]* (?: \| [^|\n]* ){1,5} \| [ \t]*\n )  # a row of two to six cells
    [ \t]* \| (?: \s* :?-+:? \s* \| )+ [ \t]*              # the line below it
    (?: \n[ \t]* \| .* \| [ \t]*$ ){1,12}                  # at most twelve rows
    """
)
_SECTION = re.compile(
    r"""(?x) \| [\s*_]*
    (?: applies\ when | when | procedure | verify | avoid | rule | system | user | assistant | tool
      | 适用于? | 步骤 | 验证 | 避免 )
    [\s*_]* \|
    """
)
"""Cells that would pass for a chunk's own sections or for a role."""
_CALL = re.compile(r"(?:(?<=\.)|(?<=with )|(?<== ))(?:open|search|select|find)(?=\()")


def without_marks(text: str) -> str:
    """Return a folded text, as long as it was, without the marks of its code blocks and small tables."""
    return _TABLE.sub(_blank_table, _FENCE.sub(_blank_fence, text))


def _without_code_calls(text: str) -> str:
    """Return a folded text, as long as it was, in which calls that any program makes are no calls of a tool."""
    return _FENCE.sub(lambda fence: _CALL.sub(lambda call: "x" * len(call[0]), fence[0]), text)


def _blank_fence(fence: re.Match[str]) -> str:
    """Blank a code block that a sentence leads to: a chunk that is nothing but one, below its title, says no lesson."""
    above = fence.string[: fence.start()].strip().count("\n")
    return _blank(fence[0], r"[`#\[\]|=*_~$&-]") if above else fence[0]


def _blank_table(table: re.Match[str]) -> str:
    return table[0] if _SECTION.search(table[0]) else _blank(table[0], r"[|-]")


def _blank(text: str, marks: str) -> str:
    return re.sub(marks, " ", text)


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
_NUMBERS = shipped("words.yaml")
_SMALL = {word: value for value, word in enumerate(_NUMBERS["small_numbers"].split())} | {
    word: 20 + 10 * place for place, word in enumerate(_NUMBERS["tens"].split())
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


_ODD_WORD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9+/_-]{6,}={0,2}")


def pattern_violations(reading: Reading, limits: LeakLimits) -> Iterator[tuple[str, str]]:
    """Yield rule and span, as it stands in the text, of every pattern that occurs."""
    without_calls, without_layout = _without_code_calls(reading.text), without_marks(reading.text)
    patterns = [(rule, shape, reading.text) for rule, shape in _SHAPES]
    patterns += [("control_text", _TOOL_CALL, without_calls), *(("markup", p, without_layout) for p in _LAYOUT)]
    for rule, pattern, text in patterns:
        if match := pattern.search(text):
            yield rule, reading.span(*match.span())
    yield from (("control_text", span) for span in commands(reading))
    yield from (("encoded_text", span) for span in _encoded(reading.raw, limits))
    words = [word.text for word in reading.words]
    triples = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
    if len(triples) >= limits.repeated_words and len(set(triples)) < len(triples) / 2:
        yield "repetition", reading.raw


def _encoded(raw: str, limits: LeakLimits) -> Iterator[str]:
    """Yield a long run of letters and digits that no word is, and several shorter ones together."""
    odd = [match for match in _ODD_WORD.finditer(raw) if _is_odd(match[0], limits)]
    if long := next((match[0] for match in odd if len(match[0]) >= limits.encoded_letters), None):
        yield long
    elif len(odd) >= limits.encoded_words:
        yield raw[odd[0].start() : odd[-1].end()]


def _is_odd(word: str, limits: LeakLimits) -> bool:
    turns = len(re.findall(r"(?=[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])", word))
    return turns >= (3 if len(word) >= limits.encoded_letters else 2)


def commands(reading: Reading) -> Iterator[str]:
    """Yield the span of every command in a text."""
    yield from (reading.span(*match.span()) for match in _matches(reading.text))
    if (text := corrected(reading.text)) != reading.text:
        yield from (match[0] for match in _matches(text))
    yield from _disguised(reading)


def tool_calls(reading: Reading) -> Iterator[str]:
    """Yield the span of every call of a tool in a text, but for calls that any program makes."""
    yield from (reading.span(*match.span()) for match in _TOOL_CALL.finditer(_without_code_calls(reading.text)))


def corrected(text: str) -> str:
    """Return a folded text in which words that are nearly those of a command are written as such."""
    return re.sub(rf"\b[a-z]{{{_CORRECTED},}}\b", lambda word: _nearest(word[0]), text)


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yield one match of each phrase that is not forbidden ("never reveal …") by the words before it."""
    for phrase in PHRASES:
        commanded = (match for match in phrase.finditer(text) if not _FORBIDDEN.search(text[: match.start()]))
        if match := next(commanded, None):
            yield match


def _disguised(reading: Reading) -> Iterator[str]:
    """Yield the shortest form of a command where only the letters say it, digits and signs read as letters too."""
    places = [i for i, c in enumerate(reading.text) if c.isalnum() or c in _LEET_SIGNS]
    for table in _LEET:
        for match in _SQUASHED.finditer("".join(reading.text[i] for i in places).translate(table)):
            start, end = places[match.start()], places[match.end() - 1] + 1
            if not _SPACED.match(reading.text[start:end]):
                yield reading.span(start, end)


@lru_cache(maxsize=8192)
def _nearest(word: str) -> str:
    """Return the command word that ``word`` misspells: one error, two in a long one, or letters within it mixed up."""
    if word in _MISSPELT:
        return word
    for right in _MISSPELT:
        mixed = word[0] == right[0] and word[-1] == right[-1] and sorted(word) == sorted(right)
        near = abs(len(word) - len(right)) < 2 and OSA.distance(word, right) <= (2 if len(right) >= _LONG else 1)
        if len(right) >= _CORRECTED and (mixed or near):
            return right
    return word
