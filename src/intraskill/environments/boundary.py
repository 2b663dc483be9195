"""Where foreign code is called: any exception becomes one recorded sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Boundary:
    """What went wrong inside a `boundary`, or ``None``."""

    fault: str | None = None


@contextmanager
def boundary(name: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[Boundary]:
    """Turn any exception of foreign code into a recorded fault; the only broad ``except`` of the package.

    Args:
        name: what is called, for the sentence.
        passing: kinds that are no fault of that code and go on as they are.
    """
    crossing = Boundary()
    try:
        yield crossing
    except passing:
        raise
    except Exception as error:  # noqa: BLE001
        crossing.fault = f"{name}: {type(error).__name__}: {error}"
