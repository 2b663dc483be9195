"""`intraskill skill`: what a skill says, where each line is from, what changed, and how to take it back."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intraskill.commands import Verb, add_look, look_of, never, no_overrides, skill_export
from intraskill.config.quoting import command
from intraskill.method.errors import counted
from intraskill.report.screen import Look, print_blocks, print_lines, say, say_document, say_json

if TYPE_CHECKING:
    from rich.text import Text

SKILL = "RUN, RUN@ROUND, RUN@HASH, or a skill file"
_AS_JSON = "print JSON instead of text"


def add(verb: Verb) -> None:
    """Register the commands."""
    parser = verb("skill", "show, compare, trace, revert, check, export or import a skill", never)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(command=lambda arguments, overrides: _without_overrides(run, arguments, overrides))
        return sub

    show = action("show", "print a skill, or one chunk, as the policy sees it", _show)
    show.add_argument("source", metavar="SKILL", help=f"{SKILL}; RUN@CHUNK prints one chunk")
    action("lint", "say what is wrong with a skill", _lint).add_argument("source", metavar="SKILL", help=SKILL)
    log = action("log", "what every round did to the skill, newest first", _log)
    log.add_argument("source", metavar="RUN")
    log.add_argument("--chunk", metavar="CHUNK", help="only the life of this chunk: its id, a prefix, or its title")
    log.add_argument("--json", action="store_true", help=_AS_JSON)
    add_look(log, "text")
    diff = action("diff", "what differs between two skills, chunk by chunk and word by word", _diff)
    diff.add_argument("old", metavar="OLD", help=SKILL)
    diff.add_argument("new", metavar="NEW", help=SKILL)
    diff.add_argument("--json", action="store_true", help=_AS_JSON)
    blame = action("blame", "per line: which round, edit, rollouts and numbers put it there", _blame)
    blame.add_argument("source", metavar="RUN", help="RUN, RUN@ROUND or RUN@HASH")
    blame.add_argument("--chunk", metavar="CHUNK", help="only this chunk: its id, a prefix, or its title")
    blame.add_argument("--json", action="store_true", help=_AS_JSON)
    revert = action("revert", "offer an earlier version to the next round's gate, or write it to a file", _revert)
    revert.add_argument("source", metavar="RUN")
    revert.add_argument("--to", required=True, metavar="VERSION", help="a round, or a prefix of a skill's hash")
    revert.add_argument("--chunk", metavar="CHUNK", help="take back only this chunk, and what hangs together with it")
    revert.add_argument("--out", metavar="FILE", help="write the text here and leave the run alone")
    skill_export.add(action)


def _without_overrides(
    run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace, overrides: list[str]
) -> int:
    no_overrides(overrides)
    return run(arguments)


def _print(arguments: argparse.Namespace, data: Callable[[], Any], lines: "Callable[[], Iterable[Text]]") -> int:
    if arguments.json:
        say_json(data())
        return 0
    print_lines(lines())
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from intraskill.report.skill_source import skill_source

    source = skill_source(arguments.source)
    if text := source.skill.render():
        say_document(text)
    else:
        say(f"{source.path} has no chunks: the policy sees nothing of it", error=True)
    return 0


def _lint(arguments: argparse.Namespace) -> int:
    from intraskill.report.skill_diff import lint
    from intraskill.report.skill_source import skill_file

    path = skill_file(arguments.source)
    problems, skill = lint(path)
    for problem in problems:
        say(problem)
    if skill is not None and not problems:
        say(f"{path}: {counted(len(skill.chunks), 'chunk')}, nothing to complain about")
    return 1 if problems else 0


def _log(arguments: argparse.Namespace) -> int:
    from intraskill.report.skill_log import life_json, life_lines, life_table, log_json, log_lines, log_table
    from intraskill.report.skill_source import run_version

    history, version = run_version(arguments.source)
    chunk = None if arguments.chunk is None else history.chunk(arguments.chunk, version)
    if (arguments.format != "text" or arguments.wide) and not arguments.json:
        look = look_of(arguments) if arguments.format != "text" else Look(wide=True)
        print_blocks([log_table(history) if chunk is None else life_table(history, chunk.id)], look)
        return 0
    if chunk is None:
        return _print(arguments, lambda: log_json(history), lambda: log_lines(history))
    return _print(arguments, lambda: life_json(history, chunk.id), lambda: life_lines(history, chunk.id))


def _diff(arguments: argparse.Namespace) -> int:
    from intraskill.report.skill_diff import diff_json, diff_lines
    from intraskill.report.skill_source import skill_source

    old, new = skill_source(arguments.old), skill_source(arguments.new)
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return _print(arguments, lambda: diff_json(old, new), lambda: diff_lines(old, new, colour=colour))


def _blame(arguments: argparse.Namespace) -> int:
    from intraskill.method.errors import ArtifactError
    from intraskill.report.skill_log import blame_json, blame_lines
    from intraskill.report.skill_source import run_version

    history, version = run_version(arguments.source)
    wanted = None if arguments.chunk is None else history.chunk(arguments.chunk, version).id
    if wanted is not None and wanted not in version.skill.ids:
        raise ArtifactError(
            f"chunk {wanted} is not in the skill of {version.directory.name}; "
            f"`{command('skill', 'log', history.root, '--chunk', wanted)}` tells its life"
        )
    return _print(
        arguments, lambda: blame_json(history, version, wanted), lambda: blame_lines(history, version, wanted)
    )


def _revert(arguments: argparse.Namespace) -> int:
    from intraskill.history.diff import revert
    from intraskill.report.skill_diff import revert_words
    from intraskill.report.skill_source import run_version

    history, _ = run_version(arguments.source)
    _, target = run_version(f"{history.root}@{arguments.to}")
    chunk = None if arguments.chunk is None else history.chunk(arguments.chunk, history.newest)
    reverted = revert(history, target, chunk, Path(arguments.out) if arguments.out else None)
    say(revert_words(history, target, reverted))
    return 0
