"""`intraskill doctor`: whether this machine has what a run needs."""

import argparse
import sys

from intraskill.commands import Verb
from intraskill.config.overrides import compose


def add(verb: Verb) -> None:
    """Register the command."""
    verb("doctor", "check that this machine has what a run needs", _doctor)


def _doctor(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.report.doctor import examine

    findings = examine(compose(overrides))
    for good, text in findings:
        sys.stdout.write(f"{'ok ' if good else 'NO '} {text}\n")
    return 0 if all(good for good, _ in findings) else 1
