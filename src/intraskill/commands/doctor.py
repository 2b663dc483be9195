"""`intraskill doctor`: whether this machine has what a run needs."""

import argparse

from intraskill.commands import Verb
from intraskill.config.overrides import compose
from intraskill.report.screen import say


def add(verb: Verb) -> None:
    """Register the command."""
    verb("doctor", "check that this machine has what a run needs", _doctor)


def _doctor(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.report.doctor import examine

    findings = examine(compose(overrides))
    for good, text in findings:
        say(f"{'ok ' if good else 'NO '} {text}")
    return 0 if all(good for good, _ in findings) else 1
