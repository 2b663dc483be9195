"""Does anything that is shown hold an answer: forbidden keys at any depth, and private field names in texts."""

import re
from collections.abc import Collection, Iterator, Mapping

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
