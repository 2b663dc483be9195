"""Deterministic fielded BM25 over a catalogue.

What a term adds to a product's score is computed once, for all pairs, and a query is a sum of slices of one array.
Ties go to the smaller product id; scores count as tied when they agree to nine decimals, so that the order in which
a sum was taken never decides. Measured against libraries in ``docs/results/search_engines.csv``.
"""

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from intraskill.environments.shopworld.catalogue import Catalogue, Product

K1, B = 1.2, 0.75
FIELD_WEIGHTS = {"title": 3.0, "brand": 2.0, "category": 2.0, "attributes": 1.5, "options": 1.2, "bullets": 0.8}
TIE_DECIMALS = 9
_REMEMBERED_QUERIES = 4096
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


@dataclass(frozen=True, slots=True)
class Postings:
    """What every term adds to every product that holds it. Legend: T terms, P (term, product) pairs.

    Attributes:
        terms: T distinct terms.
        starts: (T + 1,) slice of each term in ``rows`` and ``weights``.
        rows: (P,) positions of products in the catalogue, ascending within a term.
        weights: (P,) Σ over fields of field weight × BM25.
    """

    terms: tuple[str, ...]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: NDArray[np.float64]


class SearchIndex:
    """OR queries, best first, ties by product id.

    Args:
        catalogue: the products, sorted by id.
        postings: of this very catalogue, where they were computed before.
    """

    def __init__(self, catalogue: Catalogue, postings: Postings | None = None) -> None:
        self.postings = _postings_of(catalogue.products) if postings is None else postings
        self._ids = [product.id for product in catalogue.products]
        self._slices = {
            term: slice(start, stop)
            for term, start, stop in zip(
                self.postings.terms, self.postings.starts[:-1].tolist(), self.postings.starts[1:].tolist(), strict=True
            )
        }
        self.ranked = lru_cache(maxsize=_REMEMBERED_QUERIES)(self._rank)

    def search(self, query: str, limit: int) -> tuple[str, ...]:
        """Return at most ``limit`` product ids."""
        return self.ranked(" ".join(tokenize(query)), limit)

    def _rank(self, query: str, limit: int) -> tuple[str, ...]:
        score_N = np.zeros(len(self._ids))
        for term in query.split():
            if part := self._slices.get(term):
                score_N[self.postings.rows[part]] += self.postings.weights[part]
        matched = score_N > 0
        scores = score_N[matched]
        if 0 < limit < len(scores):
            # Rounding moves a score by half a unit at most, so whatever it could lift among the best is kept here.
            matched &= score_N >= np.partition(scores, -limit)[-limit] - 2 * 10.0**-TIE_DECIMALS
        found = np.flatnonzero(matched)
        order = np.argsort(-score_N[found].round(TIE_DECIMALS), kind="stable")  # rows are sorted by id: ties by id
        return tuple(self._ids[row] for row in found[order[:limit]].tolist())


def _postings_of(products: Sequence[Product]) -> Postings:
    """Compute the postings of products in the order of their catalogue."""
    documents = [_fields(product) for product in products]
    number_of: dict[str, int] = {}
    pairs, weights = [np.empty(0, np.int64)], [np.empty(0)]
    for field, weight in FIELD_WEIGHTS.items():
        bags = [tokenize(document[field]) for document in documents]
        lengths_N = np.array([len(bag) for bag in bags], dtype=np.int64)
        numbers = np.array([number_of.setdefault(t, len(number_of)) for bag in bags for t in bag], dtype=np.int64)
        rows = np.repeat(np.arange(len(bags)), lengths_N)
        pair, count = np.unique(numbers * max(1, len(bags)) + rows, return_counts=True)
        term, row = np.divmod(pair, max(1, len(bags)))
        seen = np.bincount(term, minlength=len(number_of))
        idf = _idf(seen, len(bags))
        mean_length = max(1.0, float(lengths_N.sum()) / max(1, len(bags)))
        norm = K1 * (1 - B + B * lengths_N / mean_length)
        pairs.append(pair)
        weights.append(weight * idf[term] * count * (K1 + 1) / (count + norm[row]))
    pair, place = np.unique(np.concatenate(pairs), return_inverse=True)
    term, row = np.divmod(pair, max(1, len(documents)))
    starts = np.searchsorted(term, np.arange(len(number_of) + 1))
    sums = np.bincount(place, np.concatenate(weights), minlength=len(pair)).astype(np.float64)
    return Postings(tuple(number_of), starts, row, sums)


def _idf(seen: Iterable[int], documents: int) -> NDArray[np.float64]:
    """Return log(1 + (N - n + ½) / (n + ½)) by the C library's logarithm, the same on every machine's numpy."""
    known = {n: math.log1p((documents - n + 0.5) / (n + 0.5)) for n in set(seen)}
    return np.array([known[n] for n in seen])
