"""`intraskill eval`: a checkpoint on a panel of tasks, beside earlier evaluations of the same panel."""

import argparse
from pathlib import Path

from intraskill.commands import Verb, add_look, config_beside, look_of
from intraskill.commands.numbers import whole
from intraskill.method.errors import ConfigError


def add(verb: Verb) -> None:
    """Register the command."""
    parser = verb("eval", "evaluate a checkpoint on a split and compare it with other evaluations", _eval)
    parser.add_argument("--ckpt", help="a run, a round, or a checkpoint directory (default: that of --pair)")
    parser.add_argument("--skill", help="skill file instead of the one beside the checkpoint")
    parser.add_argument("--pair", help="a run, an export or a pair.json: refuse what is not the pair that it binds")
    parser.add_argument("--out", help="where to write (default: in the run)")
    parser.add_argument("--tasks", type=whole("(-inf, inf)"), help="at most so many tasks")
    modes = ("skill-free", "skill-augmented")
    parser.add_argument("--mode", choices=modes, default=modes[0], help="without or with the skill in the prompt")
    parser.add_argument("--split", default="model_dev", help="train, skill_validation, model_dev, audit or test")
    parser.add_argument("--repeats", type=whole(), default=1, help="rollouts per task")
    parser.add_argument("--against", help="another evaluation to compare with (its directory)")
    add_look(parser)


def _eval(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.history.export import write_benchmarks
    from intraskill.report.live import monitor
    from intraskill.report.screen import Line, print_blocks
    from intraskill.report.tables import print_evaluation
    from intraskill.rounds import bound_pair, evaluate
    from intraskill.rounds.setup import bench
    from intraskill.store.run_directory import make_directory

    if not (arguments.ckpt or arguments.pair):
        raise ConfigError("eval needs --ckpt, a run, a round or a checkpoint, or --pair, a run or a pair.json of one")
    source = evaluate.find_source(Path(arguments.ckpt) if arguments.ckpt else bound_pair.checkpoint_of(arguments.pair))
    config = config_beside(source.root, overrides)
    claim = bound_pair.claim_of(arguments.pair, source.checkpoint, other_skill=arguments.skill is not None)
    skill = bound_pair.skill_for(source, arguments.skill, arguments.pair, mode=arguments.mode, claim=claim)
    root = Path(arguments.out) if arguments.out else (source.root or Path(".")) / "evals"
    make_directory(root)
    against = [evaluate.read_evaluation(Path(arguments.against))] if arguments.against else None
    panel = {"mode": arguments.mode, "split": arguments.split, "repeats": arguments.repeats, "tasks": arguments.tasks}
    with monitor() as watcher:
        run = bench(config, root, watcher)
        if arguments.skill and skill is not None:
            run.screened(skill, f"--skill {arguments.skill}")
        verdict = bound_pair.judge(claim, run, source.checkpoint, skill)
        evaluation, directory = evaluate.evaluate(run, source.checkpoint, skill=skill or evaluate.Skill(""), **panel)
    bound_pair.record(directory, verdict)
    others = evaluate.comparable(root, evaluation) if against is None else against
    comparisons = [(other.name, evaluate.compare(other, evaluation)) for other in others]
    remarks = [bound_pair.words(verdict)]
    remarks += [f"Both arms are there: {path}" for path in write_benchmarks(root, evaluation)]
    print_evaluation(evaluation, comparisons, str(directory), look_of(arguments))
    print_blocks(map(Line, remarks), look_of(arguments))
    return 0
