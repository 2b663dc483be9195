"""`intraskill coldstart`: stage A alone, from recorded or fresh trajectories to a first skill."""

import argparse
from pathlib import Path

from intraskill.commands import Verb
from intraskill.config.overrides import compose
from intraskill.config.quoting import assignment, command
from intraskill.method.errors import counted
from intraskill.report.screen import say


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("coldstart", "write the first skill from recorded or fresh trajectories, and stop", _draft)
    parser.add_argument(
        "--trajectories", metavar="FILE", help="JSON lines, see docs/proposers.md (default: fresh ones)"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where to write; the same command continues there")


def _draft(arguments: argparse.Namespace, overrides: list[str]) -> int:
    config = compose([*overrides, assignment("run_dir", arguments.out)])
    from intraskill.report.live import monitor
    from intraskill.rounds.coldstart import run_cold_start
    from intraskill.store.artifacts import ANALYSES, DRAFT, EDITS

    trajectories = Path(arguments.trajectories) if arguments.trajectories else None
    with monitor() as watcher:
        skill, root = run_cold_start(config, trajectories, watcher)
    for name, count in EDITS.read(root).counts.items():
        say(f"{count:6d} {name}")
    say(f"{counted(len(skill.chunks), 'chunk')} in {DRAFT.path(root)}, every analysis in {ANALYSES.path(root)}")
    say(f"Next: {command('train', assignment('coldstart.draft', DRAFT.path(root)), 'coldstart.tasks=0')}")
    return 0
