"""ShopWorld's search beside well-kept engines: is the ranking the definition's, and what does a query take?

pip install bm25s tantivy && python scripts/search_engines.py [--queries N] [--presets small paper]

Writes docs/results/search_engines.csv. An engine that is not installed is left out. All read the same tokens; a ranking
counts as exact when its first 150 ids equal those of the definition (fielded BM25, ties by id), which
tests/environments/test_search.py pins to a literal implementation. Engines take turns within a repeat; seconds are
processor time.
"""

import argparse
import csv
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from intraskill.environments.shopworld import cache
from intraskill.environments.shopworld.catalogue import Catalogue
from intraskill.environments.shopworld.market.generate import generate
from intraskill.environments.shopworld.search import FIELD_WEIGHTS, K1, B, SearchIndex, _fields, tokenize
from intraskill.environments.shopworld.splits import assign_splits
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.randomness import shuffled

OUT = Path(__file__).parents[1] / "docs" / "results" / "search_engines.csv"
COLUMNS = ("documents", "language", "engine", "queries", "exact_share", "same_top20", "ms_per_query", "build_s")
LIMIT, SHOWN = 150, 20
Search = Callable[[Sequence[str]], list[str]]


def shopworld(catalogue: Catalogue) -> Search:
    """Our index, without its memory of earlier queries."""
    index = SearchIndex(catalogue)
    return lambda tokens: list(index.ranked.__wrapped__(" ".join(tokens), LIMIT))


def sqlite_fts5(catalogue: Catalogue) -> Search:
    """SQLite's full-text index: weighted columns inside one BM25 per document, another formula than the definition."""
    base = sqlite3.connect(":memory:")
    names = list(FIELD_WEIGHTS)
    base.execute(f"create virtual table shop using fts5(id unindexed, {', '.join(names)})")
    rows = [(product.id, *map(_tokens_of, _texts(product))) for product in catalogue.products]
    base.executemany(f"insert into shop values ({', '.join('?' * (1 + len(names)))})", rows)
    weights = ", ".join(str(weight) for weight in (0.0, *FIELD_WEIGHTS.values()))
    ask = f"select id from shop where shop match ? order by bm25(shop, {weights}), id limit {LIMIT}"
    return lambda tokens: [row[0] for row in base.execute(ask, (" OR ".join(f'"{token}"' for token in tokens),))]


def bm25s_fields(catalogue: Catalogue) -> Search:
    """One bm25s index per field, their scores weighted and summed by us: the definition up to float32."""
    import bm25s

    ids = [product.id for product in catalogue.products]
    texts = [_texts(product) for product in catalogue.products]
    indexes = []
    for number, weight in enumerate(FIELD_WEIGHTS.values()):
        index = bm25s.BM25(k1=K1, b=B, method="lucene")
        index.index([tokenize(text[number]) or [""] for text in texts], show_progress=False)
        indexes.append((weight, index))

    def search(tokens: Sequence[str]) -> list[str]:
        score = np.zeros(len(ids), dtype=np.float32)
        for weight, index in indexes:
            known = [token for token in tokens if token in index.vocab_dict]
            if known:
                score += weight * index.get_scores(known)
        return _best(score, ids)

    return search


def bm25s_flat(catalogue: Catalogue) -> Search:
    """One bm25s index over all text, which has no field weights."""
    import bm25s

    ids = [product.id for product in catalogue.products]
    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index([tokenize(" ".join(_texts(product))) for product in catalogue.products], show_progress=False)

    def search(tokens: Sequence[str]) -> list[str]:
        known = [token for token in tokens if token in index.vocab_dict]
        return _best(index.get_scores(known), ids) if known else []

    return search


def tantivy_fields(catalogue: Catalogue) -> Search:
    """Tantivy with one boosted term query per field and token; lengths are kept in one byte, scores in float32."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    for name in FIELD_WEIGHTS:
        builder.add_text_field(name, tokenizer_name="whitespace")
    schema = builder.build()
    index = tantivy.Index(schema)
    writer = index.writer(num_threads=1)
    for product in catalogue.products:
        fields = dict(zip(FIELD_WEIGHTS, map(_tokens_of, _texts(product)), strict=True))
        writer.add_document(tantivy.Document(id=product.id, **fields))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher, query, should = index.searcher(), tantivy.Query, tantivy.Occur.Should

    def search(tokens: Sequence[str]) -> list[str]:
        parts = [
            (should, query.boost_query(query.term_query(schema, name, token), weight))
            for token in tokens
            for name, weight in FIELD_WEIGHTS.items()
        ]
        hits = searcher.search(query.boolean_query(parts), LIMIT).hits
        return [searcher.doc(address)["id"][0] for _, address in hits]

    return search


ENGINES = {
    "shopworld": shopworld,
    "sqlite fts5, column weights": sqlite_fts5,
    "bm25s, one index per field": bm25s_fields,
    "bm25s, one field": bm25s_flat,
    "tantivy, boosted terms": tantivy_fields,
}


def _texts(product: object) -> list[str]:
    return list(_fields(product).values())  # type: ignore[arg-type]


def _tokens_of(text: str) -> str:
    return " ".join(tokenize(text))


def _best(score: np.ndarray, ids: Sequence[str]) -> list[str]:
    found = np.flatnonzero(score > 0)
    if len(found) > LIMIT:
        found = np.sort(found[np.argpartition(-score[found], LIMIT)[:LIMIT]])
    return [ids[row] for row in found[np.argsort(-score[found], kind="stable")].tolist()]


def _overlap(own: Sequence[str], want: Sequence[str]) -> float:
    return len({*own} & {*want}) / len(want) if want else float(not own)


def queries_of(tasks: Sequence[ShopTask], count: int) -> list[list[str]]:
    """Return token lists: full requests, and two to six words drawn from one, in equal parts."""
    found = []
    for number, task in enumerate(tasks[:count]):
        tokens = tokenize(task.instruction)
        marked = [f"{place} {token}" for place, token in enumerate(tokens)]
        drawn = [word.split(" ")[1] for word in shuffled(marked, 0, "words", number)[: 2 + number % 5]]
        found.append(tokens if number % 2 else drawn)
    return found


def measure(preset: str, language: str, count: int, repeats: int) -> list[dict[str, object]]:
    """Return one row per engine."""

    def build() -> cache.Built:
        catalogue, tasks = generate(language, preset, 0)
        return catalogue, assign_splits(tasks, 0)

    catalogue, tasks, _ = cache.load_or_build((language, preset, 0), build)
    queries = queries_of(tasks, count)
    engines, built = {}, {}
    for name, make in ENGINES.items():
        began = time.process_time()
        try:
            engines[name] = make(catalogue)
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        built[name] = time.process_time() - began
    answers = {name: [search(query) for query in queries] for name, search in engines.items()}
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(repeats):
        for name, search in engines.items():
            began = time.process_time()
            for query in queries:
                search(query)
            seconds[name].append(time.process_time() - began)
    right = answers["shopworld"]
    rows = []
    for name, found in answers.items():
        exact = np.mean([own == want for own, want in zip(found, right, strict=True)])
        top = np.mean([_overlap(own[:SHOWN], want[:SHOWN]) for own, want in zip(found, right, strict=True)])
        per_query = median(seconds[name]) / len(queries) * 1000
        values = (
            len(catalogue.products),
            language,
            name,
            len(queries),
            f"{exact:.3f}",
            f"{top:.3f}",
            f"{per_query:.3f}",
            f"{built[name]:.2f}",
        )
        rows.append(dict(zip(COLUMNS, values, strict=True)))
        print(*values, sep=" | ", flush=True)
    return rows


def main() -> None:
    """Measure every engine at both sizes in both languages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--presets", nargs="+", default=["small", "paper"])
    parser.add_argument("--languages", nargs="+", default=["en", "zh"])
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    with arguments.out.open("w", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS)
        rows.writeheader()
        for preset in arguments.presets:
            for language in arguments.languages:
                rows.writerows(measure(preset, language, arguments.queries, arguments.repeats))


if __name__ == "__main__":
    main()
