"""The firewall: code that refuses chunks which leak a task, a goal or control text (method §1.2).

A chunk may hold a transferable procedure, never a product, a task, an answer, a held-out instruction, or text
that speaks to the model's own machinery. Every rejection names the rule and the exact span. Text is compared
after NFKC, casefolding and dropping of invisible characters, as tokens: words, numbers, single Han characters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from intraskill.method.errors import ConfigError
from intraskill.method.skill import Chunk, Skill

Tokens = tuple[str, ...]

COMMON_WORDS = frozenset(
    re.findall(
        r"[a-z]+",
        "a about all an and any are as at be before below but buy by can click do each every find first for"
        " from get good has have i if in into is it item its last less like list look looking me more most my"
        " name need never no not of on one only open option or order other page please price product query"
        " result results search select shop so than that the their them then there they this to under up use"
        " user value want wanted was what when which with word words would you your",
    )
)
_TOKEN = re.compile(r"[a-z]+|\d+(?:\.\d+)?|[\u3400-\u9fff]|[^\W\d_]+")
_INVISIBLE = {"Cc", "Cf", "Co", "Cs"}
_HOMOGLYPHS = re.compile(r"[a-z]+[\u0370-\u04ff]|[\u0370-\u04ff]+[a-z]")
_MONEY = re.compile(
    r"(?:[$€£¥]|usd|eur|rmb)\s*(\d+(?:,\d{3})*(?:\.\d+)?)"
    r"|(\d+(?:,\d{3})*(?:\.\d+)?)\s*(?:[$€£¥元]|usd|eur|rmb|dollars?|yuan|euros?|bucks)"
    r"|(?<![\d.])(\d+\.\d{2})(?![\d.])"
)
_PATTERNS = (
    ("product_id", re.compile(r"\bb0[a-z0-9]{8}\b|\b(?:asin|sku)\W{0,3}\w+")),
    ("task_id", re.compile(r"\b(?:task|user|session|lease|goal|env)[_#-]\w*\d\w*|\b(?:task|user)\s+#?\d+\b")),
    ("private_field", re.compile(r"\b(?:goal_\w+|target_\w+|reason_key|instruction_\w+|r_[a-z]+|reward_detail)\b")),
    ("control_text", re.compile(r"</?\s*(?:think|tool|function|system|assistant|user)[^>]*>?|<\|[^|]*\|?>?")),
    ("control_text", re.compile(r"\[/?(?:inst|sys)\]|<</?sys>>|(?:^|\n)\s*#*\s*(?:system|assistant|user|human)\s*:")),
    (
        "control_text",
        re.compile(r"\b(?:search|click|buy|terminate|finish)[\[(]|\{\s*\"?(?:name|tool|arguments)\"?\s*:"),
    ),
    (
        "control_text",
        re.compile(
            r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}"
            r"\b(?:instructions?|prompts?|system|guidelines|developer|rules above)\b"
        ),
    ),
    (
        "control_text",
        re.compile(r"(?:忽略|无视|忘记)[^。\n]{0,12}(?:提示|指令|规则|系统)|\byou are now\b|\bnew instructions\b"),
    ),
    ("markup", re.compile(r"<[a-z/!][^>\n]*>|!?\[[^\]\n]*\]\([^)\n]*\)|https?://\S*|`{3,}|~{3,}|&#?\w+;")),
)


@dataclass(frozen=True, slots=True)
class FirewallRule:
    """Limits of the firewall.

    Attributes:
        max_chars: size cap of a chunk's title and body together, in characters.
        ngram: length n of the token runs compared with held-out instructions, at least 2.
        title_run: this many consecutive tokens of a product's title give it away, at least 2.
        copy_share: a chunk copies another one when it shares more than this share of its token trigrams.
        common_share: words in at least this share of the held-out instructions count as common.

    Raises:
        ConfigError: for a value out of range.
    """

    max_chars: int = 1200
    ngram: int = 4
    title_run: int = 4
    copy_share: float = 0.8
    common_share: float = 0.2

    def __post_init__(self) -> None:
        if min(self.max_chars, self.ngram - 1, self.title_run - 1) < 1:
            raise ConfigError("firewall: max_chars must be at least 1, ngram and title_run at least 2")
        if not (0 < self.copy_share <= 1 and 0 < self.common_share <= 1):
            raise ConfigError("firewall: copy_share and common_share must lie in (0, 1]")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What no chunk may hold; made by whoever can see the environment's private side.

    Attributes:
        product_ids: ids of products; those shorter than three characters are not looked for.
        product_titles: titles of products.
        task_ids: ids of tasks and of users.
        goals: strings that give a goal away, such as a goal's whole attribute list.
        prices: prices and budgets of goals, in currency units.
        instructions: instructions of every split that proposals must not see (all but train).
    """

    product_ids: Iterable[str] = ()
    product_titles: Iterable[str] = ()
    task_ids: Iterable[str] = ()
    goals: Iterable[str] = ()
    prices: Iterable[float] = ()
    instructions: Iterable[str] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """One broken rule and the span of the chunk (or the chunk's size) that broke it."""

    rule: str
    span: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.span!r}"


@dataclass(frozen=True)
class Firewall:
    """Checks chunks against secrets; its indexes are built once."""

    secrets: Secrets = field(default_factory=Secrets)
    rule: FirewallRule = field(default_factory=FirewallRule)

    def inspect(self, chunk: Chunk, others: Iterable[Chunk] = ()) -> tuple[Rejection, ...]:
        """Return every broken rule with its first span; empty means that the chunk may enter the pool.

        Args:
            chunk: the candidate.
            others: chunks that would stand beside it; those that it replaces are left out.
        """
        text = normalise(f"{chunk.title}\n{chunk.body}")
        found: dict[str, Rejection] = {}
        for rule, span in self._violations(f"{chunk.title}\n{chunk.body}", text):
            found.setdefault(rule, Rejection(rule, span.strip()[:80]))
        for other in others:
            shared = _copied_share(text, normalise(f"{other.title}\n{other.body}"))
            if shared > self.rule.copy_share:
                found.setdefault("copy", Rejection("copy", f"{other.title} ({shared:.0%})"))
        return tuple(found.values())

    def inspect_skill(self, skill: Skill) -> Iterator[tuple[Chunk, Rejection]]:
        """Yield every rule that a chunk of ``skill`` breaks beside the others."""
        for chunk in skill.chunks:
            others = [other for other in skill.chunks if other.id != chunk.id]
            yield from ((chunk, rejection) for rejection in self.inspect(chunk, others))

    def _violations(self, raw: str, text: str) -> Iterator[tuple[str, str]]:
        if len(raw) > self.rule.max_chars:
            yield "size", f"{len(raw)} characters, at most {self.rule.max_chars}"
        if hidden := sorted(
            {f"U+{ord(c):04X}" for c in raw if unicodedata.category(c) in _INVISIBLE and c not in "\n\t"}
        ):
            yield "invisible_text", " ".join(hidden)
        if mixed := _HOMOGLYPHS.search(text):
            yield "mixed_script", mixed[0]
        for rule, pattern in _PATTERNS:
            if match := pattern.search(text):
                yield rule, match[0]
        for match in _MONEY.finditer(text):
            if float(next(g for g in match.groups() if g).replace(",", "")) in self._prices:
                yield "goal_price", match[0]
        yield from self._runs(tokens(text))

    def _runs(self, words: Tokens) -> Iterator[tuple[str, str]]:
        for rule, phrases in self._phrases.items():
            for run in _runs_up_to(words, self._longest):
                if run in phrases:
                    yield rule, " ".join(run)
                    break

    @cached_property
    def _prices(self) -> frozenset[float]:
        return frozenset(float(price) for price in self.secrets.prices)

    @cached_property
    def _phrases(self) -> dict[str, frozenset[Tokens]]:
        """Rule → token runs that break it."""
        instructions = [tokens(normalise(text)) for text in self.secrets.instructions]
        common = COMMON_WORDS | _frequent_words(instructions, self.rule.common_share)
        titles = [tokens(normalise(title)) for title in self.secrets.product_titles]
        run = self.rule.title_run
        return {
            "product_id": _whole(i for i in self.secrets.product_ids if len(i) >= 3),
            "task_id": _whole(i for i in self.secrets.task_ids if len(i) >= 3),
            "goal_string": _whole(self.secrets.goals),
            "product_title": _distinct(
                {r for t in titles for r in _runs_of(t, min(run, max(len(t), 3)))}, COMMON_WORDS
            ),
            "held_out_instruction": _distinct({r for t in instructions for r in _runs_of(t, self.rule.ngram)}, common),
        }

    @cached_property
    def _longest(self) -> int:
        return max((len(run) for runs in self._phrases.values() for run in runs), default=0)


def normalise(text: str) -> str:
    """Return text after NFKC, without invisible characters, casefolded."""
    kept = "".join(
        c for c in unicodedata.normalize("NFKC", text) if c in "\n\t" or unicodedata.category(c) not in _INVISIBLE
    )
    return kept.casefold()


def tokens(text: str) -> Tokens:
    """Return the words, numbers and single Han characters of normalised text."""
    return tuple(_TOKEN.findall(text))


def _whole(texts: Iterable[str]) -> frozenset[Tokens]:
    return frozenset(run for text in texts if (run := tokens(normalise(text))))


def _runs_of(words: Tokens, length: int) -> Iterator[Tokens]:
    return (words[i : i + length] for i in range(len(words) - length + 1))


def _runs_up_to(words: Tokens, longest: int) -> Iterator[Tokens]:
    return (run for length in range(1, longest + 1) for run in _runs_of(words, length))


def _distinct(runs: Iterable[Tokens], common: Iterable[str]) -> frozenset[Tokens]:
    """Return the runs in which at least two words are not common: shared phrasing alone gives nothing away."""
    known = frozenset(common)
    return frozenset(run for run in runs if sum(word not in known for word in run) >= 2)


def _frequent_words(texts: Sequence[Tokens], share: float) -> frozenset[str]:
    """Words of at least ``share`` of the texts (and of three or more): the template, not the task."""
    counts = Counter(word for words in texts for word in set(words))
    return frozenset(word for word, count in counts.items() if count >= max(3, share * len(texts)))


def _copied_share(text: str, other: str) -> float:
    mine, theirs = set(_runs_of(tokens(text), 3)), set(_runs_of(tokens(other), 3))
    return len(mine & theirs) / len(mine) if mine else float(text.strip() == other.strip())
