"""How one option is declared: a field of a dataclass that carries its own documentation and range."""

from dataclasses import field
from typing import Any


def option(default: Any, doc: str, interval: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Declare a field: default, meaning with unit, and its range in interval notation such as ``(0, 1]``."""
    metadata = {"doc": doc, "interval": interval, "choices": choices}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)
