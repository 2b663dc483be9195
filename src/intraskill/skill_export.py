"""Export a run's pair as an Agent Skills folder: the skill, what each chunk contributed, the pair and its benchmark."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from intraskill.benchmark import BENCHMARK_FILE, find_benchmark
from intraskill.bound_pair import PAIR_FILE, BoundPair, family_beside, pair_of, write_pair
from intraskill.earlier_rounds import round_number, skill_at
from intraskill.method.agent_skill import (
    SKILL_FILE,
    describe,
    front_matter_problems,
    reference,
    render_body,
    render_front_matter,
    skill_name,
)
from intraskill.method.errors import ArtifactError, ConfigError, counted, offenders
from intraskill.method.skill import Chunk, Skill
from intraskill.runtime.agent_skill import CHUNKS_FILE, CHUNKS_FORMAT, is_export
from intraskill.runtime.run_directory import (
    directory_written_whole,
    finished_rounds,
    is_sealed,
    make_directory,
    read_json,
    write_json,
    write_text,
)


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
    root, skill = directory.parent, skill_at(directory)
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
    measured = find_benchmark(root, pair.gate.round, last=last, pair=(pair.checkpoint.hash, pair.skill.hash))
    with directory_written_whole(folder) as aside:
        write_text(aside / SKILL_FILE, f"{render_front_matter(fields, metadata)}\n{body}")
        if moved:
            (aside / "references").mkdir()
        for path, text in moved.items():
            write_text(aside / path, text)
        write_json(aside / CHUNKS_FILE, chunks_json(directory, skill, moved))
        write_pair(aside / PAIR_FILE, pair)
        if measured is not None:
            write_json(aside / BENCHMARK_FILE, measured)
    return Exported(folder, skill, len(moved), measured is not None)


def _round_of(source: Path) -> Path:
    rounds = finished_rounds(source)
    directory = rounds[-1] if rounds else source
    if not (is_sealed(directory) and (directory / "skill.md").exists()):
        raise ArtifactError(f"{source} is neither a run with a finished round nor such a round")
    return directory


def _free(folder: Path) -> Path:
    """Return ``folder`` when nothing of value stands there: it is absent, empty, or an earlier export."""
    if folder.exists() and not (folder.is_dir() and (is_export(folder) or not any(folder.iterdir()))):
        raise ArtifactError(f"{folder} is there and is no export of intraskill; choose another --out or --name")
    make_directory(folder.parent)
    return folder


def _metadata(pair: BoundPair, root: Path) -> dict[str, str]:
    start = read_json(root / "plan.json")
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
        "exported-at": exported_at(),
    }


def exported_at() -> str:
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


def chunks_json(directory: Path, skill: Skill, moved: Iterable[str]) -> dict[str, Any]:
    """Return ``chunks.json``: per chunk, where it stands and what the round's gate said of it.

    Args:
        directory: of the round.
        skill: that it committed.
        moved: paths of the chunks that moved.
    """
    measured = {row["id"]: row for row in read_json(directory / "round.json")["chunks"]}
    paths = set(moved)
    admitted, support = _admissions(directory)
    rows = []
    for chunk in skill.chunks:
        row = measured.get(chunk.id, {})
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
        kept = [chunk.id for chunk in skill_at(path).chunks]
        admitted = {chunk_id: admitted.get(chunk_id, number) for chunk_id in kept}
        for proposal in read_json(path / "edits.json")["proposals"]:
            for chunk in proposal["chunks"]:
                added = Chunk(chunk["title"], chunk["body"]).id
                support.setdefault(added, set()).update(proposal["support"])
        if path == directory:
            break
    return admitted, support
