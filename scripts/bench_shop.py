"""Steps per second and memory of ShopWorld, beside an environment that keeps a catalogue of its own per session.

python scripts/bench_shop.py [--presets small paper] [--languages en zh] [--repeats 5]

Episodes of a scripted shopper are recorded once and then replayed, so only `reset` and `step` are timed, in
processor time, which other programs on the machine hardly change; all variants take turns within a repeat and must
give the same pages. Writes raw rows to docs/results/bench_shop.csv and prints medians and ratios.

The copying environment is what a server does that loads its catalogue once per session: fresh records, an index of its
own in dictionaries (or a scan of every product), and no memory of queries. Its pages and rewards come from our code, so
the comparison is kind to it.
"""

import argparse
import copy
import csv
import gc
import heapq
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from intraskill.environments.shopworld import Shop, ShopWorld, session
from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.search import TIE_DECIMALS, Postings, SearchIndex, tokenize
from intraskill.environments.tool_calls import write_call
from intraskill.method.randomness import uniform

OUT = Path(__file__).parents[1] / "docs" / "results" / "bench_shop.csv"
COLUMNS = ("measure", "preset", "language", "variant", "repeat", "value", "unit")
LIMIT_ACTIONS = 30
SESSIONS = 256
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
Episode = tuple[str, list[str]]
Row = dict[str, object]


class Browser:
    """Shops the way people do: searches with parts of what the user said, turns pages, opens, goes back, buys."""

    def __init__(self, shop: Shop, task_id: str) -> None:
        task = shop.shop_task(task_id)
        self._request, self._buttons, self._task_id, self._draws = task.request, shop.strings, task_id, 0
        self._words = tokenize(f"{task.request} {task.persona or ''}")

    def _draw(self) -> float:
        self._draws += 1
        return uniform(0, "browser", self._task_id, self._draws)

    def _pick(self, items: Sequence[Any], power: float = 1.0) -> Any:
        return items[int(self._draw() ** power * len(items))]

    def act(self, state: Mapping[str, Any]) -> str:
        """Return the next tool call as text."""
        if state["page_type"] == "search_home":
            return write_call("search", "query", self._query())
        return write_call("click", "value", self._click(state))

    def _query(self) -> str:
        """Three in ten searches are the whole request, the others three to seven words in a row."""
        if self._draw() < 0.3:
            return self._request
        width = 3 + int(self._draw() * 5)
        first = int(self._draw() * max(1, len(self._words) - width))
        return " ".join(self._words[first : first + width])

    def _click(self, state: Mapping[str, Any]) -> str:
        draw, words, listed = self._draw(), self._buttons, state["actions"]
        if state["page_type"] == "information_subpage":
            return words.prev
        if state["page_type"] == "search_results":
            if draw < 0.2 and (words.next in listed or words.prev in listed):
                return words.next if words.next in listed else words.prev
            if draw < 0.3 or not state["products"]:
                return words.back
            return str(self._pick(state["products"], power=2)["id"])
        if draw < 0.25:
            return words.attributes if draw < 0.15 else words.prev
        if state["missing_option_axes"]:
            axis = state["missing_option_axes"][0]
            return f"{axis}={self._pick(state['available_options'][axis])}"
        return words.buy if draw < 0.8 else words.back


def record(shop: Shop, count: int) -> list[Episode]:
    """Play ``count`` train tasks and return their actions."""
    episodes = []
    for task in shop.tasks("train")[:count]:
        running, browser, actions = shop.open(), Browser(shop, task.id), []
        state: Mapping[str, Any] = running.reset(task.id).state
        for _ in range(LIMIT_ACTIONS):
            actions.append(browser.act(state))
            outcome = running.step(actions[-1])
            state = outcome.state
            if outcome.done:
                break
        episodes.append((task.id, actions))
    return episodes


def replay(shops: Sequence[Shop], episodes: Sequence[Episode]) -> float:
    """Replay episodes, one shop after the other; return steps per second."""
    steps, began = 0, time.process_time()
    for number, (task_id, actions) in enumerate(episodes):
        running = shops[number % len(shops)].open()
        running.reset(task_id)
        for action in actions:
            running.step(action)
        steps += len(actions)
    return steps / (time.process_time() - began)


def pages(shop: Shop, episodes: Sequence[Episode]) -> Iterator[str]:
    """Yield every page and reward of the episodes."""
    for task_id, actions in episodes:
        running = shop.open()
        yield running.reset(task_id).observation
        for action in actions:
            outcome = running.step(action)
            yield f"{outcome.observation}\n{outcome.reward}"


# -- the copying environment -------------------------------------------------------------------------------------------


class OwnIndex:
    """An inverted index in dictionaries: term → position → weight."""

    def __init__(self, postings: Postings, ids: Sequence[str]) -> None:
        self._ids, self._weights = list(ids), dict[str, dict[int, float]]()
        for term, start, stop in zip(postings.terms, postings.starts[:-1], postings.starts[1:], strict=True):
            rows = postings.rows[start:stop].tolist()
            self._weights[term] = dict(zip(rows, postings.weights[start:stop].tolist(), strict=True))

    def search(self, query: str, limit: int) -> tuple[str, ...]:
        """Add up the weights of each term and keep the best."""
        score: dict[int, float] = defaultdict(float)
        for term in tokenize(query):
            for row, weight in self._weights.get(term, {}).items():
                score[row] += weight
        best = heapq.nsmallest(limit, ((-round(value, TIE_DECIMALS), row) for row, value in score.items()))
        return tuple(self._ids[row] for _, row in best)


class OwnScan(OwnIndex):
    """A scan: every product is scored for every query."""

    def __init__(self, postings: Postings, ids: Sequence[str]) -> None:
        super().__init__(postings, ids)
        self._bags: list[dict[str, float]] = [{} for _ in ids]
        for term, rows in self._weights.items():
            for row, weight in rows.items():
                self._bags[row][term] = weight
        self._weights = {}

    def search(self, query: str, limit: int) -> tuple[str, ...]:
        """Score every product."""
        terms = tokenize(query)
        scores = (
            (-round(sum(bag.get(t, 0.0) for t in terms), TIE_DECIMALS), row) for row, bag in enumerate(self._bags)
        )
        best = heapq.nsmallest(limit, (pair for pair in scores if pair[0]))
        return tuple(self._ids[row] for _, row in best)


class NoMemory:
    """Our index, every query computed."""

    def __init__(self, index: SearchIndex) -> None:
        self._rank = index.ranked.__wrapped__

    def search(self, query: str, limit: int) -> tuple[str, ...]:
        """Rank without looking up earlier queries."""
        return tuple(self._rank(" ".join(tokenize(query)), limit))


def with_index(shop: Shop, index: object, catalogue: Catalogue | None = None) -> Shop:
    """Return a shop with another index, and with its own catalogue where one is given."""
    other = copy.copy(shop)
    other.index = index  # type: ignore[assignment]
    other.catalogue = catalogue or shop.catalogue
    return other


def copied(shop: Shop, file: str, index: Callable[[Postings, Sequence[str]], OwnIndex]) -> Shop:
    """Return a shop that has read its own catalogue from the text of a file."""
    products = []
    for row in json.loads(file):
        axes = {axis: tuple(OptionValue(**value) for value in values) for axis, values in row.pop("axes").items()}
        frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        products.append(Product(**frozen, axes=axes))
    catalogue = Catalogue(products)
    return with_index(shop, index(shop.index.postings, [product.id for product in products]), catalogue)


def copy_arrays(shop: Shop, other: Shop) -> SearchIndex:
    """Return our index for the catalogue of a copy, with arrays of its own."""
    return SearchIndex(other.catalogue, copy.deepcopy(shop.index.postings))


def file_of(shop: Shop) -> str:
    """Return the catalogue as a server would keep it on disk."""
    return json.dumps([asdict(product) for product in shop.catalogue.products], ensure_ascii=False)


# -- measures ----------------------------------------------------------------------------------------------------------


def steps_of(shop: Shop, count: int, repeats: int, copies: int) -> Iterator[Row]:
    """Steps per second of every variant, in turns."""
    episodes = record(shop, count)
    kinds = Counter("search" if '"search"' in action else "click" for _, actions in episodes for action in actions)
    shop.index.ranked.cache_clear()
    file = file_of(shop)
    own = [copied(shop, file, OwnIndex) for _ in range(copies)]
    scan = [copied(shop, file, OwnScan)]
    arrays = [with_index(other, NoMemory(copy_arrays(shop, other)), other.catalogue) for other in own]
    part, few = episodes[: count // 4], episodes[: max(4, count // 40)]
    expected = list(pages(shop, few))
    assert all(list(pages(other, few)) == expected for other in (own[0], scan[0], arrays[0])), (
        "the copies give other pages"
    )
    shop.index.ranked.cache_clear()
    replay([shop], episodes)
    remembered = shop.index.ranked.cache_info()
    yield {"variant": "steps", "value": sum(kinds.values()), "unit": "count"}
    yield {"variant": "searches", "value": kinds["search"], "unit": "count"}
    yield {"variant": "searches answered from memory", "value": remembered.hits, "unit": "count"}
    variants: dict[str, Callable[[], float]] = {
        "shared, memory empty at first": lambda: replay([shop], episodes),
        "shared, all queries seen before": lambda: replay([shop], episodes),
        "shared, no memory of queries": partial(replay, [with_index(shop, NoMemory(shop.index))], episodes),
        "copies, our index": partial(replay, arrays, episodes),
        "copies, own index": partial(replay, own, part),
        "copies, scan": partial(replay, scan, few),
    }
    for repeat in range(repeats):
        shop.index.ranked.cache_clear()
        for name, run in variants.items():
            yield {"variant": name, "repeat": repeat, "value": run(), "unit": "steps/s"}


def shares_of(shop: Shop, count: int, repeats: int) -> Iterator[Row]:
    """Where the time of a step goes, µs per step, every query computed."""
    spent: Counter[str] = Counter()

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            began = time.process_time()
            found = work(*args, **kwargs)
            spent[name] += time.process_time() - began  # type: ignore[assignment]
            return found

        return run

    episodes = record(shop, count)
    other = with_index(shop, NoMemory(shop.index))
    other.index.search = timed("search", other.index.search)  # type: ignore[method-assign]
    other.score = timed("reward", shop.score)  # type: ignore[method-assign]
    real = session.read_call, session.render, session.ShopSession.state
    session.read_call, session.render = timed("read the call", real[0]), timed("render the page", real[1])
    session.ShopSession.state = property(timed("public state", real[2].fget))  # type: ignore[assignment, misc, arg-type]
    try:
        for repeat in range(repeats):
            spent.clear()
            steps = sum(len(actions) for _, actions in episodes)
            total = steps / replay([other], episodes)
            parts = dict(spent) | {"the rest": total - sum(spent.values())}
            for name, seconds in parts.items():
                yield {"variant": name, "repeat": repeat, "value": seconds / steps * 1e6, "unit": "us/step"}
    finally:
        session.read_call, session.render = real[0], real[1]
        session.ShopSession.state = real[2]  # type: ignore[method-assign]


def resident() -> float:
    """Memory of this process, MiB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 2**20


def memory_of(shop: Shop, copies: int) -> Iterator[Row]:
    """Memory of 256 sessions in the middle of their episodes, and of copies; this process must be fresh."""
    episodes = record(shop, SESSIONS)
    shop.index.ranked.cache_clear()
    before, began = resident(), time.process_time()
    running = [shop.open() for _ in range(SESSIONS)]
    opened = time.process_time() - began
    latest = [live.reset(episodes[i % len(episodes)][0]) for i, live in enumerate(running)]
    for turn in range(LIMIT_ACTIONS):
        for i, live in enumerate(running):
            actions = episodes[i % len(episodes)][1]
            if turn < len(actions) - 1:
                latest[i] = live.step(actions[turn])  # type: ignore[call-overload]
    yield {"variant": f"shared, {SESSIONS} sessions", "value": resident() - before, "unit": "MiB"}
    yield {"variant": f"shared, {SESSIONS} sessions opened", "value": opened, "unit": "s"}
    file, before, began = file_of(shop), resident(), time.process_time()
    own = [copied(shop, file, OwnIndex) for _ in range(copies)]
    took = time.process_time() - began
    per_copy = (resident() - before) / len(own)
    yield {"variant": "copies, own index, one session", "value": per_copy, "unit": "MiB"}
    yield {"variant": f"copies, {SESSIONS} sessions, extrapolated", "value": per_copy * SESSIONS, "unit": "MiB"}
    yield {
        "variant": f"copies, {SESSIONS} sessions opened, extrapolated",
        "value": took / copies * SESSIONS,
        "unit": "s",
    }


def load_of(preset: str, language: str) -> Iterator[Row]:
    """Time and memory of making a world whose file is there, then of its version; this process must be fresh."""
    before, began, waited = resident(), time.process_time(), time.perf_counter()
    shop = ShopWorld(preset, language=language)
    yield {"variant": "world from its file", "value": time.process_time() - began, "unit": "s"}
    yield {"variant": "world from its file, by the clock", "value": time.perf_counter() - waited, "unit": "s"}
    yield {"variant": "world from its file, memory", "value": resident() - before, "unit": "MiB"}
    began = time.process_time()
    _ = shop.version
    yield {"variant": "version", "value": time.process_time() - began, "unit": "s"}


def fresh(measure: str, preset: str, language: str) -> list[Row]:
    """Run one measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", measure, "--presets", preset, "--languages", language]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def all_rows(presets: Sequence[str], languages: Sequence[str], repeats: int) -> Iterator[Row]:
    """Measure everything."""
    for language in languages:
        for preset in presets:
            shop = ShopWorld(preset, language=language)
            where = {"preset": preset, "language": language}
            for row in steps_of(shop, 600, repeats, copies=8 if preset == "small" else 2):
                yield {"measure": "speed", **where, **row}
            for row in shares_of(shop, 600, repeats):
                yield {"measure": "time of a step", **where, **row}
            del shop
            for repeat in range(repeats):
                for row in fresh("load", preset, language):
                    yield {"measure": "load", **where, "repeat": repeat, **row}
                for row in fresh("memory", preset, language):
                    yield {"measure": "memory", **where, "repeat": repeat, **row}


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one line per quantity: median, range, and the ratio to the shared variant."""
    values: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        values[tuple(str(row[key]) for key in ("measure", "preset", "language", "variant", "unit"))].append(
            float(str(row["value"]))
        )
    for key, found in values.items():
        reference = values.get((*key[:3], "shared, memory empty at first", key[4]))
        ratio = f"  × {median(found) / median(reference):.3f}" if reference else ""
        yield f"{' | '.join(key[:4]):<90}{median(found):>12,.1f} [{min(found):,.1f}, {max(found):,.1f}] {key[4]}{ratio}"


def main() -> None:
    """Write the rows and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["small", "paper"])
    parser.add_argument("--languages", nargs="+", default=["en", "zh"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=("load", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    if arguments.measure:
        preset, language = arguments.presets[0], arguments.languages[0]
        if arguments.measure == "load":
            found = load_of(preset, language)
        else:
            found = memory_of(ShopWorld(preset, language=language), copies=8 if preset == "small" else 1)
        for row in found:
            print(json.dumps(row))
        return
    rows = []
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for row in all_rows(arguments.presets, arguments.languages, arguments.repeats):
            rows.append({"repeat": 0, **row})
            writer.writerow({**rows[-1], "value": f"{row['value']:.6g}"})
            file.flush()
    for line in summary(rows):
        print(line)


if __name__ == "__main__":
    main()
