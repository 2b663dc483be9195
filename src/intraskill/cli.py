"""The command line; the only file that knows Hydra.

Flags and Hydra overrides (``key=value``, ``+exp=name``) mix in any order. Heavy packages load inside the command
that needs them.
"""

import argparse
import difflib
import errno
import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from intraskill.commands import Command, coldstart, editor, env, gate, skill, validate, warmstart
from intraskill.config.config import Config, check, flatten, unflatten
from intraskill.config.learning import launched
from intraskill.config.option import nearest
from intraskill.config.shipped import CONFIGS
from intraskill.method.errors import ConfigError, IntraSkillError, WaitsForPerson

OVERRIDE = re.compile(r"^[+~]{0,2}[A-Za-z_][\w./@-]*=")
OPTIONS = ("env.options", "editor.options", "rollout.vllm.options")
"""Options that hold whatever a factory or an engine takes."""
DEFAULT_EXPERIMENT = "quickstart"
READER_GONE = 141
"""Exit status when whoever reads our output has gone, as a shell counts a program that SIGPIPE ended."""
EPILOG = """overrides: any option as key=value, and +exp=NAME for an experiment of configs/exp.
examples:
  intraskill train                                   the quickstart
  intraskill train +exp=planted seed=3 run_dir=runs/p3
  intraskill train +exp=shopsim --dry-run
  intraskill eval --ckpt runs/quickstart --mode skill-free --split model_dev --repeats 2
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; an error on purpose becomes one sentence and exit status 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    overrides = [word for word in words if OVERRIDE.match(word)]
    arguments = _parser().parse_args([word for word in words if not OVERRIDE.match(word)])
    command: Command = arguments.command
    try:
        status = command(arguments, overrides)
        if sys.stdout is not None:  # closed before the start
            sys.stdout.flush()
        return status
    except WaitsForPerson as waiting:
        sys.stdout.write(f"{waiting}\n")
        return main(words) if sys.stdin.isatty() and waiting.ask() else 0
    except IntraSkillError as error:
        sys.stderr.write(f"intraskill: {type(error).__name__}: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\nintraskill: stopped; the same command continues from the last saved step\n")
        return 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EINVAL) or not _reader_left():  # Windows says EINVAL
            raise
        return READER_GONE


def _reader_left() -> bool:
    """Whether whoever read the output is gone, as in ``… | head``; what is left of it then goes nowhere."""
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="intraskill",
        description="Train an agent with GRPO while a written skill evolves beside it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, text: str, command: Command) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    train = verb("train", "run the whole loop, or continue it", _train)
    train.add_argument("--dry-run", action="store_true", help="print the resolved plan and stop")
    train.add_argument("--seed", type=int, help="same as seed=N")
    train.add_argument("--run-dir", help="same as run_dir=DIR")
    train.add_argument("--review", action="store_const", const="true", help="ask a person before each gate")
    coldstart.add(verb, compose)
    editor.add(verb, partial(compose, experiment=None), _config_beside)
    validate.add(verb, _config_beside)
    panel = verb("eval", "evaluate a checkpoint on a split and compare it with other evaluations", _eval)
    panel.add_argument("--ckpt", help="a run, a round, or a checkpoint directory (default: that of --pair)")
    panel.add_argument("--skill", help="skill file instead of the one beside the checkpoint")
    panel.add_argument("--pair", help="a run, an export or a pair.json: refuse what is not the pair that it binds")
    panel.add_argument("--out", help="where to write (default: in the run)")
    panel.add_argument("--tasks", type=int, help="at most so many tasks")
    panel.add_argument("--mode", choices=("skill-free", "skill-augmented"), default="skill-free")
    panel.add_argument("--split", default="model_dev", help="train, skill_validation, model_dev, audit or test")
    panel.add_argument("--repeats", type=int, default=1, help="rollouts per task")
    panel.add_argument("--against", help="another evaluation to compare with (its directory)")
    verb("report", "print the tables of a run and rewrite its summary.json", _report).add_argument("run")
    skill.add(verb)
    env.add(verb, partial(compose, experiment=None))
    gate.add(verb)
    warmstart.add(verb, compose)
    verb("doctor", "check that this machine has what a run needs", _doctor)
    return parser


def compose(overrides: Sequence[str], *, experiment: str | None = DEFAULT_EXPERIMENT) -> Config:
    """Return the checked config of an experiment and overrides.

    Raises:
        ConfigError: for an unknown key or experiment, with a suggestion, or a value that does not fit.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    words = [_checked(word) for word in overrides]
    if experiment is not None and not any(word.startswith("+exp=") for word in words):
        words = [f"+exp={experiment}", *words]
    ConfigStore.instance().store(name="schema", node=Config)
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            composed = OmegaConf.to_object(hydra_compose("config", overrides=words))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_sentence(error.__cause__ or error)) from error
    assert isinstance(composed, Config)
    return check(composed)


def _sentence(error: BaseException) -> str:
    """Return omegaconf's message as one sentence that begins with the option's name."""
    message, _, rest = str(error).partition("full_key:")
    key = f"{rest.split()[0]}: " if rest.split() else ""
    return key + " ".join(message.split())


def _checked(word: str) -> str:
    """Refuse an unknown key or experiment with a suggestion; spell the override as Hydra wants it."""
    if word.startswith("~"):
        raise ConfigError(f"{word}: ~ deletes a key, and no option can be deleted; write {word.lstrip('~')} to set it")
    name, _, value = word.partition("=")
    key = name.lstrip("+~")
    if key == "exp":
        known = sorted(path.stem for path in (CONFIGS / "exp").glob("*.yaml"))
        if value not in known:
            raise ConfigError(f"there is no experiment {value!r}{_suggestion(value, known)}; choose {', '.join(known)}")
        return f"+exp={value}"
    if key in OPTIONS:
        raise ConfigError(f"{word}: give each option a word of its own, {key}.NAME=VALUE, such as {key}.seed=3")
    if key.startswith(tuple(f"{mapping}." for mapping in OPTIONS)):
        return f"++{key}={value}"
    known = sorted(flatten(Config()))
    if key not in known:
        raise ConfigError(
            f"there is no option {key!r}{_suggestion(key, known)}; all options stand in intraskill/config/config.py"
        )
    return f"{key}={_spelt(key, value)}"


def _spelt(key: str, value: str) -> str:
    """Return a value as Hydra reads it: a path with blanks or letters of other scripts is no word of its grammar."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        OverridesParser.create().parse_override(f"{key}={value}")
    except HydraException:
        if not value.startswith(("[", "{")):  # a list or mapping with a slip keeps Hydra's own complaint
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
    return value


def _suggestion(word: str, known: Sequence[str]) -> str:
    if found := nearest(word, known):
        return found
    leaves = {name.rpartition(".")[2]: name for name in known}
    leaf = difflib.get_close_matches(word.rpartition(".")[2], list(leaves), n=1, cutoff=0.6)
    return f", did you mean {leaves[leaf[0]]!r}?" if leaf else ""


def _train(arguments: argparse.Namespace, overrides: list[str]) -> int:
    flags = {"seed": arguments.seed, "run_dir": arguments.run_dir, "review": arguments.review}
    config = compose([*overrides, *(f"{key}={value}" for key, value in flags.items() if value is not None)])
    from rich.console import Console

    leads = launched().rank == 0
    if arguments.dry_run and not leads:
        return 0
    if arguments.dry_run:
        from intraskill.report.dry_run import plan_table

        Console().print(plan_table(config), highlight=False)
        return 0
    from intraskill.report.live import monitor
    from intraskill.report.summary import write_summary
    from intraskill.report.tables import print_report
    from intraskill.rl.start import run_together
    from intraskill.rounds.loop import run
    from intraskill.rounds.setup import environment_of

    with monitor() if leads else nullcontext() as watcher:
        root = run_together(config, run, environment_of, watcher)
    if root is not None:
        print_report(write_summary(root), str(root))
    return 0


def _config_beside(root: Path | None, overrides: list[str]) -> Config:
    """Return the config that a checkpoint was trained with, plus overrides; the default one for loose weights."""
    if root is None:
        return compose(overrides)
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from intraskill.store.provenance import plan_record

    base = unflatten(plan_record(root)["plan"])
    words = [_checked(word).lstrip("+") for word in overrides]
    try:
        merged = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(base), OmegaConf.from_dotlist(words)))
    except OmegaConfBaseException as error:
        raise ConfigError(_sentence(error)) from error
    assert isinstance(merged, Config)
    return check(merged)


def _eval(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.history.export import write_benchmarks
    from intraskill.report.live import monitor
    from intraskill.report.tables import print_evaluation
    from intraskill.rounds import bound_pair, evaluate
    from intraskill.rounds.setup import bench
    from intraskill.store.run_directory import make_directory

    if not (arguments.ckpt or arguments.pair):
        raise ConfigError("eval needs --ckpt, a run, a round or a checkpoint, or --pair, a run or a pair.json of one")
    source = evaluate.find_source(Path(arguments.ckpt) if arguments.ckpt else bound_pair.checkpoint_of(arguments.pair))
    config = _config_beside(source.root, overrides)
    claim = bound_pair.claim_of(arguments.pair, source.checkpoint, other_skill=arguments.skill is not None)
    skill = bound_pair.skill_for(source, arguments.skill, arguments.pair, mode=arguments.mode, claim=claim)
    root = Path(arguments.out) if arguments.out else (source.root or Path(".")) / "evals"
    make_directory(root)
    against = [evaluate.read_evaluation(Path(arguments.against))] if arguments.against else None
    panel = {"mode": arguments.mode, "split": arguments.split, "repeats": arguments.repeats, "tasks": arguments.tasks}
    with monitor() as watcher:
        run = bench(config, root, watcher)
        verdict = bound_pair.judge(claim, run, source.checkpoint, skill)
        found, directory = evaluate.evaluate(run, source.checkpoint, skill=skill or evaluate.Skill(""), **panel)
    bound_pair.record(directory, verdict)
    others = evaluate.comparable(root, found) if against is None else against
    comparisons = [(other.name, evaluate.compare(other, found, seed=config.seed)) for other in others]
    print_evaluation(found, comparisons, str(directory))
    sys.stdout.write(f"{bound_pair.words(verdict)}\n")
    for path in write_benchmarks(root, found):
        sys.stdout.write(f"Both arms are there: {path}\n")
    return 0


def _report(arguments: argparse.Namespace, overrides: list[str]) -> int:
    _no_overrides(overrides)
    if (Path(arguments.run) / "editor").is_dir():
        editor.print_tables(Path(arguments.run))
        return 0
    from intraskill.report.summary import write_summary
    from intraskill.report.tables import print_report

    print_report(write_summary(Path(arguments.run)), arguments.run, curse=True)
    return 0


def _doctor(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.report.doctor import examine

    findings = examine(compose(overrides))
    for good, text in findings:
        sys.stdout.write(f"{'ok ' if good else 'NO '} {text}\n")
    return 0 if all(good for good, _ in findings) else 1


def _no_overrides(overrides: list[str]) -> None:
    if overrides:
        raise ConfigError(f"this command takes no overrides, got {' '.join(overrides)}")


if __name__ == "__main__":
    sys.exit(main())
