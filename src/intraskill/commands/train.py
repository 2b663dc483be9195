"""`intraskill train`: the whole loop, or what is left of it."""

import argparse
from contextlib import nullcontext
from functools import partial

from intraskill.commands import Verb, said
from intraskill.commands.numbers import whole
from intraskill.config.overrides import compose
from intraskill.config.quoting import assignment, command
from intraskill.report.screen import Look, Prose, print_blocks
from intraskill.rl.distributed.launch import launched


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("train", "run the whole loop, or continue it", _train)
    parser.add_argument("--dry-run", action="store_true", help="print the plan with its sizes, and stop")
    parser.add_argument("--seed", type=whole("[0, inf)"), help="same as seed=N")
    parser.add_argument("--run-dir", help="same as run_dir=DIR")
    parser.add_argument("--review", action="store_const", const="true", help="ask a person before each gate")


def _train(arguments: argparse.Namespace, overrides: list[str]) -> int:
    flags = {"seed": arguments.seed, "run_dir": arguments.run_dir, "review": arguments.review}
    config = compose([*overrides, *(assignment(key, value) for key, value in flags.items() if value is not None)])
    leads = launched().rank == 0
    remarks = said(overrides, config)
    if arguments.dry_run:
        if leads:
            from intraskill.report.dry_run import directory_words, plan_table

            print_blocks([*map(Prose, [*remarks, directory_words(config)]), plan_table(config)])
        return 0
    from intraskill.report.live import monitor
    from intraskill.report.summary import write_summary
    from intraskill.report.tables import print_report
    from intraskill.rl.start import run_together
    from intraskill.rounds.loop import run
    from intraskill.rounds.setup import environment_of

    with monitor() if leads else nullcontext() as watcher:
        root = run_together(config, partial(run, remarks=remarks), environment_of, watcher)
    if root is not None:
        remedy = f"{command('report', root, '--wide')} shows them"
        print_report(write_summary(root), str(root), Look(remedy=remedy))
    return 0
