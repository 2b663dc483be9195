"""`intraskill validate`: the gate alone, its refit from recorded rows, and whether its ranking holds."""

import argparse
from dataclasses import replace
from pathlib import Path

from intraskill.commands import Verb, add_look, config_beside, look_of
from intraskill.commands.numbers import whole
from intraskill.config.config import ESTIMATORS
from intraskill.method.errors import ConfigError


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("validate", "run the gate alone on a checkpoint and its skill", _validate)
    parser.add_argument("--ckpt", help="a run, a round, or a checkpoint directory")
    parser.add_argument("--skill", help="skill file instead of the one beside the checkpoint")
    parser.add_argument("--out", help="where to write (default: in the run)")
    parser.add_argument("--tasks", type=whole("(-inf, inf)"), help="same as gate.tasks=N: at most so many tasks")
    parser.add_argument("--estimator", choices=ESTIMATORS, help="same as gate.estimator=NAME")
    parser.add_argument("--policy", help="same as gate.policy=NAME")
    parser.add_argument("--bare", metavar="GATE", help="reuse the bare run of this gate's directory, or refuse")
    parser.add_argument("--refit", metavar="PARQUET", help="recompute a gate from its pairs.parquet, without a model")
    parser.add_argument("--ranking", action="store_true", help="then ask the audit split whether the ranking holds")
    parser.add_argument("--size", type=whole(), help="chunks of the ranking's arms, K (default: half of them)")
    parser.add_argument("--draws", type=whole(), default=3, help="random arms of the ranking")
    add_look(parser)


def _validate(arguments: argparse.Namespace, overrides: list[str]) -> int:
    flags = {"tasks": arguments.tasks, "estimator": arguments.estimator, "policy": arguments.policy}
    words = [*overrides, *(f"gate.{name}={value}" for name, value in flags.items() if value is not None)]
    return _refit(arguments, words) if arguments.refit else _alone(arguments, words)


def _alone(arguments: argparse.Namespace, words: list[str]) -> int:
    if not arguments.ckpt:
        raise ConfigError("validate needs --ckpt, a run, a round or a checkpoint, or --refit, the pairs.parquet of one")
    from intraskill.report.gate import print_gate, print_ranking
    from intraskill.report.live import monitor
    from intraskill.rounds import evaluate
    from intraskill.rounds.gate.ranking import check_ranked, validate_ranking
    from intraskill.rounds.gate.standalone import validate
    from intraskill.rounds.setup import bench
    from intraskill.store.run_directory import make_directory

    source = evaluate.find_source(Path(arguments.ckpt))
    config = config_beside(source.root, words)
    skill = evaluate.skill_of(source, arguments.skill)
    if arguments.ranking:
        check_ranked(len(skill.chunks))  # before anything is paid
    root = Path(arguments.out) if arguments.out else (source.root or Path(".")) / "validations"
    make_directory(root)
    with monitor() as watcher:
        run = bench(config, root, watcher)
        if arguments.skill:
            run.screened(skill, f"--skill {arguments.skill}")
        report = validate(run, source, skill, bare=Path(arguments.bare) if arguments.bare else None)
    print_gate(report.validation, report.findings, report.directory, report.remarks, look_of(arguments))
    if arguments.ranking:
        with monitor() as watcher:
            ranking, directory = validate_ranking(
                replace(run, monitor=watcher), source, report.validation, size=arguments.size, draws=arguments.draws
            )
        print_ranking(ranking, str(directory), look_of(arguments))
    return 0


def _refit(arguments: argparse.Namespace, words: list[str]) -> int:
    from intraskill.report.gate import print_gate
    from intraskill.rounds.gate.standalone import refit

    names = [word.partition("=")[0].lstrip("+~") for word in words]
    if strangers := sorted(name for name in names if not name.startswith("gate.")):
        raise ConfigError(f"a refit takes overrides of gate.… only, got {', '.join(strangers)}")
    gate = config_beside(None, words).gate
    changes = {name: getattr(gate, name) for name in (name.removeprefix("gate.") for name in names)}
    out = Path(arguments.out) if arguments.out else None
    validation, findings, directory = refit(Path(arguments.refit), changes, out)
    remarks = (f"Recomputed from {arguments.refit}.",)
    print_gate(validation, findings, directory, remarks, look_of(arguments))
    return 0
