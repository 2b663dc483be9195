"""Live progress: a rich bar in a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from intraskill.config.quoting import shown
from intraskill.report.screen import error_console, say
from intraskill.store.usage import Usage

_PLAIN_SECONDS = 10.0
"""Outside a terminal, at most one progress line per so many seconds."""


class LiveMonitor:
    """A bar per stage: stage, step, reward ± SE, tokens/s, time left. Use as a context manager."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<24}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]:<24}", markup=False),
            TextColumn("{task.fields[speed]:>14}", markup=False),
            TimeRemainingColumn(),
            console=error_console(),
        )
        self._task: Any = None
        self._llm: Any = None
        self._began, self._tokens = 0.0, 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def stage(self, round_index: int | None, name: str, total: int) -> None:
        """Replace the bar by one for the new stage."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._began, self._tokens = time.perf_counter(), 0
        self._task = self._progress.add_task(_title(round_index, name), total=total, note="", speed="")

    def advance(self, done: int, *, tokens: int = 0, note: str = "") -> None:
        """Move the bar."""
        self._tokens += tokens
        speed = self._tokens / max(time.perf_counter() - self._began, 1e-9)
        self._progress.update(self._task, completed=done, note=shown(note), speed=f"{speed:,.0f} tokens/s")

    def spent(self, usage: Usage) -> None:
        """Keep a second line with what an LLM has cost; it has no end that a bar could run to."""
        if self._llm is None:
            self._llm = self._progress.add_task("LLM so far", total=None, note="", speed="")
        self._progress.update(self._llm, completed=usage.calls, note=usage.words())

    def say(self, message: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(shown(message))


class PlainMonitor:
    """One line per stage and at most one every ten seconds inside it."""

    def __init__(self) -> None:
        self._title, self._total = "", 0
        self._began = self._last = 0.0
        self._told = float("-inf")
        self._tokens = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None

    def stage(self, round_index: int | None, name: str, total: int) -> None:
        """Announce the stage."""
        self._title, self._total, self._tokens = _title(round_index, name), total, 0
        self._began = self._last = time.perf_counter()

    def advance(self, done: int, *, tokens: int = 0, note: str = "") -> None:
        """Print a line when the last one is old enough, and at the end of the stage."""
        now = time.perf_counter()
        self._tokens += tokens
        if now - self._last < _PLAIN_SECONDS and done < self._total:
            return
        self._last = now
        elapsed = max(now - self._began, 1e-9)
        left = elapsed / max(done, 1) * (self._total - done)
        self.say(f"{self._title} {done}/{self._total} {note} {self._tokens / elapsed:,.0f} tokens/s, {left:.0f} s left")

    def spent(self, usage: Usage) -> None:
        """Print a line when the last one is old enough."""
        now = time.perf_counter()
        if now - self._told >= _PLAIN_SECONDS:
            self._told = now
            self.say(f"LLM so far: {usage.words()}")

    def say(self, message: str) -> None:
        """Print a line."""
        say(message, error=True)


def _title(round_index: int | None, name: str) -> str:
    words = shown(name.replace("_", " "))
    return words if round_index is None else f"round {round_index} · {words}"


def monitor() -> LiveMonitor | PlainMonitor:
    """Return the live display in a terminal, plain lines elsewhere."""
    return LiveMonitor() if sys.stderr.isatty() else PlainMonitor()
