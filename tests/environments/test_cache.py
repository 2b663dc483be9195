"""Worlds on disk: what is read equals what was built, and no broken file or directory stops or changes a world."""

import hashlib
import json
import logging
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from intraskill.environments.shopworld import Settings, Shop, ShopWorld, cache
from intraskill.environments.shopworld.catalogue import Catalogue, OptionValue, Product
from intraskill.environments.shopworld.plain.generate import generate
from intraskill.environments.shopworld.splits import assign_splits
from intraskill.method.randomness import content_hash

KEY = ("plain", "tiny", 3)
Corrupt = Callable[[bytes], bytes]


def build(seed: int = 3) -> cache.Built:
    catalogue, tasks = generate("tiny", seed)
    return catalogue, assign_splits(tasks, seed)


def never() -> cache.Built:
    raise AssertionError("the world was built, though its file is there")


def version(world: cache.Loaded) -> str:
    return Shop(world[0], world[1], Settings(language="plain")).version


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INTRASKILL_CACHE", str(tmp_path / "worlds"))
    return tmp_path / "worlds"


def only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


def test_what_is_read_equals_what_was_built(folder: Path) -> None:
    built = cache.load_or_build(KEY, build)
    read = cache.load_or_build(KEY, never)
    assert read[0].products == built[0].products and list(read[1]) == list(built[1])
    assert read[0].hash == built[0].hash and version(read) == version(built)
    for task in built[1]:
        assert read[2].search(task.instruction, 150) == built[2].search(task.instruction, 150) != ()
    assert version(read) != version(cache.load_or_build(("plain", "tiny", 4), lambda: build(4)))


@pytest.mark.parametrize("language", ["plain", "en", "zh"])
def test_a_world_has_one_version_built_read_or_never_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    versions = {ShopWorld("tiny", 3, language=language).version for _ in ("built", "read")}
    assert only_file(folder).is_file()
    monkeypatch.setenv("INTRASKILL_CACHE", os.devnull)
    assert versions == {ShopWorld("tiny", 3, language=language).version}
    assert versions != {ShopWorld("tiny", 4, language=language).version}


def test_a_price_keeps_its_type_and_a_product_every_field(folder: Path) -> None:
    axes = {"尺码": (OptionValue("a/b", 3), OptionValue("大号", 3.0), OptionValue("m")), "empty": ()}
    twins = [
        Product(i, "杯 \u2028 \ud7ff", "?", ("x",), (), ("",), price, axes, "mug")
        for i, price in (("a", 3), ("b", 3.5))
    ]
    read = [cache.load_or_build(("zh", "odd", 0), lambda: (Catalogue(twins), ())) for _ in range(2)][1]
    assert repr(read[0].products) == repr(tuple(twins))
    assert read[0].hash == content_hash([asdict(twin) for twin in twins])


def test_another_seed_preset_language_or_source_is_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in (KEY, ("plain", "tiny", 4), ("en", "tiny", 3), ("plain", "small", 3)):
        cache.load_or_build(key, build)
    assert len(list(folder.iterdir())) == 4
    monkeypatch.setattr(cache, "_source_hash", lambda: "the source after an edit")
    cache.load_or_build(("plain", "tiny", 5), build)
    assert len(list(folder.iterdir())) == 4, "a process older than the edit leaves no file"
    monkeypatch.setattr(cache, "_SOURCE", "the source after an edit")
    cache.load_or_build(KEY, build)
    assert len(list(folder.iterdir())) == 5


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def resealed(content: bytes) -> bytes:
    """A payload that is no world, under a hash that fits it."""
    payload = content[len(cache.MAGIC) + 32 :][:200]
    return cache.MAGIC + hashlib.sha256(payload).digest() + payload


@pytest.mark.parametrize(
    "corrupt",
    [
        flip,
        resealed,
        lambda content: content[: len(content) // 2],
        lambda content: content[:10],
        lambda content: b"",
        lambda content: content + b"more",
        lambda content: content.replace(b"intraskill-world-1", b"intraskill-world-0"),
        lambda content: json.dumps({"products": []}).encode(),
        lambda content: b"\x80\x04cos\nsystem\n(S'false'\ntR.",
    ],
    ids=["flipped", "resealed", "half", "header", "empty", "longer", "version", "json", "pickle"],
)  # fmt: skip
def test_a_broken_file_is_one_warning_and_a_rebuild(
    folder: Path, caplog: pytest.LogCaptureFixture, corrupt: Corrupt
) -> None:
    built = cache.load_or_build(KEY, build)
    file = only_file(folder)
    whole = file.read_bytes()
    file.write_bytes(corrupt(whole))
    with caplog.at_level(logging.WARNING):
        again = cache.load_or_build(KEY, build)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(file) in caplog.text and "corrupt or foreign" in caplog.text and "\n" not in caplog.messages[0]
    assert version(again) == version(built)
    assert only_file(folder).read_bytes() == whole
    caplog.clear()
    cache.load_or_build(KEY, never)
    assert not caplog.records


def test_a_file_of_another_world_under_this_name_is_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache.load_or_build(("plain", "tiny", 4), lambda: build(4))
    other = only_file(folder)
    built = cache.load_or_build(KEY, build)
    (file,) = (path for path in folder.iterdir() if path != other)
    file.write_bytes(other.read_bytes())
    assert version(cache.load_or_build(KEY, build)) == version(built)
    assert "it holds another world" in caplog.text


def test_a_directory_that_cannot_be_made_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("INTRASKILL_CACHE", str(tmp_path / "file" / "worlds"))
    assert cache.load_or_build(KEY, build)[0].products
    assert len(caplog.records) == 1 and "cannot be written" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_an_unwritable_directory_is_one_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir(mode=0o500)
    assert cache.load_or_build(KEY, build)[0].products
    assert len(caplog.records) == 1 and "cannot be written" in caplog.text
    assert not list(folder.iterdir())


def test_a_full_disk_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    assert cache.load_or_build(KEY, build)[0].products
    assert len(caplog.records) == 1 and "No space left" in caplog.text
    assert not list(folder.iterdir())


def race(folder: str, results: Any, barrier: Any) -> None:
    os.environ["INTRASKILL_CACHE"] = folder
    barrier.wait()
    results.put(version(cache.load_or_build(KEY, build)))


def test_two_processes_may_build_at_once(folder: Path) -> None:
    fork = multiprocessing.get_context("fork")
    results, barrier = fork.SimpleQueue(), fork.Barrier(2)
    both = [fork.Process(target=race, args=(str(folder), results, barrier)) for _ in range(2)]
    for process in both:
        process.start()
    found = {results.get() for _ in both}
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert found == {version(cache.load_or_build(KEY, never))}
    only_file(folder)


def test_the_oldest_files_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT_FILES", 2)
    for seed in range(4):
        cache.load_or_build(("plain", "tiny", seed), lambda: (Catalogue([]), ()))
        for file in folder.iterdir():
            os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns - 10**9))
    assert len(list(folder.iterdir())) == 2
    with pytest.raises(AssertionError, match="was built"):
        cache.load_or_build(("plain", "tiny", 0), never)
    cache.load_or_build(("plain", "tiny", 3), never)


def test_a_users_own_files_beside_the_worlds_are_never_deleted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT_FILES", 1)
    folder.mkdir()
    own = [
        folder / name
        for name in ("my-world-notes.txt", "world-map.bin", "world-cup.csv", ".worlds", "hello-world-1.bin")
    ]
    left = [folder / name for name in (f"world-{content_hash('old')}.bin", ".world-k3v0_x1z")]
    for age, file in enumerate([*own, *left]):
        file.write_text("mine")
        os.utime(file, (age, age))
    cache.load_or_build(KEY, build)
    assert all(file.exists() for file in own)
    assert not any(file.exists() for file in left)  # ours, and beyond the number that is kept


def test_the_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTRASKILL_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.directory() == tmp_path / ".cache" / "intraskill"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.directory() == tmp_path / "xdg" / "intraskill"
    monkeypatch.setenv("INTRASKILL_CACHE", str(tmp_path / "own"))
    assert cache.directory() == tmp_path / "own"
