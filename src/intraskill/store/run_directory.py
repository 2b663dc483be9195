"""A run directory: atomic artifacts, content hashes, ``DONE`` last (method §12.1).

A file is written aside, synced and renamed, so it is there whole or not at all. Batches and training steps go to an
append-only ``*.partial.jsonl`` that a resume cuts back to its last committed line.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from intraskill.method.errors import ArtifactError, offenders
from intraskill.store.json_rows import rows_of


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Make the run directory and hold its lock; it falls with the process, whatever ends it.

    When nothing came to lie there in the meantime, the lock and every directory that was made for it go again; a lock
    that was there before stays, unless nothing else is there.

    Raises:
        ArtifactError: when another process holds it, or the directory cannot be written.
    """
    made = [path for path in (root, *root.parents) if not path.exists()]
    make_directory(root)
    file = root / ".lock"
    there: set[Path] = set()
    with contextlib.suppress(OSError):  # another process, whose run was refused, may just have taken it away again
        there = {*root.iterdir()}
    with _held(file, root):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # others may have written into a parent by now
                left = {*root.iterdir()}
                if left == {file} or (file not in there and left == {*there, file}):
                    file.unlink()
                    for path in made:
                        path.rmdir()


@contextlib.contextmanager
def locked_beside(path: Path) -> Iterator[None]:
    """Make the directory of a path that is to be written whole, and hold a lock that stands beside it.

    Raises:
        ArtifactError: when another process holds it, or the directory cannot be written.
    """
    make_directory(path.parent)
    file = path.with_name(f".{path.name}.lock")
    with _held(file, path):
        try:
            yield
        finally:
            file.unlink(missing_ok=True)  # it stands among a person's own files


@contextlib.contextmanager
def _held(file: Path, what: Path) -> Iterator[None]:
    lock = FileLock(file, timeout=0)
    try:
        with full_disk_is_one_error(what):
            lock.acquire()
    except Timeout as error:
        raise ArtifactError(f"another process writes {what}; wait for it, or choose another directory") from error
    try:
        yield
    finally:
        lock.release()


DONE = "DONE"


def remedy(directory: Path) -> str:
    """Say what to do about a broken artifact of a directory; only a round can be made again by itself."""
    if directory.name.startswith("round_"):
        return f"restore it, or delete {directory} and every later round and run the same command again"
    return "check the path, or restore the file from a copy"


@contextlib.contextmanager
def full_disk_is_one_error(path: Path) -> Iterator[None]:
    """Turn a full disk, or one that may not be written, into one clear error; what was committed before stays.

    Raises:
        ArtifactError: when the block failed for want of space, whichever library noticed it, or of the right to write.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise ArtifactError(f"{path} cannot be written ({error}); choose another directory") from error
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not full and os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise ArtifactError(
            f"the disk is full: {path} was not written. Nothing committed is lost; free some space and run the same "
            "command again"
        ) from error


def dumps(value: Any) -> str:
    """Return one line of JSON with a fixed form: equal data, equal bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "), allow_nan=False)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        ArtifactError: when the disk is full.
    """
    aside = path.with_name(f".{path.name}.tmp")
    with full_disk_is_one_error(path):
        try:
            with aside.open("w", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            aside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write readable JSON whole or not at all."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def write_jsonl(path: Path, rows: Sequence[Any]) -> None:
    """Write one JSON value per line, whole or not at all."""
    write_text(path, "".join(dumps(row) + "\n" for row in rows))


def read_text(path: Path) -> str:
    """Read an artifact.

    Raises:
        ArtifactError: when it is missing or not text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); {remedy(path.parent)}") from error


def read_json(path: Path) -> Any:
    """Read a JSON artifact.

    Raises:
        ArtifactError: when it is missing or corrupt.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}); {remedy(path.parent)}") from error


def read_jsonl(path: Path) -> list[Any]:
    """Read one JSON value per line.

    Raises:
        ArtifactError: when the file is missing or a line is corrupt.
    """
    text = read_text(path)
    try:
        return rows_of(text)
    except ValueError as error:
        raise ArtifactError(f"{path}, {error}; {remedy(path.parent)}") from error


class PartialLog:
    """Append-only JSON lines that grow batch by batch and become an artifact when complete.

    A batch is appended in one write. `keep` cuts a torn tail and everything after the committed lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._aside = path.with_name(f"{path.stem}.partial.jsonl")

    def keep(self, lines: int) -> list[Any]:
        """Cut the log to at most its first ``lines`` whole lines and return them."""
        if not self._aside.exists():
            return []
        content = self._aside.read_bytes().split(b"\n")[:-1][:lines]
        kept = []
        for line in content:
            try:
                kept.append(json.loads(line))
            except ValueError:
                break
        with full_disk_is_one_error(self._aside), self._aside.open("r+b") as stream:
            stream.truncate(sum(len(line) + 1 for line in content[: len(kept)]))
        return kept

    def count(self) -> int:
        """Return the number of whole lines now in the log."""
        return self._aside.read_bytes().count(b"\n") if self._aside.exists() else 0

    def append(self, rows: Sequence[Any]) -> None:
        """Append rows in one write and sync them; a failed write is cut back."""
        with full_disk_is_one_error(self._aside), self._aside.open("ab") as stream:
            start = stream.tell()
            try:
                stream.write("".join(dumps(row) + "\n" for row in rows).encode())
                stream.flush()
                os.fsync(stream.fileno())
            except OSError:
                os.truncate(self._aside, start)
                raise

    def commit(self) -> None:
        """Rename the log to its final name."""
        if not self._aside.exists():
            write_text(self._aside, "")
        self._aside.replace(self.path)
        _sync_directory(self.path.parent)


@contextlib.contextmanager
def directory_written_whole(path: Path) -> Iterator[Path]:
    """Yield an empty directory beside ``path`` that takes its name when the block ends without an error."""
    aside = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)
    with full_disk_is_one_error(path):
        try:
            aside.mkdir(parents=True)
            yield aside
            for file in sorted(aside.rglob("*")):
                if file.is_file():
                    _sync_file(file)
            if path.exists():
                shutil.rmtree(path)
            aside.replace(path)
            _sync_directory(path.parent)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def seal(directory: Path) -> None:
    """Write ``DONE``: the hash of every file of the directory. It is the last file of a round."""
    files = {str(file.relative_to(directory)): file_hash(file) for file in _content(directory)}
    write_json(directory / DONE, files)


def sealed_hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a sealed directory, by its name there.

    Raises:
        ArtifactError: when ``DONE`` is missing or corrupt.
    """
    hashes: dict[str, str] = read_json(directory / DONE)
    return hashes


def is_sealed(directory: Path) -> bool:
    """Return whether the directory is complete."""
    return (directory / DONE).exists()


def finished_rounds(root: Path) -> list[Path]:
    """Return the sealed rounds of a run, in order; none for a path that is no run."""
    return [directory for directory in sorted(root.glob("round_*")) if is_sealed(directory)]


def verify(directory: Path, *only: str) -> None:
    """Compare a sealed directory, or ``only`` some files of it, with its ``DONE``.

    Raises:
        ArtifactError: naming the files that are missing or changed.
    """
    wrong = [
        name
        for name, digest in sealed_hashes(directory).items()
        if (not only or name in only) and (not (directory / name).is_file() or file_hash(directory / name) != digest)
    ]
    if wrong:
        paths = [directory / name for name in wrong]
        raise ArtifactError(
            f"files missing or changed since they were sealed, {offenders(paths)}; " + remedy(directory)
        )


def make_directory(path: Path) -> None:
    """Make a directory and its parents.

    Raises:
        ArtifactError: when it cannot be written.
    """
    try:
        with full_disk_is_one_error(path):
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:  # among them a file that stands in the way
        raise ArtifactError(f"{path} cannot be written ({error.strerror}); choose another directory") from error


def _content(directory: Path) -> list[Path]:
    files = (file for file in sorted(directory.rglob("*")) if file.is_file())
    return [file for file in files if file.name != DONE and not file.name.startswith(".")]


def _sync_file(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
