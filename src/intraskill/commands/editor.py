"""`intraskill editor`: train a skill editor, warm it up on traces, and let it compile a skill from evidence."""

import argparse
import dataclasses
import shlex
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

from intraskill.commands import Verb, config_beside
from intraskill.commands.numbers import real, whole
from intraskill.commands.warmstart import print_step
from intraskill.config.config import Config
from intraskill.config.overrides import compose
from intraskill.config.quoting import assignment, command
from intraskill.method.errors import ConfigError, counted
from intraskill.report.screen import Line, Look, print_blocks, say


def add(verb: Verb) -> None:
    """Register the commands."""
    parser = verb("editor", "train a policy that edits skills (Skill-α), and use it", _editor)
    actions = parser.add_subparsers(required=True, dest="action", metavar="ACTION")

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text)

    train = action("train", "train an editor with rollback rewards, or continue")
    train.add_argument("--dry-run", action="store_true", help="print what is read, tried and paid, and stop")
    sft = action("sft", "fine-tune policy.path on edit traces")
    sft.add_argument("--traces", metavar="FILE", help="JSON lines of prompt and answer (default: synthetic ones)")
    _amount(sft)
    sft.add_argument("--out", required=True, metavar="DIR", help="where to write the weights")
    sft.add_argument("--lr", type=real(), default=5e-6, help="learning rate")
    sft.add_argument("--batch", type=whole(), default=32, help="traces per optimizer step")
    sft.add_argument("--epochs", type=whole(), default=3, help="passes over the traces")
    sft.add_argument("--max-tokens", type=whole(), default=32768, help="longest trace, prompt included")
    traces = action("traces", "write synthetic edit traces and stop")
    _amount(traces)
    traces.add_argument("--out", required=True, metavar="FILE", help="JSON lines to write")
    compile_ = action("run", "compile a skill from evidence in one pass, without a reward")
    compile_.add_argument(
        "evidence", nargs="*", metavar="EVIDENCE", help=".md, .txt, .jsonl; default: held-out streams"
    )
    compile_.add_argument("--ckpt", required=True, metavar="DIR", help="an editor's run, or a model directory")
    compile_.add_argument("--skill", metavar="FILE", help="skill to begin with (default: an empty one)")
    compile_.add_argument("--out", required=True, metavar="PATH", help="skill file; a directory for held-out streams")


def _amount(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--number", type=whole(), default=2000, metavar="N", help="synthetic traces")
    parser.add_argument("--careless", type=real("[0, 1]"), default=0.2, metavar="P", help="share of arbitrary answers")


def _editor(arguments: argparse.Namespace, overrides: list[str]) -> int:
    if arguments.action == "run":
        return _run(arguments, overrides)
    action = {"train": _train, "sft": _sft, "traces": _traces}[arguments.action]
    return action(arguments, compose(overrides, default=False))


def _train(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.report.editor import editor_plan
    from intraskill.rl.distributed.launch import launched

    leads = launched().rank == 0
    if arguments.dry_run:
        if leads:
            print_blocks([editor_plan(config)])
        return 0
    from intraskill.editor.setup import environment_of
    from intraskill.editor.training import train_editor
    from intraskill.report.live import monitor
    from intraskill.rl.start import run_together

    with monitor() if leads else nullcontext() as watcher:
        run = run_together(config, train_editor, environment_of, watcher)
    if run is None:
        return 0
    print_tables(run.root)
    trials = run.trials
    say(f"Trials: {trials.asked} asked of the worker, {trials.found} known already")
    if trials.faults:
        say(f"{counted(len(trials.faults), 'trial')} without a score, the last: {trials.faults[0]}")
    # An editor of the bare format names drafts, which come with a domain's own evidence only.
    evidence = "--out skills/" if config.editor.terse else "EVIDENCE… --out skill.md"
    say(f"Next: {command('editor', 'run', '--ckpt', run.root)} {evidence}")
    return 0


def print_tables(root: Path, look: Look | None = None) -> None:
    """Print what an editor's run did so far."""
    from intraskill.report.editor import editor_tables, paid_line

    print_blocks([*editor_tables(root), *paid_line(root)], look)


def _traces(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.editor.warm_start import synthetic_traces, write_traces

    out = Path(arguments.out)
    pairs = synthetic_traces(config, arguments.number, careless=arguments.careless, root=out.parent)
    write_traces(out, pairs)
    say(f"{counted(len(pairs), 'trace')} in {out}")
    return 0


def _sft(arguments: argparse.Namespace, config: Config) -> int:
    from transformers.utils import logging

    from intraskill.editor import warm_start
    from intraskill.recipes.sft import SftSettings, fine_tune
    from intraskill.rl.policy import lora_of
    from intraskill.rl.start import policy_directory

    out = Path(arguments.out)
    if out.exists():
        raise ConfigError(f"{out} exists already; choose another directory, or delete it to make it anew")
    logging.disable_progress_bar()
    settings = SftSettings(
        learning_rate=arguments.lr,
        batch=arguments.batch,
        epochs=arguments.epochs,
        lora=lora_of(config.policy),
        threads=config.threads,
        seed=config.seed,
        warmup=0.05,
        schedule="cosine",
        max_tokens=arguments.max_tokens,
    )
    if arguments.traces:
        pairs = warm_start.read_traces(Path(arguments.traces))
    else:
        pairs = warm_start.synthetic_traces(config, arguments.number, careless=arguments.careless, root=out.parent)
    examples = warm_start.encoded(pairs, warm_start.codec_of(config))
    say(f"{counted(len(examples), 'trace')}, {sum(len(ids) for ids, _ in examples):,} tokens")
    fine_tune(policy_directory(config.policy.path), examples, out, settings, print_step)
    say(f"Weights: {out}\nNext: intraskill editor train … {shlex.quote(assignment('policy.path', out))}")
    return 0


def _run(arguments: argparse.Namespace, overrides: list[str]) -> int:
    from intraskill.editor.compiling import compile_files, compile_held_out
    from intraskill.editor.trained import TINY, TINY_EXPERIMENT
    from intraskill.method.skill.skill import Skill
    from intraskill.report.editor import paid_line
    from intraskill.report.live import monitor
    from intraskill.store.artifacts import PLAN
    from intraskill.store.provenance import named_skill
    from intraskill.store.run_directory import is_sealed

    ckpt, out = Path(arguments.ckpt), Path(arguments.out)
    if not out.name:
        raise ConfigError(f"--out={arguments.out!r} names no file; give the skill file to write, or a directory")
    if arguments.ckpt == TINY:
        if not any(word.startswith("+exp=") for word in overrides):
            overrides = [f"+exp={TINY_EXPERIMENT}", *overrides]
    elif not ckpt.is_dir():
        raise ConfigError(f"--ckpt {ckpt} is not a directory; give a run of editor train, a model directory, or {TINY}")
    trained = PLAN.path(ckpt).is_file()
    if trained and not is_sealed(ckpt / "editor"):
        raise ConfigError(
            f"--ckpt {ckpt} is no finished run of editor train (no editor/DONE); finish the editor's training first, "
            "or give another run"
        )
    if trained:
        config = config_beside(ckpt, overrides)
    else:
        config = compose([*overrides, assignment("policy.path", ckpt)], default=False)
    checkpoint = ckpt / "editor" / "checkpoint" if trained else None
    config = dataclasses.replace(config, run_dir=str(out.parent))
    with monitor() as watcher:
        if arguments.evidence:
            files = [Path(name) for name in arguments.evidence]
            skill = named_skill(arguments.skill) if arguments.skill else Skill("")
            found = [compile_files(config, checkpoint, files, skill, out, watcher)]
        elif arguments.skill:
            raise ConfigError("--skill goes with EVIDENCE; held-out streams bring their own")
        else:
            found = compile_held_out(config, checkpoint, out, watcher)
    for one in found:
        rows = one.log
        taken = sum(not row["invalid"] and row["action"] != "NOOP" for row in rows)
        reasons = Counter(row["invalid"] for row in rows if row["invalid"])
        why = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
        say(
            f"{one.stream}: {counted(len(rows), 'step')}, {counted(taken, 'edit')}, {reasons.total()} invalid"
            f"{f' ({why})' * bool(why)}, {counted(len(one.skill.chunks), 'chunk')}"
        )
    print_blocks([*paid_line(out), Line(f"Written: {out}")])
    return 0
