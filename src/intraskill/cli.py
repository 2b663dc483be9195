"""The command line: flags and overrides (``key=value``, ``+exp=name``) in any order, and errors as one sentence.

Each command loads the heavy packages that it needs, so that help is there at once.
"""

import argparse
import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence

from intraskill import __version__
from intraskill.commands import (
    Command,
    coldstart,
    doctor,
    editor,
    env,
    evaluate,
    gate,
    options,
    report,
    skill,
    train,
    validate,
    warmstart,
)
from intraskill.method.errors import IntraSkillError, WaitsForPerson
from intraskill.report.screen import open_screen, say

OVERRIDE = re.compile(r"^[+~]{0,2}[A-Za-z_][\w./@-]*=")
COMMANDS = (train, coldstart, editor, validate, evaluate, report, skill, env, gate, warmstart, options, doctor)
EPILOG = """overrides: any option as key=value, and +exp=NAME for an experiment of configs/exp.
examples:
  intraskill train                                   the quickstart
  intraskill train +exp=planted seed=3 run_dir=runs/p3
  intraskill train +exp=shopsim --dry-run
  intraskill eval --ckpt runs/quickstart --mode skill-free --split model_dev --repeats 2
  intraskill options clip                            every option on clipping
"""
READER_GONE = 141
"""Exit status when whoever reads our output has gone, as a shell counts a program that SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; an error on purpose becomes one sentence and exit status 2."""
    open_screen()
    words = list(sys.argv[1:] if argv is None else argv)
    overrides = [word for word in words if OVERRIDE.match(word)]
    arguments = _parser().parse_args([word for word in words if not OVERRIDE.match(word)])
    command: Command = arguments.command
    _listen()
    try:
        status = command(arguments, overrides)
        sys.stdout.flush()
        return status
    except WaitsForPerson as waiting:
        say(str(waiting))
        return main(words) if sys.stdin.isatty() and waiting.ask() else 0
    except IntraSkillError as error:
        say(f"intraskill: {type(error).__name__}: {error}", error=True)
        return 2
    except KeyboardInterrupt as stopped:
        say("\nintraskill: stopped; the same command continues from the last saved step", error=True)
        return 128 + (stopped.args[0] if stopped.args else signal.SIGINT)
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None and _reader_left():
            say("intraskill: the standard output cannot be written: no space is left where it goes", error=True)
            return 2
        if error.errno not in (errno.EPIPE, errno.EINVAL) or not _reader_left():  # Windows says EINVAL
            raise
        return READER_GONE


def _listen() -> None:
    """Let a scheduler's SIGTERM, and the SIGHUP of a closed terminal, end a command as Ctrl-C does.

    Whoever had a handler of their own, or had the signal ignored as nohup does, keeps that.
    """

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():
        return
    for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")):  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


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
    parser.add_argument("--version", action="version", version=f"intraskill {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, text: str, command: Command) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    for module in COMMANDS:
        module.add(verb)
    return parser


if __name__ == "__main__":
    sys.exit(main())
