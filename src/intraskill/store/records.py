"""Records ⇄ JSON: every frozen dataclass of the method survives its file (law 14).

The type hints are the schema. Sets are written sorted, so equal records give equal bytes.
"""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

from intraskill.method.errors import ArtifactError
from intraskill.method.rollouts import Rollout

Record = TypeVar("Record")


def to_json(value: Any) -> Any:
    """Return ``value`` as JSON data.

    Raises:
        TypeError: for a type that has no JSON form here.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: to_json(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(to_json(item) for item in value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Sequence):
        return [to_json(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_json(kind: type[Record], data: Any, source: Path | str = "record") -> Record:
    """Build a record of ``kind`` from JSON data.

    Raises:
        ArtifactError: naming ``source`` when the data does not fit the type.
    """
    try:
        built: Record = _build(kind, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{source} does not hold a {kind.__name__} ({error}); restore the file, or delete its round and run again"
        ) from error
    return built


def lean(rollout: Rollout, *, keep_turns: bool = True) -> Rollout:
    """Drop a rollout's tokens (and its turns) once they have served: what artifacts keep is the evidence."""
    return dataclasses.replace(
        rollout,
        prompt_ids=(),
        token_ids=(),
        loss_mask=(),
        logprobs=(),
        turns=rollout.turns if keep_turns else (),
        request=rollout.request if keep_turns else "",
    )


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _build(kind: Any, data: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        if not isinstance(data, Mapping):
            raise TypeError(f"expected an object, got {type(data).__name__}")
        hints, fields = _hints(kind), dataclasses.fields(kind)  # type: ignore[arg-type]
        needed = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        if lacking := [name for name in needed if name not in data]:
            raise TypeError(f"it lacks {', '.join(lacking)}")
        given = {f.name: _build(hints[f.name], data[f.name]) for f in fields if f.name in data}
        return kind(**given)  # type: ignore[operator]
    origin, args = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _build(dict[str, Any], data)
    if origin is None:
        return _plain(kind, data)
    if origin is Literal:
        if data not in args:
            raise ValueError(f"{data!r} is not one of {args}")
        return data
    if origin in (Union, types.UnionType):
        return _optional(args, data)
    return _collection(origin, args, data)


def _plain(kind: Any, data: Any) -> Any:
    if kind in (Any, object):
        return data
    if kind is np.ndarray:
        return np.asarray(data)
    if kind is float and isinstance(data, int):
        return float(data)
    if kind in (str, int, float, bool) and not isinstance(data, kind):
        raise TypeError(f"expected {kind.__name__}, got {data!r}")
    return data if kind in (str, int, float, bool, type(None)) else kind(data)


def _optional(args: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in args:
        return None
    kinds = [arg for arg in args if arg is not type(None)]
    return _build(kinds[0], data) if len(kinds) == 1 else data


def _collection(origin: Any, args: tuple[Any, ...], data: Any) -> Any:
    if origin is np.ndarray:
        return np.asarray(data, dtype=get_args(args[1])[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_build(args[0], key): _build(args[1], value) for key, value in data.items()}
    if origin is tuple and (len(args) < 2 or args[1] is not Ellipsis):
        return tuple(_build(arg, item) for arg, item in zip(args, data, strict=True))
    items = [_build(args[0], item) for item in data]
    return frozenset(items) if origin in (frozenset, set) else tuple(items)
