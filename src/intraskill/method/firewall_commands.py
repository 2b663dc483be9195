"""Commands to the model's own machinery, found by what they do and not only by the usual phrases.

A lesson tells how a task is done. A command speaks of the reader's own instructions, rules or safety, lets a page give
orders, asks to reveal or send, pretends that the skill ended, waits for a trigger to disobey, or speaks to the
analysts and the gate. Patterns read folded text, with typing errors of their words corrected; the shortest form
("ignore … instructions") is also looked for in the letters alone, and in the readings of `firewall_undone`.
"""

# ruff: noqa: E501
import re
from collections.abc import Iterator
from functools import lru_cache

from rapidfuzz.distance import OSA

from intraskill.method.firewall_phrases import FROM_PAGE, HAN, HAN_DISOBEY, HAN_ORDERS, STRUCTURE
from intraskill.method.firewall_text import Reading
from intraskill.method.firewall_undone import decoded, hidden, turned

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
