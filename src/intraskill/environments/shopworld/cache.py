"""Generated worlds on disk: whole files without code in them, checked at each load, never needed.

A file's name is the hash of everything that its world is made from: the language, preset and seed, and the source of
the shop. So a file is never out of date, only unused; the oldest ones beyond a few dozen are deleted.
"""

import contextlib
import gc
import hashlib
import io
import json
import logging
import os
import re
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.reward import Goal
from intraskill.environments.shopworld.search import Postings, SearchIndex
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method import randomness
from intraskill.method.randomness import content_hash

Built = tuple[Catalogue, Sequence[ShopTask]]
Loaded = tuple[Catalogue, Sequence[ShopTask], SearchIndex]

MAGIC = b"intraskill-world-1\n"
KEPT_FILES = 32
_SOURCES = (".py", ".yaml", ".json", ".jsonl", ".txt", ".csv")
_OWN_NAME = re.compile(r"world-[0-9a-f]{16}\.bin|\.world-[a-z0-9_]{8}")  # others' files may lie in the same directory
_DIGEST_BYTES = hashlib.sha256().digest_size
_BROKEN = (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
_PRODUCT = tuple(field.name for field in fields(Product))
_TASK = tuple(field.name for field in fields(ShopTask))
_log = logging.getLogger(__name__)


def load_or_build(key: Sequence[str | int], build: Callable[[], Built]) -> Loaded:
    """Return a world from its file, or build it and leave a file for the next time.

    Two processes may do this at once: each writes its own file aside and renames it, and both hold the same bytes.

    Args:
        key: what the world is generated from besides the source of the shop: language, preset, seed.
        build: makes the catalogue and the tasks with their splits; a pure function of ``key``.
    """
    own_key = [*key, _SOURCE]
    path = directory() / f"world-{content_hash(own_key)}.bin"
    if (found := _read(path, own_key)) is not None:
        return found
    catalogue, tasks = build()
    index = SearchIndex(catalogue)
    if _source_hash() != _SOURCE:  # edited while this process ran: part of the world may come from the new files
        return catalogue, tasks, index
    try:
        _write(path, _encode(own_key, catalogue, tasks, index.postings))
    except OSError as error:
        _log.warning("%s cannot be written (%s); the world is built anew each time until it can", path, error)
    return catalogue, tasks, index


def directory() -> Path:
    """Return ``$INTRASKILL_CACHE``, else ``$XDG_CACHE_HOME/intraskill``, else ``~/.cache/intraskill``."""
    if own := os.environ.get("INTRASKILL_CACHE"):
        return Path(own)
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path(os.path.expanduser("~/.cache"))) / "intraskill"


def _source_hash() -> str:
    """Hash the shop's source and word lists, and the version of the Unicode tables that its tokens come from."""
    folder = Path(__file__).parent
    files = [file for file in sorted(folder.rglob("[!.]*")) if file.suffix in _SOURCES and not _hidden(file, folder)]
    texts = [(file.name, file.read_text(encoding="utf-8")) for file in [*files, Path(randomness.__file__)]]
    return content_hash(unicodedata.unidata_version, texts)


def _hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


_SOURCE = _source_hash()  # at import: a file that is edited later is not the code that runs here


def _read(path: Path, key: Sequence[str | int]) -> Loaded | None:
    """Return the world of a file; ``None`` when there is none, or when it is not what was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, payload = content[len(MAGIC) :][:_DIGEST_BYTES], content[len(MAGIC) + _DIGEST_BYTES :]
    try:
        if not content.startswith(MAGIC):
            raise ValueError("it is not a world of this version")
        if hashlib.sha256(payload).digest() != digest:
            raise ValueError("its content does not fit its hash")
        with _no_collection():
            return _decode(payload, key)
    except _BROKEN as error:
        _log.warning("%s is corrupt or foreign (%s); its world is built anew and the file replaced", path, error)
        return None


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Spare the cycle collector's passes over hundreds of thousands of new records: a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _write(path: Path, payload: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".world-", dir=path.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(MAGIC + hashlib.sha256(payload).digest() + payload)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _forget_oldest(path.parent)


def _forget_oldest(folder: Path) -> None:
    with contextlib.suppress(
        OSError
    ):  # another process may delete the same files; what a killed one left aside ages too
        own = [file for file in folder.iterdir() if _OWN_NAME.fullmatch(file.name)]
        newest = sorted(own, key=lambda file: file.stat().st_mtime, reverse=True)
        for file in newest[KEPT_FILES:]:
            file.unlink()


# -- the content: arrays, and rows of JSON in the order of each record's fields --------------------------------------


def _encode(key: Sequence[str | int], catalogue: Catalogue, tasks: Sequence[ShopTask], postings: Postings) -> bytes:
    text = json.dumps(
        {
            "key": key,
            "terms": postings.terms,
            "products": [_row(product) for product in catalogue.products],
            "tasks": [_row(task) for task in tasks],
        },
        ensure_ascii=False,
        separators=(",", ":"),
        default=_row,
    )
    file = io.BytesIO()
    np.savez(
        file,
        text=np.frombuffer(zlib.compress(text.encode(), 1), dtype=np.uint8),
        starts=postings.starts,
        rows=postings.rows.astype(np.int32),
        weights=postings.weights,
    )
    return file.getvalue()


def _row(record: Any) -> list[Any]:
    return [getattr(record, field.name) for field in fields(record)]


def _decode(payload: bytes, key: Sequence[str | int]) -> Loaded:
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        content = json.loads(zlib.decompress(arrays["text"].tobytes()))
        starts, rows, weights = arrays["starts"], arrays["rows"].astype(np.int64), arrays["weights"]
    if content["key"] != list(key):
        raise ValueError("it holds another world")
    shared: dict[Any, Any] = {}
    catalogue = Catalogue(_product(row, shared) for row in content["products"])
    tasks = [_task(row) for row in content["tasks"]]
    return catalogue, tasks, SearchIndex(catalogue, Postings(tuple(content["terms"]), starts, rows, weights))


def _product(row: list[Any], shared: dict[Any, Any]) -> Product:
    """Build one product; equal parts of two products are one object, as in a generated catalogue."""
    named = dict(zip(_PRODUCT, row, strict=True))
    for name, value in named.items():
        if isinstance(value, list):
            part = tuple(value)
            named[name] = shared.setdefault(part, part)
    axes = {
        axis: tuple([_option(value[0], value[1], shared) for value in values])
        for axis, values in named.pop("axes").items()
    }
    return Product(**named, axes=axes)


def _option(value: str, price: float | None, shared: dict[Any, Any]) -> OptionValue:
    written = (value, price, type(price))  # 3 and 3.0 are equal, but a catalogue's hash tells them apart
    if (found := shared.get(written)) is None:
        found = shared[written] = OptionValue(value, price)
    return cast(OptionValue, found)


def _task(row: list[Any]) -> ShopTask:
    named = dict(zip(_TASK, row, strict=True))
    return ShopTask(**{**named, "goal": Goal(*map(_frozen, named["goal"]))})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
