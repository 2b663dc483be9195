"""`intraskill skill export` and `import`: skills to and from other tools."""

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from intraskill.config.quoting import assignment
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.report.screen import say

if TYPE_CHECKING:
    from intraskill.method.leakage.filter import LeakFilter


def add(action: Callable[[str, str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]) -> None:
    """Register both; ``action`` makes the parser of one."""
    export = action("export", "write the skill of a run as an Agent Skills folder", _export)
    export.add_argument("source", metavar="RUN", help="a run (its last finished round) or one of its rounds")
    export.add_argument("--out", required=True, metavar="DIR", help="the folder goes into this directory")
    export.add_argument("--name", help="name of skill and folder (default: from the task family)")
    bring = action("import", "read a skill from elsewhere as a draft for coldstart.draft", _never)
    bring.add_argument("source", metavar="SOURCE", help="a SKILL.md, its folder, a JSON skill bank or patch list")
    bring.add_argument("--out", required=True, metavar="FILE", help="the skill file to write; it must not be there yet")
    bring.add_argument("--like", metavar="RUN", help="also refuse what gives away this run's tasks and products")
    bring.add_argument("--report", metavar="FILE", help="write what became of every part as JSON")
    bring.set_defaults(command=_import)


def _export(arguments: argparse.Namespace) -> int:
    from intraskill.history.export import export_skill

    for line in export_skill(Path(arguments.source), Path(arguments.out), arguments.name).lines():
        say(line)
    return 0


def _never(arguments: argparse.Namespace) -> int:
    raise AssertionError("import takes overrides, and so a command of its own")


def _import(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.history.imports import import_skill, report_json
    from intraskill.store.run_directory import make_directory, write_text

    out, source = Path(arguments.out), Path(arguments.source)
    if out.exists():
        raise ArtifactError(f"{out} is there already; choose another --out, or remove it")
    found = import_skill(source, _leak_filter(arguments.like, overrides))
    for line in found.lines():
        say(line)
    if arguments.report:
        write_text(Path(arguments.report), report_json(found, source))
    if not found.skill.chunks:
        say(f"Nothing passed, so {out} was not written.")
        return 1
    make_directory(out.parent)
    write_text(out, found.skill.to_markdown())
    draft = shlex.quote(assignment("coldstart.draft", out))
    say(f"Written: {out}. Start a run from it with {draft}")
    return 0


def _leak_filter(run: str | None, overrides: list[str]) -> "LeakFilter":
    """Return the leak filter with the secrets of a run's environment, or of the one that ``env.…`` overrides name."""
    from intraskill.method.leakage.filter import LeakFilter

    if run is None and not overrides:
        return LeakFilter()
    from intraskill.config.config import unflatten
    from intraskill.environments.protocol import secrets_of
    from intraskill.rounds.setup import environment_of
    from intraskill.store.provenance import plan_record

    values = plan_record(Path(run))["plan"] if run else {}
    config = unflatten(values | _env_values(overrides))
    return LeakFilter(secrets_of(environment_of(config)), config.leak_filter)


def _env_values(overrides: list[str]) -> dict[str, object]:
    """Read ``env.name=…`` and ``env.options.KEY=…``; the environment is all that an import asks about.

    Raises:
        ConfigError: for any other override.
    """
    import yaml  # type: ignore[import-untyped]

    values: dict[str, object] = {}
    options: dict[str, object] = {}
    for word in overrides:
        key, _, text = word.partition("=")
        name, value = key.lstrip("+"), yaml.safe_load(text)
        if not name.startswith("env."):
            raise ConfigError(f"import takes overrides of env.… only, got {word}; or name a run with --like RUN")
        if name.startswith("env.options."):
            options[name.removeprefix("env.options.")] = value
        else:
            values[name] = value
    return values | ({"env.options": options} if options else {})
