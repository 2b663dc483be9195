"""One life of an editor's training or pass in a process of its own, which may die at its n-th fsync.

The processes are forked from a server that has imported torch and done nothing with it: forking a process whose torch
has worked hangs, and importing torch anew for each of dozens of lives takes minutes.
"""

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dying import dies_at
from editor.editing import planted_editing

PRELOADED = ["intraskill.editor.training", "intraskill.editor.compiling", "intraskill.rl.trainer",
             "transformers.models.qwen3.modeling_qwen3"]  # fmt: skip
Act = Callable[..., int]


def lived(act: Act, *arguments: Any, syncs: int = 0) -> tuple[int | None, tuple[int, int]]:
    """Run ``act`` until it ends or dies at its ``syncs``-th fsync (0 = never).

    Returns:
        The exit code, and what it returned with its number of fsyncs; (0, 0) for one that did not end.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_live, args=(act, arguments, syncs, sender))
    child.start()
    sender.close()
    child.join()
    return child.exitcode, receiver.recv() if child.exitcode == 0 else (0, 0)


def _live(act: Act, arguments: tuple[Any, ...], syncs: int, told: Any) -> None:
    import torch

    torch.set_num_threads(1)
    count = dies_at(syncs)
    told.send((act(*arguments), count()))


def train(place: Path, name: str) -> int:
    """Train in ``place/name``; return how many trials the worker was asked for."""
    from intraskill.editor.training import train_editor

    return train_editor(planted_editing(place, name)).trials.asked


def compile_(place: Path, evidence: Path | None, out: Path) -> int:
    """Compile the held-out streams, or one file onto three rules; return the number of edits."""
    from intraskill.editor.compiling import compile_files, compile_held_out
    from intraskill.method.skill.skill import Chunk, Skill
    from intraskill.store.metrics import Silence

    config = planted_editing(place, "unused", units=2)
    config.editor.batch = 1
    if evidence is None:
        return sum(len(one.log) for one in compile_held_out(config, None, out, Silence()))
    rules = tuple(Chunk(f"Rule {word}", f"Mind the {word}.") for word in ("size", "price", "colour"))
    return len(compile_files(config, None, [evidence], Skill("", rules), out / "skill.md", Silence()).log)
