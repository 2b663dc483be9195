"""One writer per run directory: a second process is refused instead of mixing its lines with the first one's."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from intraskill.method.errors import ArtifactError
from intraskill.runtime.run_directory import make_directory


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Make the run directory and hold its lock; it falls with the process, whatever ends it.

    Raises:
        ArtifactError: when another process holds it, or the directory cannot be written.
    """
    make_directory(root)
    lock = FileLock(root / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ArtifactError(f"another process writes {root}; wait for it, or choose another run_dir") from error
    try:
        yield
    finally:
        lock.release()
