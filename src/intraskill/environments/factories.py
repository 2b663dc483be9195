"""Call an environment's factory: options that do not fit are named first, and whatever it raises is one error."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_type_hints

from intraskill.config.config import RENAMED, EnvConfig
from intraskill.config.option import fits, members, named, there_are
from intraskill.environments.protocol import boundary
from intraskill.method.errors import ConfigError, IntraSkillError

OWN = {
    "shopworld": "intraskill.environments.shopworld:ShopWorld",
    "planted": "intraskill.environments.planted:PlantedWorld",
}
_SCALARS = (int, float, bool, str, NoneType)


def built(env: EnvConfig) -> Any:
    """Return what the factory makes of ``env.preset``, ``env.seed`` and ``env.options``.

    Raises:
        ConfigError: for a factory that cannot be imported, options that do not fit, or anything that it raises.
        IntraSkillError: what it raises on purpose.
    """
    factory, arguments = call_of(env)
    return _guarded(f"env.name={env.name}: the factory failed", lambda: factory(**arguments))


def call_of(env: EnvConfig) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the factory and its arguments, checked against its signature; nothing is built.

    Raises:
        ConfigError: for a factory that cannot be imported, or an option that is unknown, missing or of another type.
    """
    factory = imported(env.name)
    options = {str(key): value for key, value in env.options.items() if value is not None}  # null takes one out
    arguments = {"preset": env.preset, "seed": env.seed} | options
    if env.name == "planted":
        del arguments["preset"]
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some factories written in C tell nobody
        return factory, arguments
    _check(parameters, arguments, _kinds(factory, parameters), f"env.name={env.name}")
    return factory, arguments


def imported(path: str, own: Mapping[str, str] = OWN, option: str = "env.name") -> Callable[..., Any]:
    """Return the factory that ``package.module:name``, or a short name of our ``own``, stands for.

    Args:
        path: as configured.
        own: short name → path.
        option: where it is configured, for messages.

    Raises:
        ConfigError: when there is none, whatever its import raises.
    """
    if path not in own and ":" not in path:
        known = f"{there_are(path, own)}, or 'package.module:factory'"
        raise ConfigError(f"{option}={path} is no {option.rpartition('.')[2]}{known}")
    module, _, name = own.get(path, RENAMED.get(path, path)).partition(":")
    problem = f"{option}={path} cannot be imported; use {', '.join(own)} or 'package.module:factory'"
    found: Callable[..., Any] = _guarded(problem, lambda: getattr(importlib.import_module(module), name))
    if not callable(found):
        raise ConfigError(f"{option}={path} names a {type(found).__name__}, which cannot be called; name a factory")
    return found


def _guarded(problem: str, act: Callable[[], Any]) -> Any:
    with boundary(problem, passing=(IntraSkillError,)) as crossing:
        return act()
    raise ConfigError(str(crossing.fault))


def _check(
    parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any], kinds: Mapping[str, Any], name: str
) -> None:
    takes = {key: one for key, one in parameters.items() if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        for key in [key for key in given if key not in takes]:
            if key in ("preset", "seed"):
                raise ConfigError(f"{name} takes no {key}; a factory is called with preset=…, seed=… and env.options")
            known = there_are(key, [one for one in takes if one not in ("preset", "seed")], "It takes")
            raise ConfigError(f"env.options do not fit {name}: it has no {key!r}{known}")
    absent = [key for key, one in takes.items() if one.default is one.empty and key not in given]
    if absent:
        raise ConfigError(f"env.options do not fit {name}: set env.options.{absent[0]}=…, it has no default")
    for key, value in given.items():
        kind = kinds.get(key, Any)  # types other than scalars are the factory's to judge
        if all(one in _SCALARS for one in members(kind)) and not fits(value, kind):
            wrong = f"env.options.{key}={value!r} is a {named(type(value))}"
            raise ConfigError(f"{wrong}, and {name} takes {named(kind)}")


def _kinds(factory: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """Return the parameters' annotations; written as text, they are looked up where that works."""
    found = {key: one.annotation for key, one in parameters.items()}
    if any(isinstance(kind, str) for kind in found.values()):
        with boundary("annotations"):  # a name may be imported for type checkers only
            found |= get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    return found
