"""Tools of a dialogue: Python functions over one database, described by their signatures and docstrings.

A tool refuses with ``ValueError``, whose words the agent reads; any other exception is a broken tool: a fault.
"""

import copy
import importlib
import importlib.util
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from intraskill.environments.boundary import boundary
from intraskill.method.errors import ConfigError, EnvironmentFault
from intraskill.method.randomness import content_hash

Database = dict[str, Any]
Factory = Callable[[Database], Mapping[str, Callable[..., Any]]]


@dataclass(frozen=True, slots=True)
class Called:
    """What a tool gave back.

    Attributes:
        refused: whether the tool, or its signature, refused the call.
        text: what the agent reads.
    """

    refused: bool
    text: str


@dataclass(frozen=True)
class Toolkit:
    """Makes the tools of one database.

    Attributes:
        factory: called with a database, which its tools read and change; returns name → function.
        version: hash of the source.
    """

    factory: Factory
    version: str

    def describe(self, database: Database) -> str:
        """Return one paragraph per tool."""
        tools = self.factory(copy.deepcopy(database))
        return "\n\n".join(
            f"{name}{inspect.signature(tool)}\n{inspect.getdoc(tool) or ''}".strip() for name, tool in tools.items()
        )

    def opened(self, database: Database) -> "OpenTools":
        """Return the tools of a database, which they change."""
        return OpenTools(database, dict(self.factory(database)))


@dataclass(frozen=True)
class OpenTools:
    """Tools with the database that they change."""

    database: Database
    tools: Mapping[str, Callable[..., Any]]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Call one tool.

        Raises:
            EnvironmentFault: when the tool breaks.
        """
        if name not in self.tools:
            return Called(True, f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        tool = self.tools[name]
        try:
            inspect.signature(tool).bind(**arguments)
        except TypeError as error:
            return Called(True, f"{name}: {error}")
        refusal = ""
        with boundary(f"tool {name}") as crossing:
            try:
                value = tool(**arguments)
                return Called(False, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            except ValueError as error:
                refusal = str(error) or "refused"
        if crossing.fault is not None:
            raise EnvironmentFault(crossing.fault)
        return Called(True, refusal)


def load_tools(name: str) -> Toolkit:
    """Return the toolkit that ``package.module:factory`` or ``path/to/file.py:factory`` names; the code is run.

    Raises:
        ConfigError: when it cannot be imported, whatever its import raises.
    """
    where = f"editor.options.tools={name}"
    module_name, _, factory = name.rpartition(":")
    if not module_name or not factory.isidentifier():
        raise ConfigError(f"{where} is no factory; give 'package.module:factory' or 'path/to/file.py:factory'")
    with boundary(f"{where} cannot be imported") as crossing:
        module = _of_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
        found = getattr(module, factory)
        source = inspect.getsource(module)
    if crossing.fault is not None:
        raise ConfigError(crossing.fault)
    if not callable(found):
        raise ConfigError(f"{where} names a {type(found).__name__}; name a function that is called with the database")
    return Toolkit(found, content_hash(source, factory))


def _of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{content_hash(str(path.resolve()))}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
