"""A process that dies at its n-th fsync: between the write and the rename of some artifact."""

import os
import signal
from collections.abc import Callable


def dies_at(syncs: int) -> Callable[[], int]:
    """Let this process kill itself at its ``syncs``-th fsync (0 = never); return what tells how many there were."""
    count, real = 0, os.fsync

    def fsync(handle):
        nonlocal count
        count += 1
        if count == syncs:
            os.kill(os.getpid(), signal.SIGKILL)
        real(handle)

    os.fsync = fsync
    return lambda: count
