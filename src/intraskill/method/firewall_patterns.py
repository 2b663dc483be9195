"""What no chunk may say, whatever the world: control text, markup, links, blobs, ids and private fields.

Patterns read folded text. Commands to the model's machinery have a module of their own (`firewall_commands`).
"""

# ruff: noqa: E501
import re
from collections.abc import Iterator

from intraskill.method.firewall_layout import without_code_calls, without_layout
from intraskill.method.firewall_text import Reading
from intraskill.method.firewall_undone import spelled

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
"""Markup, unless it stands in a code block or is a small table (`firewall_layout`)."""
_CALL = re.compile(
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
    if call := _CALL.search(without_code_calls(reading.text)):
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
