"""Export a run's pair as an Agent Skills folder: the skill, what each chunk contributed, the pair and its benchmark."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from intraskill.method.errors import ArtifactError, ConfigError, counted, offenders
from intraskill.method.rewards import success_of
from intraskill.method.skill.agent_skill import (
    SKILL_FILE,
    describe,
    front_matter_problems,
    reference,
    render_body,
    render_front_matter,
    skill_name,
)
from intraskill.method.skill.skill import Skill
from intraskill.rounds.bound_pair import family_beside, pair_of
from intraskill.rounds.earlier_rounds import round_number
from intraskill.rounds.evaluate import MODES, read_evaluation
from intraskill.store.agent_skill import CHUNKS_FILE, CHUNKS_FORMAT, is_export
from intraskill.store.artifacts import (
    BENCHMARK,
    EDITS,
    EVALUATION,
    FINAL,
    METRICS,
    PAIR,
    PLAN,
    ROLLOUTS,
    ROUND,
    SKILL,
    arm,
)
from intraskill.store.contents import BenchmarkFile, BoundPair, Evaluation
from intraskill.store.metrics import Metrics
from intraskill.store.run_directory import (
    directory_written_whole,
    finished_rounds,
    is_sealed,
    make_directory,
    verify,
    write_json,
    write_text,
)

MEASURES = ("pass_rate", "time_seconds", "tokens")
_NOTES = (
    "pass_rate: share of full successes; mean and standard deviation over rollouts.",
    "time_seconds: wall-clock time of the arm over its rollouts, which ran side by side in batches; none is timed "
    "alone, so there is no deviation.",
    "tokens: prompt and sampled tokens of a rollout; with the skill its prompt holds the skill.",
    "delta: with_skill minus without_skill; for intervals see the evaluation itself.",
)

Row = Mapping[str, Any]


def arm_summary(rows: Sequence[Row], metrics: Row | None) -> dict[str, Any]:
    """Return one arm's statistics.

    Args:
        rows: its rollouts as written to disk; faults do not count.
        metrics: its line of ``metrics.jsonl``, for the time.
    """
    scored = [row for row in rows if row["reward"] is not None]
    success = [float(success_of(row["parts"], row["reward"])) for row in scored]
    tokens = [float(row["sampled_tokens"] + row["prompt_tokens"]) for row in scored]
    speed = (metrics or {}).get("eval/tokens_per_s")  # per second of the process that sampled: also right after a kill
    sampled = [row["sampled_tokens"] for row in rows]
    seconds = fmean(sampled) / speed if speed and sampled else None
    time = {"mean": None if seconds is None else round(seconds, 6), "stddev": None}
    return {"pass_rate": _spread(success), "time_seconds": time, "tokens": _spread(tokens)}


def benchmark(with_skill: Row, without_skill: Row, about: Row) -> BenchmarkFile:
    """Return the content of ``benchmark.json`` from both arms' statistics."""
    means = {name: (with_skill[name]["mean"], without_skill[name]["mean"]) for name in MEASURES}
    delta = {name: None if None in pair else round(pair[0] - pair[1], 6) for name, pair in means.items()}
    summary = {"with_skill": with_skill, "without_skill": without_skill, "delta": delta}
    return {"metadata": dict(about), "run_summary": summary, "notes": list(_NOTES)}


def _of_final(root: Path, round_index: int) -> BenchmarkFile | None:
    """Return the benchmark of a run's final pair from its closing comparison; ``None`` without one."""
    directory = root / "final"
    if not (is_sealed(directory) and arm("final_pair").exists(directory)):
        return None
    verify(directory)
    report, metrics = FINAL.read(directory), Metrics(METRICS.path(root)).rows()
    arms = {
        name: arm_summary(arm(name).data(directory), _line(metrics, name, round_index))
        for name in ("final_pair", "final_free")
    }
    about = {"split": report["split"], "tasks": report["tasks"], "repeats": report["repeats"]}
    return benchmark(arms["final_pair"], arms["final_free"], {"source": "closing comparison", **about})


def _of_evaluations(augmented: Path, free: Path) -> BenchmarkFile:
    """Return the benchmark of two evaluations of one checkpoint on one panel, from their directories."""
    found = read_evaluation(augmented)
    arms = [
        arm_summary(ROLLOUTS.data(path), _line(Metrics(METRICS.path(path)).rows(), "rollouts", 0))
        for path in (augmented, free)
    ]
    about = {"split": found.split, "tasks": len(found.rewards), "repeats": found.repeats}
    hashes = {"checkpoint": found.checkpoint, "skill": found.skill}
    return benchmark(arms[0], arms[1], {"source": "evaluation", **about, **hashes})


def write_benchmarks(root: Path, found: Evaluation) -> list[Path]:
    """Write ``benchmark.json`` into every augmented evaluation under ``root`` that now has its bare arm beside it.

    Args:
        root: where the evaluations of a run lie.
        found: the evaluation just made; only pairs that it is a part of are looked at.
    """
    there = {path.parent: read_evaluation(path) for path in sorted(root.glob(f"*/{EVALUATION.name}"))}
    alike = {
        path: other
        for path, other in there.items()
        if other.panel == found.panel and other.checkpoint == found.checkpoint
    }
    written = []
    for augmented, skill in alike.items():
        if skill.mode != MODES[1]:
            continue
        # The end of a directory's name tells the seed; both arms are compared under the same one.
        free = [
            path
            for path, other in alike.items()
            if other.mode == MODES[0] and path.name.rpartition("-")[2] == augmented.name.rpartition("-")[2]
        ]
        if free and found.name in (skill.name, alike[free[0]].name):
            BENCHMARK.write(augmented, _of_evaluations(augmented, free[0]))
            written.append(BENCHMARK.path(augmented))
    return written


def _find_benchmark(root: Path, round_index: int, *, last: bool, pair: tuple[str, str]) -> BenchmarkFile | None:
    """Return the benchmark of a pair: of the closing comparison, else of the largest evaluation that has both arms.

    Args:
        root: the run.
        round_index: the pair's round.
        last: whether that is the run's last round, which the closing comparison is about.
        pair: hashes of checkpoint and skill.
    """
    if last and (found := _of_final(root, round_index)):
        return found
    files = [BENCHMARK.read(path.parent) for path in sorted(root.glob(f"evals/*/{BENCHMARK.name}"))]
    fitting = [row for row in files if (row["metadata"]["checkpoint"], row["metadata"]["skill"]) == pair]
    return max(fitting, key=lambda row: row["metadata"]["tasks"] * row["metadata"]["repeats"], default=None)


def _line(rows: Sequence[Row], stage: str, round_index: int) -> Row | None:
    found = [row for row in rows if row["stage"] == stage and row["round"] == round_index]
    return found[-1] if found else None


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    return {
        "mean": round(fmean(values), 6) if values else None,
        "stddev": round(stdev(values), 6) if len(values) > 1 else None,
    }


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        folder: the Agent Skills folder.
        skill: what it holds.
        moved: chunks that stand in ``references/``.
        benchmark: whether there is a ``benchmark.json``.
    """

    folder: Path
    skill: Skill
    moved: int
    benchmark: bool

    def lines(self) -> list[str]:
        """Return the report, one line each."""
        places = f", {self.moved} of them in references/" if self.moved else ""
        told = "with benchmark.json" if self.benchmark else (
            "without benchmark.json: no evaluation compares this pair with its bare policy yet; run intraskill eval "
            "in both modes and export again"
        )  # fmt: skip
        return [
            f"{self.folder}: skill {self.skill.hash}, {counted(len(self.skill.chunks), 'chunk')}{places}, {told}",
            f"Check it with the reference validator (pip install skills-ref): agentskills validate {self.folder}",
        ]


def export_skill(source: Path, out: Path, name: str | None = None) -> Exported:
    """Write ``OUT/<name>/``: the same run gives the same bytes, up to the time of the export.

    Args:
        source: a run (its last finished round) or one of its rounds.
        out: directory that the folder goes into.
        name: the skill's name; by default from the task family.

    Raises:
        ArtifactError: when there is no finished round, its files changed, or another folder stands in the way.
        ConfigError: for an illegal name, or a skill without chunks.
        SkillFormatError: when the skill is too long even with its chunks in files of their own.
    """
    directory = _round_of(source)
    root, skill = directory.parent, SKILL.read(directory)
    if not skill.chunks:
        raise ConfigError(f"the skill of {directory} has no chunks, so there is nothing to export; give another round")
    pair = pair_of(directory, family_beside(root))
    chosen = name if name is not None else skill_name(f"{pair.environment.family} skill")
    fields = {"name": chosen, "description": describe(pair.environment.family, skill)}
    metadata = _metadata(pair, root)
    if problems := front_matter_problems({**fields, "metadata": metadata}, chosen):
        raise ConfigError(f"the front matter would break rules of Agent Skills, {offenders(problems)}; choose --name")
    folder = _free(out / chosen)
    body, moved = render_body(skill)
    last = finished_rounds(root)[-1] == directory
    measured = _find_benchmark(root, pair.gate.round, last=last, pair=(pair.checkpoint.hash, pair.skill.hash))
    with directory_written_whole(folder) as aside:
        write_text(aside / SKILL_FILE, f"{render_front_matter(fields, metadata)}\n{body}")
        if moved:
            (aside / "references").mkdir()
        for path, text in moved.items():
            write_text(aside / path, text)
        write_json(aside / CHUNKS_FILE, _chunks_json(directory, skill, moved))
        PAIR.write(aside, pair)
        if measured is not None:
            BENCHMARK.write(aside, measured)
    return Exported(folder, skill, len(moved), measured is not None)


def _round_of(source: Path) -> Path:
    rounds = finished_rounds(source)
    directory = rounds[-1] if rounds else source
    if not (is_sealed(directory) and SKILL.exists(directory)):
        raise ArtifactError(f"{source} is neither a run with a finished round nor such a round")
    return directory


def _free(folder: Path) -> Path:
    """Return ``folder`` when nothing of value stands there: it is absent, empty, or an earlier export."""
    if folder.exists() and not (folder.is_dir() and (is_export(folder) or not any(folder.iterdir()))):
        raise ArtifactError(f"{folder} is there and is no export of intraskill; choose another --out or --name")
    make_directory(folder.parent)
    return folder


def _metadata(pair: BoundPair, root: Path) -> dict[str, str]:
    start = PLAN.read(root)
    plan, commit = start["plan"], start["about"].get("git", {}).get("commit")
    model = "none (planted world)" if plan["env.name"] == "planted" else Path(plan["policy.path"]).name
    return {
        "intraskill-version": pair.code,
        **({"code-commit": commit} if commit else {}),
        "skill": pair.skill.hash,
        "skill-sha256": pair.skill.sha256,
        "checkpoint": pair.checkpoint.hash,
        "checkpoint-sha256": pair.checkpoint.sha256,
        "base-model": model,
        "environment": pair.environment.name,
        "environment-family": pair.environment.family,
        "environment-version": pair.environment.version,
        "round": str(pair.gate.round),
        "gate-pairs": str(pair.gate.pairs),
        "exported-at": _exported_at(),
    }


def _exported_at() -> str:
    """Return the time in UTC, or the one that ``SOURCE_DATE_EPOCH`` fixes.

    Raises:
        ConfigError: when that variable is no number of seconds.
    """
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        when = datetime.now(UTC) if fixed is None else datetime.fromtimestamp(int(fixed), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(f"SOURCE_DATE_EPOCH={fixed!r} is no number of seconds since 1970; unset it") from error
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _chunks_json(directory: Path, skill: Skill, moved: Iterable[str]) -> dict[str, Any]:
    """Return ``chunks.json``: per chunk, where it stands and what the round's gate said of it.

    Args:
        directory: of the round.
        skill: that it committed.
        moved: paths of the chunks that moved.
    """
    measured = {row["id"]: row for row in ROUND.read(directory)["chunks"]}
    paths = set(moved)
    admitted, support = _admissions(directory)
    rows = []
    for chunk in skill.chunks:
        row: Row = measured.get(chunk.id, {})
        path = reference(chunk.id)
        rows.append(
            {
                "id": chunk.id,
                "title": chunk.title,
                "file": path if path in paths else SKILL_FILE,
                "beta": row.get("beta"),
                "se": row.get("se"),
                "exposure": row.get("exposure"),
                "round_admitted": admitted.get(chunk.id),
                "support": sorted(support.get(chunk.id, ())),
            }
        )
    return {"format": CHUNKS_FORMAT, "skill": skill.hash, "round": round_number(directory), "chunks": rows}


def _admissions(directory: Path) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return the round since which each chunk of the skill has stood in it, and the rollouts that spoke for it."""
    admitted: dict[str, int] = {}
    support: dict[str, set[str]] = {}
    for path in finished_rounds(directory.parent):
        number = round_number(path)
        kept = [chunk.id for chunk in SKILL.read(path).chunks]
        admitted = {chunk_id: admitted.get(chunk_id, number) for chunk_id in kept}
        for proposal in EDITS.read(path).proposals:
            for chunk in proposal.chunks:
                support.setdefault(chunk.id, set()).update(proposal.support)
        if path == directory:
            break
    return admitted, support
