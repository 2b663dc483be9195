"""What no chunk may say, whatever the world: amounts of money, control text, markup, links, ids, commands to the model.

A lesson tells how a task is done. A command speaks of the reader's own instructions, rules or safety, lets a page give
orders, asks to reveal or send, pretends that the skill ended, waits for a trigger to disobey, or speaks to the
analysts and the gate. Patterns read folded text, with typing errors of their words corrected; the shortest form
("ignore … instructions") is also looked for in the letters alone, and in the readings of `undone`.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from rapidfuzz.distance import OSA

from intraskill.method.leakage.phrases import FROM_PAGE, HAN, HAN_DISOBEY, HAN_ORDERS, STRUCTURE
from intraskill.method.leakage.text import Reading, fold
from intraskill.method.leakage.undone import decoded, hidden, spelled, turned

# ruff: noqa: E501

_FENCE = re.compile(r"(?m)(?<=\S\n)(?:[ \t]*\n)?^ {0,3}(`{3,})[a-z0-9+#-]{0,12}[ \t]*\n((?:.*\n)*?) {0,3}\1[ \t]*$")
"""A closed fence after a line of text, with at most the name of a language."""
_TABLE = re.compile(
    r"(?m)(?<![^\n])(?:^[ \t]*\|[^|\n]*(?:\|[^|\n]*){1,5}\|[ \t]*\n)[ \t]*\|(?:\s*:?-+:?\s*\|)+[ \t]*(?:\n[ \t]*\|.*\|[ \t]*$){1,12}"
)
_SECTION = re.compile(
    r"\|[\s*_]*(?:applies when|when|procedure|verify|avoid|rule|system|user|assistant|tool|适用于?|步骤|验证|避免)[\s*_]*\|"
)
"""Cells that would pass for a chunk's own sections or for a role."""
_CALL = re.compile(r"(?:(?<=\.)|(?<=with )|(?<== ))(?:open|search|select|find)(?=\()")


def without_layout(text: str) -> str:
    """Return a folded text, as long as it was, without the marks of its code blocks and small tables."""
    return _TABLE.sub(_blank_table, _FENCE.sub(_blank_fence, text))


def without_code_calls(text: str) -> str:
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


# ruff: noqa: E501


_PREFIX = r"(?:^|\n)[ \t]*(?:[-*>+]|\d+[.)]|#+|[a-z ]{2,14}:)?[ \t]*[*_\"']{0,3}"
_ROLES = "system|assistant|user|human|ai|developer|tool|function|observation|thought|action(?: input)?"
_HAN_ROLES = "系统|助手|用户|角色|人类|开发者|工具|观察|思考|动作|行动"

PATTERNS = tuple(
    (rule, re.compile(pattern))
    for rule, pattern in (
        ("product_id", r"\bb0[a-z0-9]{8}\b|\b(?:asin|sku)\W{0,3}\w+|商品(?:编号|id)\W{0,3}[a-z0-9]+"),
        ("task_id", r"\b(?:task|user|session|lease|goal|env|shop)[_#-]\w*\d\w*|\b(?:task|user|goal)\s+(?:no\.?\s*|number\s+|#)?\d+\b"),
        ("task_id", r"(?:任务|用户)\W{0,2}(?:编号|号|id)?\W{0,2}\d+|第\s*\d+\s*(?:个|号)?\s*(?:任务|用户)"),
        ("private_field", r"\b(?:goal_\w+|target_\w+|reason_key|instruction_\w+|r_[a-z]+|reward_detail)\b"),
        ("control_text", r"<\s*/?\s*(?:think|tool|function|system|assistant|user|invoke|parameter)[^>]*>?|<\|[^|]*\|?>?"),
        ("control_text", r"\[/?\s*(?:inst|sys|system|user|assistant|think)\s*\]|<</?sys>>|</?s>|<(?:start|end)_of_turn>"),
        ("control_text", rf"{_PREFIX}(?:{_ROLES})[*_\"']{{0,3}}\s*:"),
        ("control_text", rf"{_PREFIX}(?:{_HAN_ROLES})[*_\"']{{0,3}}\s*:"),
        ("control_text", r"\{\s*[\"']?\w+[\"']?\s*:|[\"'](?:arguments|parameters|tool_calls?|function|name)[\"']\s*:"),
        ("control_text", r"(?:指令|提示词|规则|指示)[^。\n]{0,6}(?:作废|失效|无效|不算|取消)|你现在是|从现在(?:起|开始)[^。\n]{0,4}你|开发者模式|越狱"),
        ("control_text", r"\byou are now\b|\bnew instructions\b(?! (?:of|from|by) the (?:user|shopper|customer))|\bdeveloper (?:prompt|message|mode)\b|(?<!(?:in|of|to|by) the )(?<!from the )\bsystem (?:prompt|message|mode)\b(?! (?:lists?|says|names|states|holds|contains|gives|describes)\b)|系统提示|\bjailbreak\w*|\bdo anything now\b"),
        ("markup", r"<[a-z/!?][^>]{0,200}>|<!--|&#?\w+;|\[sep\]"),
        ("link", r"\b[a-z][a-z0-9+.-]{1,15}://\S*|\b(?:https?|hxxps?)\b|\bwww\s?\.\S*|\b(?:data|javascript|mailto|vbscript):\S+"),
        ("link", r"[\w.+-]+\s?(?:@|\(at\)|\[at\])\s?[\w-]+\s?(?:\.|\(dot\)|\[dot\])\s?[a-z]{2,}|\b\d{1,3}(?:\.\d{1,3}){3}\b"),
        ("link", r"\b(?!example\.(?:com|org|net)\b(?!/))[a-z0-9-]{2,}(?:\.| dot |\[\.\])(?:com|org|net|io|cn|ai|dev|info|xyz|ru|co|shop)\b(?:/\S*)?"),
        ("link", r"\b(?:visit|go to|open|browse|load|fetch|call|recommend|use|see|(?:download|read) from|(?:post|send|report|write) (?:\w+ ){0,4}to)\s(?:\w+ ){0,3}[a-z0-9.-]+\.(?:com|org|net|example|test|invalid|local|onion)\b"),
        ("chunk_id", r"\b[a-z0-9]+(?:-[a-z0-9]+)*-(?=[a-f]*\d)[0-9a-f]{8}\b"),
        ("repetition", r"(\S)\1{7,}|\n{4,}|[^\S\n]{20,}|\b(\w+)(?:\W+\2\b){3,}|([\u3400-\u9fff]{1,6})\W?(?:\3\W?){3,}"),
        ("encoded_text", r"(?:\\x[0-9a-f]{2}|\\?\\u\{?[0-9a-f]{4}\}?|%[0-9a-f]{2}|&#x?\w+;?){3,}|\b[01]{8}(?:\s?[01]{8}){2,}"),
        ("encoded_text", r"(?:[a-z](?:%[0-9a-f]{2})+(?=[a-z])[^%]*){2}|(?=[^\n]*(?:\.-|-\.))(?:(?<![.·–—-])[.·–—-]{1,5}(?:\s*/\s*|\s+|$)){8}"),
        ("encoded_text", r"(?:\b(?:0x)?(?=[0-9a-f]*\d)[0-9a-f]{2}\b[\s:,]*){3}(?:\b(?:0x)?(?:[a-f]\d|\d[a-f])\b[\s:,]*)(?:\b(?:0x)?[0-9a-f]{2}\b[\s:,]*)+"),
        ("encoded_text", r"\b(?=[0-9a-f]*\d[a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{16,}\b|[a-z0-9+/]{60,}"),
    )
)  # fmt: skip

LAYOUT = tuple(
    re.compile(pattern)
    for pattern in (
        r"!?\[[^\]\n]*\]\s?[(\[:]|`{3,}|~{3,}|\$\$|\\(?:begin|[(\[])",
        r"#{2,}(?:\s|$)|(?:^|\n)[ \t]*(?:\d+\.[ \t]*)?(?:#[ \t]|(?:=+|-+|[*_]{3,})[ \t]*(?:\n|$))",
        r"\|[^|\n]*\|[^|\n]*\||\|\s*:?-{2,}|(?:^|\n)---",
    )
)
"""Markup, unless it stands in a code block or is a small table (`rules`)."""
_FUNCTION_CALL = re.compile(
    r"\b(?:search|click|buy|terminate|finish|think|answer|open|select)(?:\s*\[|\()|(?:搜索|点击|购买)\s*\["
)
_BLOB = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9+/_-]{6,}={0,2}")
_LONG_BLOB = 20
_BLOBS = 3
_MANY = 24


def pattern_violations(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield rule and span, as it stands in the text, of every pattern that occurs."""
    for rule, pattern in PATTERNS:
        if match := pattern.search(reading.text):
            yield rule, reading.span(*match.span())
    if call := _FUNCTION_CALL.search(without_code_calls(reading.text)):
        yield "control_text", reading.span(*call.span())
    plain = without_layout(reading.text)
    for pattern in LAYOUT:
        if match := pattern.search(plain):
            yield "markup", reading.span(*match.span())
    if letters := spelled(reading.text):
        yield "encoded_text", letters
    yield from (("encoded_text", span) for span in _blobs(reading.raw))
    if _repeats(reading):
        yield "repetition", reading.raw


def _blobs(raw: str) -> Iterator[str]:
    """Yield a long run of letters and digits that no word is, and several shorter ones together."""
    odd = [match for match in _BLOB.finditer(raw) if _is_odd(match[0])]
    if long := next((match[0] for match in odd if len(match[0]) >= _LONG_BLOB), None):
        yield long
    elif len(odd) >= _BLOBS:
        yield raw[odd[0].start() : odd[-1].end()]


def _repeats(reading: Reading) -> bool:
    """Whether more than half of a longer text's word triples stood there before."""
    words = [word.text for word in reading.words]
    triples = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
    return len(triples) >= _MANY and len(set(triples)) < len(triples) / 2


def _is_odd(token: str) -> bool:
    turns = len(re.findall(r"(?=[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z])", token))
    return turns >= (3 if len(token) >= _LONG_BLOB else 2)


# ruff: noqa: E501


_FILLER = (
    "all|any|every|each|of|the|these|those|your|my|our|its|previous|prior|above|earlier|preceding|foregoing|former"
    "|past|system|developer|original|initial|other|given|safety|hidden"
)
_VERBS = r"(?:ignor(?:e|ing)|disregard|forget|override|bypass|disobey|(?:donot|dont|never|stop)(?:follow|obey)(?:ing)?)"
_SQUASHED = re.compile(
    rf"{_VERBS}(?:{_FILLER})*(?:instruct|prompt|guideline|directive)|developermode|youarenow|(?P<topic>system(?:prompt|message)|newinstructions)"
    rf"|(?:{HAN_DISOBEY})(?:以上|上面|前面|之前|先前|所有|全部|一切|任何|的|你|系统|原有|这些|那些)*(?:{HAN_ORDERS})"
)
_TOPIC = re.compile(r"system (?:prompt|message)|new instructions")
_SHORT = re.compile(rf"{_VERBS}(?:{_FILLER})*(?:instruct|prompt|guideline|directive|rule|order|user|safety|everything)")
"""What initials or words in another order may hide: too short to be looked for in a text as it stands."""
_LEET = [str.maketrans("0134578@$!|€", f"o{one}eastba{'s'}{one}{one}e") for one in "il"]
_STOCK: list[str] = re.findall(
    r"\w+",
    "ignore ignoring disregard forget override bypass disobey follow instruction instructions prompt prompts guidelines"
    " directives rules system developer operator previous prior above earlier preceding everything before reveal print"
    " repeat hidden safety configuration password obey given told",
)
_FORBIDDEN = re.compile(
    r"(?:\b(?:never|not|cannot|can't|nor|avoid|refuse to|without)|n't|n’t)\s+"  # noqa: RUF001
    r"(?:(?!only|just|merely|hesitate|fail|forget|worry|mind)[a-z]+\s+){0,2}$"
    r"|(?:不要|不得|不能|不可|禁止|切勿|绝不|请勿|别|不应|拒绝)[^，。；！？,;\n]{0,4}$"  # noqa: RUF001
)
_DEFENCE = re.compile(FROM_PAGE)
_CORRECTED = 5  # letters: shorter words are too near to others
_LONG = 9  # letters of a word in which two errors may stand


def commands(reading: Reading) -> Iterator[str]:
    """Yield the span of every command in a text, and what commands say that it hides."""
    yield from (reading.span(*match.span()) for match in _matches(reading.text))
    for text in (corrected(reading.text), *decoded(reading.text)):
        if text != reading.text:
            yield from (match[0] for match in _matches(text))
            yield from _shortest(text)
    for sentence in turned(reading.text).split("\n"):
        yield from _shortest(sentence)
    for table in _LEET:
        leet = reading.text.translate(table)
        if (match := _SHORT.search(_letters(leet))) and match[0] not in _letters(reading.text):
            yield match[0]
        yield from _squashed(reading, leet, [i for i, c in enumerate(leet) if c.isalnum()])
    back = [i for i, c in enumerate(reading.text) if c.isalnum()][::-1]
    yield from _squashed(reading, reading.text, back)
    yield from (match[0] for text in hidden(reading.text) if (match := _SHORT.search(text)))


def corrected(text: str) -> str:
    """Return a folded text in which words that are nearly those of a command are written as such."""
    return re.sub(rf"\b[a-z]{{{_CORRECTED},}}\b", lambda word: _nearest(word[0]), text)


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Yield one match of each pattern that is not forbidden ("never reveal …") by the words before it."""
    for pattern in (*STRUCTURE, *HAN):
        found = (match for match in pattern.finditer(text) if not _FORBIDDEN.search(text[: match.start()]))
        if match := next(found, None):
            yield match


def _squashed(reading: Reading, text: str, places: list[int]) -> Iterator[str]:
    """Look for the shortest form in the letters at some places; a system prompt may be named, not disguised."""
    for match in _SQUASHED.finditer("".join(text[i] for i in places)):
        ends = sorted((places[match.start()], places[match.end() - 1]))
        as_written = reading.text[ends[0] : ends[1] + 1]
        topic = match["topic"] and _TOPIC.fullmatch(as_written)
        if not topic and not (
            re.match(r"ignore|disregard|(?:do not|don't|never) (?:follow|obey)", as_written)
            and _DEFENCE.match(reading.text, ends[1] + 1)
        ):
            yield reading.span(ends[0], ends[1] + 1)
            return


def _shortest(text: str) -> Iterator[str]:
    return (match[0] for match in _SQUASHED.finditer(_letters(text)) if not match["topic"])


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


@lru_cache(maxsize=8192)
def _nearest(word: str) -> str:
    """Return the stock word that ``word`` misspells: one error, two in a long one, or letters within it mixed up."""
    if word in _STOCK:
        return word
    for stock in _STOCK:
        mixed = word[0] == stock[0] and word[-1] == stock[-1] and sorted(word) == sorted(stock)
        near = abs(len(word) - len(stock)) < 2 and OSA.distance(word, stock) <= (2 if len(stock) >= _LONG else 1)
        if len(stock) >= _CORRECTED and (mixed or near):
            return stock
    return word
