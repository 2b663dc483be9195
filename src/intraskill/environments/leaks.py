"""Does anything that is shown hold an answer: forbidden keys at any depth, private field names, product ids."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping

FORBIDDEN_KEYS = frozenset(
    re.findall(
        r"\w+",
        "goal goals goal_id goal_options goal_attributes private_goal private_task_instruction instruction_full"
        " target targets target_id target_asin target_product target_asin_match gold gold_id gold_asin gold_product"
        " answer answers reason_key __reasoning__"
        " reward rewards reward_detail reward_info r_strict r_loose r_success r_type r_att r_option r_price"
        " satisfied_conditions missing_conditions unverified_conditions public_match_score best_candidate",
    )
)
"""Keys that no page, state or persona may hold, whatever their value: a key alone tells that an answer is near."""

_IN_TEXT = re.compile(
    r"\b(?:goal_options|goal_attributes|private_goal|private_task_instruction|instruction_full|target_asin|gold_asin"
    r"|reason_key|reward_detail)\b|__reasoning__"
)
_DATA_KEYS = ("available_options", "selected_options")  # their keys are a product's own axes, whatever those are called
_PUNCTUATION = re.compile(r"[\W_]")


def _plain(key: object) -> str:
    return _PUNCTUATION.sub("", str(key).casefold())


_FORBIDDEN = frozenset(map(_plain, FORBIDDEN_KEYS))
_ID_WORD = re.compile(
    r"(?<![a-z])(?:u|uu|gu|open|union)?ids?(?![a-z])|编号|标识|[账帐]号|(?:用户|会员|客户|买家|订单|货)号|用户名"
)
_ID_CAMEL = re.compile(r"[a-z](?:Id|ID|Uid|UID|Uuid|UUID)s?(?![a-z])")
_ID_JOINED = re.compile(
    r"(?:user|customer|client|shopper|buyer|member|account|person|persona|profile|product|item|goods|task|session|order)"
    r"(?:u?u?ids?|no|num|number|code|identifier|name(?<=username))|asin|sku|identifier"
)


def is_identifier_key(name: object) -> bool:
    """Return whether a key names an identifier, such as ``用户ID``, ``user id``, ``userId``, ``uid`` or ``编号``.

    An identifier says nothing about a person, and in published personas it is made of the wanted product's own.
    """
    written = unicodedata.normalize("NFKC", str(name))
    joined = _plain(written)
    spellings = written.casefold().replace("_", " "), joined
    return bool(_ID_CAMEL.search(written) or _ID_JOINED.fullmatch(joined) or any(map(_ID_WORD.search, spellings)))


def is_private_key(name: object) -> bool:
    """Return whether a key alone tells an answer, in any case, with or without punctuation: also ``goalOptions``."""
    return _plain(name) in _FORBIDDEN


def leaks(shown: object, secrets: Collection[str] = (), said: Collection[str] = ()) -> tuple[str, ...]:
    """Return where ``shown`` holds an answer, as paths such as ``product.goal_options``; empty when nowhere.

    Keys are judged by `is_private_key`.

    Args:
        shown: a page text, an observation state, a persona: anything that a policy or a proposer may read.
        secrets: texts that must not occur anywhere in it, such as the full instruction of a persona task.
        said: what the policy wrote itself: a page may echo it, and what it made up is no leak.
    """
    own = {name for text in said for name in _IN_TEXT.findall(text)}
    wanted = [text for text in secrets if text.strip() and not any(text in words for words in said)]
    return tuple(_walk(shown, "", wanted, own))


_RUN = re.compile(r"[0-9a-z]+(?:[-_.][0-9a-z]+)*", re.IGNORECASE | re.ASCII)
_SHORT_ID, _SHORT_NUMBER, _LONG_ID = 5, 6, 8


class ProductIds:
    """Product ids, to be found in texts: in any case, in full-width letters, inside longer names such as ``U123456``.

    An id of 5 to 7 characters counts only where no further digit touches it. Shorter ones, numbers of fewer than 6
    digits and ids without a digit are words and amounts like any others, and are not looked for.

    Args:
        ids: as the catalogue or the buttons of a page spell them.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = frozenset(text.casefold() for text in map(_written, ids) if _is_id(text))
        self._lengths = sorted(set(map(len, self._ids)))

    def within(self, text: str) -> bool:
        """Return whether a text holds one of the ids."""
        return any(self._holds(run[0].casefold()) for run in _RUN.finditer(_written(text)))

    def removed(self, text: str) -> str:
        """Return a text without every name that holds one of the ids; the very same text where none does."""
        if not self.within(text):
            return text
        return _RUN.sub(lambda run: "" if self._holds(run[0].casefold()) else run[0], _written(text))

    def _holds(self, name: str) -> bool:
        return any(
            name[start : start + length] in self._ids and (length >= _LONG_ID or not _digits_touch(name, start, length))
            for length in self._lengths
            for start in range(len(name) - length + 1)
        )


def _written(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip()


def _is_id(text: str) -> bool:
    least = _SHORT_NUMBER if text.isdigit() else _SHORT_ID
    return len(text) >= least and any(map(str.isdigit, text)) and _RUN.fullmatch(text) is not None


def _digits_touch(name: str, start: int, length: int) -> bool:
    return name[:start][-1:].isdigit() or name[start + length :][:1].isdigit()


def _walk(shown: object, path: str, secrets: Collection[str], own: Collection[str]) -> Iterator[str]:
    if isinstance(shown, Mapping):
        for key, value in shown.items():
            inner = f"{path}.{key}" if path else str(key)
            if is_private_key(key) and not path.endswith(_DATA_KEYS):
                yield inner
            else:
                yield from _walk(value, inner, secrets, own)
    elif isinstance(shown, str):
        where = path or "text"
        yield from (f"{where} ({found})" for found in sorted(set(_IN_TEXT.findall(shown)).difference(own)))
        yield from (f"{where} (a private text)" for secret in secrets if secret in shown)
    elif isinstance(shown, Collection) and not isinstance(shown, bytes):
        for index, value in enumerate(shown):
            yield from _walk(value, f"{path}[{index}]", secrets, own)
