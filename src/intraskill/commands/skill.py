"""`intraskill skill`: what a skill says, and what is wrong with it."""

import argparse
import sys
from collections.abc import Callable

from intraskill.commands import Verb, skill_export
from intraskill.method.errors import ConfigError


def add(verb: Verb) -> None:
    """Register the commands."""
    parser = verb("skill", "show or lint a skill", _never)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(command=lambda arguments, overrides: _without_overrides(run, arguments, overrides))
        return sub

    action("show", "print the skill as the policy sees it", _show).add_argument("source", metavar="RUN_OR_FILE")
    action("lint", "say what is wrong with a skill", _lint).add_argument("source", metavar="RUN_OR_FILE")
    skill_export.add(action)


def _without_overrides(
    run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace, overrides: list[str]
) -> int:
    if overrides:
        raise ConfigError(f"this command takes no overrides, got {' '.join(overrides)}")
    return run(arguments)


def _never(arguments: argparse.Namespace, overrides: list[str]) -> int:
    raise AssertionError("argparse asks for an action")


def _show(arguments: argparse.Namespace) -> int:
    from intraskill.report.skill_lint import skill_path

    sys.stdout.write(skill_path(arguments.source).read_text(encoding="utf-8"))
    return 0


def _lint(arguments: argparse.Namespace) -> int:
    from intraskill.report.skill_lint import lint, skill_path

    path = skill_path(arguments.source)
    problems, skill = lint(path)
    for problem in problems:
        sys.stdout.write(problem + "\n")
    if skill is not None and not problems:
        sys.stdout.write(f"{path}: {len(skill.chunks)} chunks, nothing to complain about\n")
    return 1 if problems else 0
