"""`intraskill options`: every option with its meaning, range and default."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import Any

from intraskill.commands import Verb, no_overrides
from intraskill.config.config import Config
from intraskill.config.option import options
from intraskill.config.suggestions import suggest
from intraskill.report.screen import say

Entry = tuple[str, str, str]
"""Name with default, range, and meaning of one option; the range may be empty."""
NEAREST = 3
INDENT = "    "


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("options", "list every option with its default, range and meaning", _options)
    parser.add_argument("word", nargs="?", default="", metavar="WORD", help="only those with WORD in name or meaning")


def _options(arguments: argparse.Namespace, overrides: list[str]) -> int:
    no_overrides(overrides)
    entries = {name: _entry(name, default, about) for name, default, about in options(Config())}
    wanted = _plain(arguments.word)
    matches = [name for name, entry in entries.items() if wanted in _plain(f"{name} {entry[2]}")]
    status = 0
    if not matches:
        status, matches = 1, suggest(arguments.word, entries, NEAREST)
        hint = "; nearest:" if matches else "; without a word, all are listed"
        say(f"intraskill: no option has {arguments.word!r} in its name or meaning{hint}", error=True)
    for name in matches:
        say(_shown(entries[name]))
    return status


def _plain(text: str) -> str:
    """Return a text in which ``learning_rate``, ``learning-rate`` and ``Learning rate`` are the same."""
    return text.lower().replace("_", " ").replace("-", " ")


def _entry(name: str, default: Any, about: Mapping[str, Any]) -> Entry:
    choices = f"one of {', '.join(about['choices'])}" if about["choices"] else ""
    return f"{name} = {_value(default)}", choices or about["interval"], about["doc"]


def _value(value: Any) -> str:
    """Return a value as the command line takes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return "''" if value == "" else str(value)


def _shown(entry: Entry) -> str:
    """Return an option as a paragraph that fits the terminal; in a pipe as one line of three tab-separated fields."""
    if not sys.stdout.isatty():
        return "\t".join(entry)
    value, limits, meaning = entry
    width = shutil.get_terminal_size().columns
    head = textwrap.wrap(f"{value}   {limits}".rstrip(), width, subsequent_indent=INDENT)
    body = textwrap.wrap(meaning, width, initial_indent=INDENT, subsequent_indent=INDENT)
    return "\n".join([*head, *body])
