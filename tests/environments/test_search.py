"""Search against a slow, literal BM25 from its definition: English, Chinese, ties, words that no product holds."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.search import FIELD_WEIGHTS, K1, TIE_DECIMALS, B, SearchIndex, tokenize
from intraskill.method.randomness import shuffled, uniform

ENGLISH = ("red", "blue", "wool", "steel", "mug", "jacket", "lamp", "warm", "light", "large", "3", "nova")
CHINESE = ("防水外套", "羊毛", "保温杯", "红色", "蓝色", "大号", "轻便", "不锈钢", "台灯", "诺瓦", "3号", "杯")
QUERY_WORDS = {"en": ENGLISH, "zh": (*CHINESE, "防水", "外套杯", "钢台")}
LIMITS = (1, 2, 3, 7, 20, 150)


def some(words: Sequence[str], count: int, *where: str | int) -> list[str]:
    return [words[int(uniform(5, "word", *where, i) * len(words))] for i in range(count)]


def product(words: Sequence[str], number: int) -> Product:
    """A drawn product; every third one repeats the text of the one before, so that ties are common."""
    text = number - 1 if number % 3 == 2 else number
    title, brand, attributes = (some(words, n, name, text) for name, n in (("title", 4), ("brand", 1), ("attr", 3)))
    category, bullets, sizes = (some(words, n, name, text) for name, n in (("cat", 2), ("bullet", 5), ("size", 2)))
    axes = {"size": tuple(OptionValue(size) for size in sizes)} if text % 2 else {}
    ids = f"p{(number * 37) % 1000:03d}"
    return Product(ids, " ".join(title), brand[0], tuple(category), tuple(attributes), (" ".join(bullets),), 9.0, axes)


@pytest.fixture(scope="module", params=["en", "zh"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def catalogue(language: str) -> Catalogue:
    return Catalogue(product({"en": ENGLISH, "zh": CHINESE}[language], number) for number in range(90))


def texts(item: Product) -> dict[str, str]:
    options = [option.value for values in item.axes.values() for option in values]
    return {
        "title": item.title,
        "brand": item.brand,
        "category": " ".join(item.category),
        "attributes": " ".join(item.attributes),
        "options": " ".join(options),
        "bullets": " ".join(item.bullets),
    }


def literal_bm25(catalogue: Catalogue, query: str, weights: Mapping[str, float]) -> list[str]:
    """Every matching id, best first, ties by id: the definition, one product, field and query word at a time."""
    scores: dict[str, float] = {item.id: 0.0 for item in catalogue.products}
    for field, weight in weights.items():
        bags = {item.id: Counter(tokenize(texts(item)[field])) for item in catalogue.products}
        mean = max(1.0, sum(bag.total() for bag in bags.values()) / len(bags))
        for word in tokenize(query):
            holders = [key for key, bag in bags.items() if bag[word]]
            idf = math.log(1 + (len(bags) - len(holders) + 0.5) / (len(holders) + 0.5))
            for key in holders:
                count, length = bags[key][word], bags[key].total()
                scores[key] += weight * idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean))
    found = [key for key, score in scores.items() if score > 0]
    return sorted(found, key=lambda key: (-round(scores[key], TIE_DECIMALS), key))


def queries(language: str) -> list[str]:
    words = QUERY_WORDS[language]
    drawn = [" ".join(some(words, 1 + number % 6, "query", number)) for number in range(40)]
    return [*drawn, f"{words[0]} {words[0]} {words[3]}", f"{words[1]} qqq 龘龘", f"{words[2].upper()},{words[4]}!"]


def test_the_ranking_is_the_definition_at_every_length(language: str, catalogue: Catalogue) -> None:
    index = SearchIndex(catalogue)
    for query in queries(language):
        wanted = literal_bm25(catalogue, query, FIELD_WEIGHTS)
        for limit in LIMITS:
            assert list(index.search(query, limit)) == wanted[:limit], (query, limit)


def test_the_definition_with_other_field_weights_ranks_otherwise(language: str, catalogue: Catalogue) -> None:
    index = SearchIndex(catalogue)
    flat = dict.fromkeys(FIELD_WEIGHTS, 1.0)
    same = [list(index.search(query, 20)) == literal_bm25(catalogue, query, flat)[:20] for query in queries(language)]
    assert sum(same) < len(same) / 2


def test_equal_products_come_by_id_also_where_the_list_is_cut(catalogue: Catalogue) -> None:
    twins = [Product(i, "red mug", "nova", ("mug",), (), (), 1.0, {}) for i in shuffled("abcdefgh", 0)]
    index = SearchIndex(Catalogue([*twins, Product("x", "red red mug", "nova", ("mug",), (), (), 1.0, {})]))
    assert index.search("mug", 8) == tuple("abcdefgh")
    assert index.search("mug", 3) == tuple("abc")
    assert index.search("red", 2) == ("x", "a")


def test_nothing_is_found_for_nothing(language: str, catalogue: Catalogue) -> None:
    index = SearchIndex(catalogue)
    for query in ("", "  ", "?!", "qqq zzz", "龘龘"):
        assert index.search(query, 20) == ()
    assert index.search(QUERY_WORDS[language][0], 0) == ()
    assert index.search(QUERY_WORDS[language][0], 20)


def test_an_empty_catalogue_answers_every_query_with_nothing() -> None:
    assert SearchIndex(Catalogue([])).search("red mug", 20) == ()


def test_full_width_letters_and_case_are_the_same_word(catalogue: Catalogue) -> None:
    index = SearchIndex(catalogue)
    assert index.search("3", 20) == index.search("\uff13", 20) != ()
    assert tokenize("ＲＥＤ Straße") == ["red", "strasse"]


def test_a_repeated_query_is_answered_from_memory_however_it_is_written(catalogue: Catalogue) -> None:
    index = SearchIndex(catalogue)
    for query in ("Red MUG", "red, mug", "red mug"):
        index.search(query, 20)
    assert (index.ranked.cache_info().hits, index.ranked.cache_info().misses) == (2, 1)
    index.search("mug red", 20)
    assert index.ranked.cache_info().misses == 2


def test_a_remembered_answer_is_no_longer_than_the_limit() -> None:
    index = SearchIndex(Catalogue(Product(f"{i:04d}", "mug", "", (), (), (), 1.0, {}) for i in range(500)))
    assert len(index.ranked("mug", 20)) == 20
