"""Runs a program that a model wrote: own process and folder, no inherited environment, limits of time and memory.

This is no sandbox. The program runs as the same user, can read what that user can read and can reach the network; run
it in a container or a virtual machine. Nothing is executed unless ``editor.options.execute=true``.
"""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from intraskill.method.errors import EnvironmentFault
from intraskill.method.thoughts import without_thought

SHOWN = 500
"""Characters of a program's last words that are kept."""
FILES = 64
"""Open files; with no core dump and files of at most `Confines.memory_mb`."""
_FENCE = re.compile(r"^```[ \t]*(?:python|py)?[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Confines:
    """Limits of one program.

    Attributes:
        seconds: longest run, on the clock and of the processor.
        memory_mb: most address space, MiB, and largest file.
    """

    seconds: int = 30
    memory_mb: int = 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended.

    Attributes:
        trouble: empty when it ended well; else the last line of its error, or the limit that it broke.
        outputs: name → content of the files that were asked for and are there.
    """

    trouble: str
    outputs: Mapping[str, bytes]


def program_of(text: str) -> str:
    """Return the code of an answer: its last fenced block, or an answer without fences as it stands."""
    body = without_thought(text)
    blocks = _FENCE.findall(body)
    return str(blocks[-1]) if blocks else body


def run_program(code: str, inputs: Mapping[str, bytes], outputs: tuple[str, ...], confines: Confines) -> Ran:
    """Run Python code in a folder of its own.

    Args:
        code: the program.
        inputs: name → content of the files that it finds in its working folder.
        outputs: names of the files that are wanted back.
        confines: its limits.

    Raises:
        EnvironmentFault: when no process can be started: the machine's trouble, not the program's.
    """
    with tempfile.TemporaryDirectory(prefix="program-") as name:
        folder = Path(name)
        for file, content in inputs.items():
            (folder / file).write_bytes(content)
        (folder / "program.py").write_text(code, encoding="utf-8", errors="replace")
        trouble = _process(folder, confines)
        if not trouble:
            absent = [file for file in outputs if not (folder / file).is_file() or (folder / file).is_symlink()]
            trouble = f"it did not write {absent[0]}" if absent else ""
        kept = {} if trouble else {file: (folder / file).read_bytes() for file in outputs}
    return Ran(trouble, kept)


def _process(folder: Path, confines: Confines) -> str:
    errors = folder / "errors.txt"
    environment = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    began = time.monotonic()
    try:
        with errors.open("wb") as stream:
            process = subprocess.Popen(
                _command(confines),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )
    except OSError as error:
        raise EnvironmentFault(f"no process can be started ({error})") from error
    try:
        process.wait(timeout=confines.seconds)
    except subprocess.TimeoutExpired:
        return f"it ran longer than {confines.seconds} seconds"
    finally:
        _end(process)
    # At the hard limit of processor time the kernel sends SIGKILL, as anybody may; so late, it was the limit.
    late = process.returncode == -signal.SIGKILL and time.monotonic() - began >= confines.seconds
    if process.returncode == -signal.SIGXCPU or late:
        return f"it ran longer than {confines.seconds} seconds"
    if process.returncode < 0:
        return f"it was ended by signal {-process.returncode}"
    if process.returncode == 0:
        return ""
    words = _end_of(errors).splitlines()
    return (words[-1] if words else f"it ended with status {process.returncode}")[:SHOWN]


def _end_of(path: Path, most: int = 4096) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - most, 0))
        return stream.read().decode(errors="replace").strip()


def _command(confines: Confines) -> list[str]:
    """Return what sets the limits on itself and then becomes the program, which so never runs a moment without them.

    This process has threads and must not run code after a fork, and limits set on a child from outside come too late
    for a short program on a busy machine.

    Raises:
        OSError: when the system has no such limits.
    """
    if not hasattr(resource, "prlimit"):
        raise OSError("this system sets no limit on what a process takes; run on Linux")
    size = confines.memory_mb << 20
    limits = [
        (resource.RLIMIT_AS, size),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_CPU, confines.seconds),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ]
    program = [sys.executable, "-I", "-X", "utf8", "program.py"]
    limit = "import os, resource\n"
    limit += "".join(f"resource.setrlimit({int(kind)}, ({most}, {most}))\n" for kind, most in limits)
    return [sys.executable, "-I", "-S", "-c", f"{limit}os.execv({program[0]!r}, {program!r})"]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and whatever it started in its own session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
