"""One writer per run directory: a second process is refused instead of mixing its lines with the first one's."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from intraskill.method.errors import ArtifactError
from intraskill.runtime.run_directory import full_disk_is_one_error, make_directory


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
