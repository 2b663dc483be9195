"""`intraskill report`: the tables of a run, again."""

import argparse
from pathlib import Path

from intraskill.commands import Verb, add_look, editor, look_of, no_overrides


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("report", "print the tables of a run and rewrite its summary.json", _report)
    parser.add_argument("run", metavar="RUN", help="a run of train or of editor train")
    add_look(parser)


def _report(arguments: argparse.Namespace, overrides: list[str]) -> int:
    no_overrides(overrides)
    root = Path(arguments.run)
    if (root / "editor").is_dir():
        editor.print_tables(root, look_of(arguments))
        return 0
    from intraskill.report.summary import write_summary
    from intraskill.report.tables import print_report

    print_report(write_summary(root), arguments.run, look_of(arguments), curse=True)
    return 0
