"""What `editor.options` may hold for real domains: names and types checked, endpoints built, prompts read."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import Any, TypeVar

from intraskill.config.option import check_values, fits, named, there_are
from intraskill.config.proposing import ProposerConfig
from intraskill.llm.budget import limits_of
from intraskill.llm.client import JsonClient
from intraskill.llm.endpoint import endpoint_of
from intraskill.method.errors import ArtifactError, ConfigError, offenders
from intraskill.proposers.schema import LANGUAGES, prompt_text
from intraskill.store.json_rows import each_row, object_of
from intraskill.store.user_files import MOST_ROWS, read_user_text

T = TypeVar("T")
_OF_ANALYSTS = {
    *("name", "max_candidates", "stay_away_rounds", "max_calls", "max_decisions", "language"),
    *("editor", "drafts"),
}
_ENDPOINT = {
    name: value for name, value in dataclasses.asdict(ProposerConfig()).items() if name not in _OF_ANALYSTS
} | {"base_url": ""}
"""Options of an endpoint and its budget: the options of ``proposer`` that have the same name, without an address."""


def read_options(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return ``known`` with the values that were given in their place.

    Args:
        given: options as configured.
        known: name → default; ``None`` takes any value, another default fixes the type.
        where: dotted name of the mapping, for messages.

    Raises:
        ConfigError: for a name that is no option, or a value of another type.
    """
    chosen = dict(known)
    for key, value in given.items():
        if key not in known:
            raise ConfigError(f"{where}.{key} is no option{there_are(str(key), known)}")
        default = known[key]
        kind = type(default)
        if default is not None and not fits(value, kind):
            raise ConfigError(f"{where}.{key}={value!r} is {_a(type(value))}; give {_a(kind)}")
        chosen[key] = float(value) if kind is float else value
    return chosen


def client_of(options: Mapping[str, Any] | None, cache: Path, where: str) -> JsonClient:
    """Return a client of the endpoint that a mapping of options describes; its answers are kept in ``cache``.

    Raises:
        ConfigError: for an option that is none or out of range, or no address or model.
    """
    given = read_options(options or {}, _ENDPOINT, where)
    if lacking := [name for name in ("base_url", "model") if not given[name]]:
        raise ConfigError(f"{where}.{lacking[0]} is missing; name an OpenAI-compatible endpoint and a model")
    settings = ProposerConfig(**given)
    check_values(settings, f"{where}.")
    return JsonClient(endpoint_of(settings, where), cache, limits_of(settings, where))


def instruction(name: str, language: str, **values: object) -> str:
    """Return a prompt of the package with its placeholders filled.

    Raises:
        ConfigError: for a language without prompts.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"editor.options.language={language!r} has no prompts; choose {', '.join(LANGUAGES)}")
    return Template(prompt_text(name, language)).substitute(values).strip()


def existing(root: Path, name: object, where: str) -> Path:
    """Return a file or folder that an option or a row names; relative names start at ``root``.

    Raises:
        ArtifactError: when it is not there.
    """
    if not isinstance(name, str) or not name:
        raise ArtifactError(f"{where} names no file; give its path")
    path = root / Path(name).expanduser()
    if not path.exists():
        raise ArtifactError(f"{where}: {path} does not exist; correct the path")
    return path


def read_rows(path: Path, read: Callable[[dict[str, Any]], T], name: Callable[[T], str]) -> dict[str, T]:
    """Return what ``read`` makes of every row of a file of JSON lines, or of one JSON array, by its id.

    Args:
        path: the file.
        read: raises a ValueError, or an error of ours, for a row that it cannot use.
        name: the id of what it made; none may stand twice.

    Raises:
        ArtifactError: naming the rows that cannot be used, or when there is none at all.
    """
    found: dict[str, T] = {}

    def keep(_: str, row: Any) -> None:
        made = read(object_of(row))
        if name(made) in found:
            raise ValueError(f"the id {name(made)!r} stands twice")
        found[name(made)] = made

    refuse(path, each_row(read_user_text(path, most=MOST_ROWS), keep)[1])
    if not found:
        raise ArtifactError(f"{path} holds no row; give at least one")
    return found


def refuse(path: Path, wrong: list[str]) -> None:
    """Raise for rows that cannot be used.

    Raises:
        ArtifactError: when there are any.
    """
    if wrong:
        raise ArtifactError(f"{path} holds rows that cannot be used, {offenders(wrong)}; correct or remove them")


def _a(kind: type) -> str:
    """Return a type's name with its article."""
    return f"{'an' if named(kind)[0] in 'aeiou' else 'a'} {named(kind)}"
