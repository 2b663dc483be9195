"""Indexes of private texts: which runs of words, and which sets of rare words, give one of them away.

Limits in words are compared by width: a Latin word or a number is as wide as two pairs of neighbouring Han
characters, or as 4/3 Han characters in a run. A run is a phrase in the text's own order. A bag is the set of a text's
rare words, found in any order within one sentence.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from intraskill.method.leakage.text import Reading, Tokens, Word, fold, is_han, squash, units, words_in

COMMON_WORDS = frozenset(
    units(
        words_in(
            "a about above add after again all almost also always an and another any are around as ask asked"
            " at avoid back bad be because been before below best better between both brand budget but button"
            " buy by can cannot care category change check cheap cheaper cheapest choice choose chosen click"
            " color colour come compare complete confirm contain cost could dearer description detail differ"
            " different do does done each early either else empty enough even every exact exactly except"
            " extra feature few filter final find first fit follow for form from full further get give go"
            " good great had hard has have help her here high higher him his home how i if important in"
            " include into is it item its just keep key kind know last later least leave less let like likely"
            " limit line list listed long look looking lower made make many match material may me mean"
            " mention might missing model more most much must my name named near need never new next no non"
            " none nor not note nothing now number of off offer often on once one only open opening option or"
            " order other our out over own page part pattern people pick place plain please pound prefer"
            " preference price product profile put quality quantity query quick range rather read ready"
            " really red remember request require result return right roughly same say search second see seem"
            " select sell seller set several shop shopper should show shown similar simple since size small"
            " so some something soon sort specific start state step still stop store style such sure take"
            " task text than that the their them then there these they thing think this those three through"
            " time title to together too try turn two type under unless until up upper free shipping arrival"
            " official flagship gift idea special offer limited stock top rated upgraded hot sale usd use"
            " used useful user usually value variant version very want wanted was way weight we well were"
            " what when where whether which while who whole why will with within without word work worth"
            " would wrong you your 商品 产品 搜索 查询 检索 结果 页面 详情 属性 选项 选择 颜色 尺码 尺寸 规格"
            " 款式 品牌 材质 风格 功能 价格 预算 需求 要求 用户 画像 偏好 喜欢 请求 任务 特征 关键词 关键"
            " 标题 描述 购买 下单 点击 打开 返回 查看 核对 检查 确认 比较 对比 满足 符合 匹配 适合 合适 不要"
            " 不能 不是 没有 必须 应该 可以 如果 然后 之前 之后 以前 以后 先看 再看 最后 第一 每个 每次 所有"
            " 全部 其他 其它 一个 一件 两个 这个 那个 这些 那些 同时 时候 什么 怎么 已经 仍然 否则 因为 所以"
            " 但是 或者 以及 并且 和的 是否 需要 想要 推荐 帮我 请帮 麻烦 求购 打算 入手 最好 不超 超过 以内"
            " 左右 大概 大约 最多 最低 最高 上限 下限 之间 元以 便宜 贵的 更贵 更便 类型 种类 类别 型号 数量"
            " 件数 容量 亮度 功率 层数 外观 花色 边上 质地 包装 底脚 固定 带有 适用 针对 认准 家的 牌子 包邮"
            " 新款 新品 首发 官方 旗舰 方旗 热卖 爆款 口碑 高品 品质 特惠 送礼 优选 限量 营销 广告"
        )
    )
)
MEASURES = frozenset(
    words_in(
        "us uk eu cm mm km ml cl kg mg lb oz ft in inch litre liter gram metre meter watt volt kw kwh mah gb tb hz ghz"
        " db rpm xs xl xxl pcs"
    )
)
"""Words of a size, which with its numbers is everybody's; a single letter is one too."""
RUN_WORD, _RUN_HAN = 4, 3  # widths in a run
BAG_WORD, _BAG_PAIR = 2, 1  # widths in a bag
_RARE_WORDS = 2  # of a run, this many words at least must not be common
_SHORTEST = 3  # texts of fewer words give nothing away
_WORDS = 2  # of the rare units of one sentence, this many name something
_STREWN = 5  # of fewer words, those of several sentences tell nothing
_PAIRS_KEPT = 0.6  # of a Chinese text's pairs, those that lie within words and so survive another order
_ID_PART = 8  # of an id of twelve or more characters, this many at either end give it away


@dataclass(frozen=True)
class RunIndex:
    """Runs of words that occur in private texts.

    Attributes:
        runs: every run that gives a text away.
        width: width of a full run.
    """

    runs: frozenset[Tokens]
    width: int

    @classmethod
    def of(cls, texts: Iterable[Tokens], length: int, common: frozenset[str]) -> "RunIndex":
        """Index every run of ``length`` words with enough rare ones; a shorter text counts as one run."""
        found: set[Tokens] = set()
        for words in texts:
            widths = [_width(word) for word in words]
            rare = [0 if known else width for width, known in zip(widths, _known(words, common), strict=True)]
            before = (0, *itertools.accumulate(rare))
            spoken = [width if _names(word) else 0 for word, width in zip(words, rare, strict=True)]
            before_spoken = (0, *itertools.accumulate(spoken))
            wanted = RUN_WORD * min(length, max(sum(widths) // RUN_WORD, _SHORTEST))
            for start, end in _spans(widths, wanted):
                enough = before[end] - before[start] >= RUN_WORD * _RARE_WORDS
                if enough and before_spoken[end] > before_spoken[start]:  # "US 9/EU 42" is everybody's size
                    found.add(words[start:end])
        return cls(frozenset(found), RUN_WORD * length)

    def find(self, words: Sequence[Word]) -> tuple[Word, Word] | None:
        """Return the first and the last word of the first run in ``words`` that gives a text away."""
        return next(((words[start], words[end - 1]) for start, end in self._found(words)), None)

    def across(self, left: Sequence[Word], right: Sequence[Word]) -> tuple[Word, Word] | None:
        """Return the ends of a run that begins in the last words of ``left`` and goes on in the first of ``right``."""
        if not left or not right or (left[-1].text, right[0].text) not in self._neighbours:
            return None
        words, cut = (*left[-self.width :], *right[: self.width]), min(len(left), self.width)
        crossing = (place for place in self._found(words) if place[0] < cut < place[1])
        return next(((words[start], words[end - 1]) for start, end in crossing), None)

    @cached_property
    def _neighbours(self) -> frozenset[tuple[str, str]]:
        return frozenset(pair for run in self.runs for pair in itertools.pairwise(run))

    def _found(self, words: Sequence[Word]) -> Iterator[tuple[int, int]]:
        texts = tuple(word.text for word in words)
        widths = [_width(word) for word in texts]
        for width in range(self.width, RUN_WORD * _SHORTEST - 1, -RUN_WORD):
            yield from ((start, end) for start, end in _spans(widths, width) if texts[start:end] in self.runs)


@dataclass(frozen=True)
class BagIndex:
    """Sets of rare units, one per private text.

    Attributes:
        postings: unit → numbers of the texts that hold it.
        need: per text, the width of rare units that give it away.
        whole: per text, the width of all its rare units; of a Chinese one, as much as another order leaves.
    """

    postings: dict[str, tuple[int, ...]]
    need: tuple[int, ...]
    whole: tuple[int, ...]

    @classmethod
    def of(cls, texts: Iterable[Tokens], length: int | None, common: frozenset[str]) -> "BagIndex":
        """Index texts; ``length`` rare words, or all of them where there are fewer (or none is given), tell."""
        bags = dict.fromkeys(frozenset(units(words)) - common for words in texts)
        kept = [bag for bag in bags if bag_width(bag) >= BAG_WORD * _SHORTEST - _BAG_PAIR]
        postings: dict[str, list[int]] = {}
        for number, bag in enumerate(kept):
            for unit in bag:
                postings.setdefault(unit, []).append(number)
        whole = tuple(_kept_width(bag) for bag in kept)
        need = whole if length is None else tuple(min(BAG_WORD * length, width) for width in whole)
        return cls({unit: tuple(numbers) for unit, numbers in postings.items()}, need, whole)

    def find(self, words: Sequence[Word]) -> tuple[Word, Word] | None:
        """Return the outermost words of a sentence that hold the rare units of one text."""
        held = self.held(words)
        told = min((number for number, units in held.items() if self._tells(number, units)), default=None)
        return None if told is None else outermost(words, held[told].values())

    def _tells(self, number: int, held: Iterable[str]) -> bool:
        """Whether enough rare units stand there, two of them words: sizes and counts alone are everybody's."""
        return bag_width(held) >= self.need[number] and sum(map(_names, held)) >= _WORDS

    def find_strewn(self, words: Sequence[Word], share: float) -> tuple[Word, Word] | None:
        """Return the outermost words of a chunk whose sentences hold, all together, ``share`` of one text's rare units.

        Fewer than five rare words are strewn over many a harmless chunk, so they count in one sentence only.
        """
        held = self.held(words)
        least = (max(self.need[n], math.ceil(share * self.whole[n]), BAG_WORD * _STREWN) for n in held)
        told = (number for number, need in zip(held, least, strict=True) if bag_width(held[number]) >= need)
        number = min(told, default=None)
        return None if number is None else outermost(words, held[number].values())

    def held(self, words: Sequence[Word]) -> dict[int, dict[str, tuple[int, int]]]:
        """Return the rare units that a sentence holds of each text, with their first and last word."""
        found: dict[int, dict[str, tuple[int, int]]] = {}
        for unit, place in _places(words):
            for number in self.postings.get(unit, ()):
                found.setdefault(number, {})[unit] = place
        return found


@dataclass(frozen=True)
class IdIndex:
    """Ids, compared without anything between their letters and digits.

    Attributes:
        parts: ids and the ends of long ids, squashed.
        lengths: the lengths that occur.
    """

    parts: frozenset[str]
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, ids: Iterable[str]) -> "IdIndex":
        """Index ids; those shorter than three letters and digits are not looked for."""
        whole = {part for name in ids if len(part := squash(fold(name))[0]) >= 3}
        ends = {end for part in whole if len(part) >= 12 for end in (part[:_ID_PART], part[-_ID_PART:])}
        parts = frozenset(whole | {end for end in ends if re.search(r"\d", end) and re.search(r"[a-z]", end)})
        return cls(parts, tuple(sorted({len(part) for part in parts})))

    def find(self, reading: Reading) -> str | None:
        """Return the first id as it stands; one without a digit counts only as whole words."""
        letters, places = reading.squashed
        for length in self.lengths:
            for start in range(len(letters) - length + 1):
                part = letters[start : start + length]
                if part in self.parts and _apart(reading.text, places[start], places[start + length - 1], part):
                    return reading.span(places[start], places[start + length - 1] + 1)
        return None


def copied_share(mine: Reading, other: Reading) -> float:
    """Return how much of a chunk another one holds: its triples of words within sentences, or all words alike."""
    triples, theirs = set(_triples(mine)), set(_triples(other))
    bag, bag_theirs = frozenset(units(w.text for w in mine.words)), frozenset(units(w.text for w in other.words))
    if not triples or len(bag) < 3:
        return float(mine.text.strip() == other.text.strip())
    return max(len(triples & theirs) / len(triples), len(bag & bag_theirs) / len(bag | bag_theirs))


def frequent_units(texts: Sequence[Tokens], share: float) -> frozenset[str]:
    """Return the units of at least ``share`` of the texts (and of three or more): the template, not the task."""
    counts = Counter(unit for words in texts for unit in set(units(words)))
    return frozenset(unit for unit, count in counts.items() if count >= max(3, share * len(texts)))


def _triples(reading: Reading) -> Iterator[Tokens]:
    for sentence in reading.sentences:
        texts = tuple(word.text for word in sentence)
        yield from (texts[i : i + 3] for i in range(len(texts) - 2))


def _apart(text: str, first: int, last: int, part: str) -> bool:
    """Whether what stands there is a word of its own, or too much like an id to be chance."""
    before, after = text[first - 1 : first], text[last + 1 : last + 2]
    alone = not (before.isalnum() and before.isascii()) and not (after.isalnum() and after.isascii())
    return alone or (len(part) >= _ID_PART and any(c.isdigit() for c in part))


def _width(word: str) -> int:
    return _RUN_HAN if is_han(word) else RUN_WORD


def _names(word: str) -> bool:
    """Whether a word names something, and is no number, letter or measure."""
    return is_han(word) or not (word[0].isdigit() or len(word) == 1 or word in MEASURES)


def _unit_width(unit: str) -> int:
    return _BAG_PAIR if is_han(unit) else BAG_WORD


def bag_width(bag: Iterable[str]) -> int:
    """Return the width of some units together."""
    return sum(map(_unit_width, bag))


def _kept_width(bag: frozenset[str]) -> int:
    """Width that is left of a text in another order: pairs across two words are lost."""
    pairs = sum(map(is_han, bag))
    return BAG_WORD * (len(bag) - pairs) + math.ceil(_PAIRS_KEPT * pairs * _BAG_PAIR)


def outermost(words: Sequence[Word], places: Iterable[tuple[int, int]]) -> tuple[Word, Word]:
    """Return the first and the last of the words at some places."""
    firsts, lasts = zip(*places, strict=True)
    return words[min(firsts)], words[max(lasts)]


def _known(words: Tokens, common: frozenset[str]) -> list[bool]:
    """Per word, whether it is common; a Han character is where a common pair covers it."""
    pairs = [a + b in common if is_han(a) and is_han(b) else False for a, b in zip(words, words[1:], strict=False)] + [
        False
    ]
    return [(pairs[i] or (i > 0 and pairs[i - 1])) if is_han(word) else word in common for i, word in enumerate(words)]


def _spans(widths: Sequence[int], width: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the narrowest run from each start that is at least ``width`` wide."""
    end, held = 0, 0
    for start, first in enumerate(widths):
        while held < width and end < len(widths):
            held += widths[end]
            end += 1
        if held < width:
            return
        yield start, end
        held -= first


def _places(words: Sequence[Word]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each unit with the numbers of its first and last word."""
    for i, word in enumerate(words):
        if not is_han(word.text):
            yield word.text, (i, i)
        elif i and is_han(words[i - 1].text):
            yield words[i - 1].text + word.text, (i - 1, i)
