"""Compile skills from evidence in one pass without a reward; a killed pass goes on without asking twice."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from intraskill.config.config import Config
from intraskill.editor.domain import Stream
from intraskill.editor.files import file_workbench
from intraskill.editor.passes import Compiled, compile_streams
from intraskill.editor.setup import EditorRun, editor_bench, limits_of, streams_of
from intraskill.editor.training import slug
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import Skill
from intraskill.store.artifacts import EDIT_LOG
from intraskill.store.metrics import Monitor, log_spending
from intraskill.store.run_directory import PartialLog, locked, write_text


def compile_files(
    config: Config, checkpoint: Path | None, paths: Sequence[Path], skill: Skill, out: Path, monitor: Monitor
) -> Compiled:
    """Compile one skill from files and write it to ``out``, beside a log of every edit.

    Args:
        config: editor and limits.
        checkpoint: a trained editor's weights on top of ``policy.path``; ``None`` for the weights there.
        paths: documents and trajectories, in order.
        skill: z_0.
        out: the skill file.
        monitor: whoever watches.

    Raises:
        ConfigError: when ``out`` exists without an unfinished log, or for evidence that cannot be read.
        ArtifactError: when an unfinished log beside it is of another pass.
    """
    log = PartialLog(out.with_name(f"{out.stem}.{EDIT_LOG.name}"))
    with locked(out.parent):
        if out.exists() and not log.count():  # with a log it is that of a pass killed after writing it
            raise ConfigError(f"{out} exists already; choose another file, or delete it to make it anew")
        workbench = file_workbench(paths, skill, limits_of(config))
        run = editor_bench(config, out.parent, monitor, workbench)
        (stream,) = workbench.domain.streams("held_out")
        (compiled,) = _compiled(run, checkpoint, {out: stream}, log)
    return compiled


def compile_held_out(config: Config, checkpoint: Path | None, out: Path, monitor: Monitor) -> list[Compiled]:
    """Compile one skill from each held-out stream of the domain into the directory ``out``.

    Raises:
        ConfigError: when ``out`` is a file, or holds a finished pass.
        ArtifactError: when an unfinished log in it is of another pass.
    """
    if out.is_file():
        raise ConfigError(f"{out} is a file; the held-out streams give many skills, name a directory")
    if EDIT_LOG.exists(out):
        raise ConfigError(f"{out} holds a finished pass already; choose another directory, or delete it")
    with locked(out):  # before the streams are made: they may be paid for
        run = editor_bench(config, out, monitor)
        streams = {out / f"{slug(stream.id)}.md": stream for stream in streams_of(run, "held_out")}
        return _compiled(run, checkpoint, streams, PartialLog(EDIT_LOG.path(out)))


def _compiled(
    run: EditorRun, checkpoint: Path | None, streams: Mapping[Path, Stream], log: PartialLog
) -> list[Compiled]:
    """Compile and write each stream's skill; the log takes its final name last, so that a killed pass finds it."""
    if checkpoint is not None:
        run.learner.load(checkpoint)
    found = compile_streams(run, list(streams.values()), log)
    for out, one in zip(streams, found, strict=True):
        write_text(out, one.skill.to_markdown())
    log_spending(run.metrics, run.monitor, run.usage, 0, "llm")
    log.commit()
    return found
