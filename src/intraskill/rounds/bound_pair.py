"""The bound pair: which checkpoint, which skill and which world a gate measured together (``pair.json``).

A skill's contributions hold for one exact checkpoint, so an evaluation that claims the pair has to show it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.config.config import unflatten
from intraskill.method.errors import ArtifactError, ConfigError, UnboundPairError
from intraskill.method.randomness import content_hash
from intraskill.method.skill.agent_skill import SKILL_FILE
from intraskill.method.skill.skill import Skill
from intraskill.rounds.evaluate import MODES, Source, skill_of
from intraskill.rounds.run import Run
from intraskill.rounds.setup import environment_of
from intraskill.store.agent_skill import read_export
from intraskill.store.artifacts import CONTRIBUTIONS, EVALUATION, PAIR, PLAN, ROUND, SKILL
from intraskill.store.contents import PAIR_FORMAT, BoundPair, Identity, MeasuredBy, World
from intraskill.store.provenance import version_of
from intraskill.store.records import from_json
from intraskill.store.run_directory import is_sealed, sealed_hashes, verify
from intraskill.store.user_files import read_user_json

_SIDES = frozenset({"checkpoint", "skill", "environment"})


def pair_of(directory: Path, family: str = "") -> BoundPair:
    """Return the pair of a finished round, from its own sealed artifacts.

    Args:
        directory: of the round.
        family: task family; asked of the environment when it is not given.

    Raises:
        ArtifactError: when the round is not sealed, or a file changed since.
    """
    if not is_sealed(directory):
        raise ArtifactError(f"{directory} is no finished round; give a run with one")
    verify(directory)
    sealed, row = sealed_hashes(directory), ROUND.read(directory)
    start, gate = PLAN.read(directory.parent), CONTRIBUTIONS.read(directory)
    weights = sorted((name, digest) for name, digest in sealed.items() if name.startswith("checkpoint/"))
    plan, facts = start["plan"], start["about"]
    return BoundPair(
        Identity(row["checkpoint"], _sha256(weights)),
        Identity(row["skill"], sealed[SKILL.name]),
        World(plan["env.name"], family or environment_of(unflatten(plan)).family, facts["environment"]),
        MeasuredBy(
            row["round"],
            gate.num_pairs,
            gate.num_tasks or gate.num_pairs,
            gate.estimator,
            sealed[CONTRIBUTIONS.name],
        ),
        content_hash(sorted(plan.items())),
        facts["packages"].get("intraskill") or version_of("intraskill") or "unknown",
    )


def _sha256(files: list[tuple[str, str]]) -> str:
    import hashlib

    return hashlib.sha256("".join(f"{digest}  {name}\n" for name, digest in files).encode()).hexdigest()


def read_pair(path: Path) -> BoundPair:
    """Read ``pair.json``, or the one in a directory.

    Raises:
        ArtifactError: when it is missing or not a pair.
    """
    file = PAIR.path(path) if path.is_dir() else path
    content = read_user_json(file, wanted="give a run, an export or the pair.json of one")
    if not isinstance(content, dict) or content.get("format") != PAIR_FORMAT:
        raise ArtifactError(
            f"{file} is no bound pair of format {PAIR_FORMAT}; a run writes one at its end, an export too"
        )
    return from_json(BoundPair, content, file)


def family_beside(root: Path) -> str:
    """Return the task family that a run's ``pair.json`` names, or ``""``."""
    return read_pair(root).environment.family if PAIR.exists(root) else ""


@dataclass(frozen=True)
class Claim:
    """An evaluation's claim to evaluate a bound pair.

    Attributes:
        pair: what it should be; ``None`` when nothing says so.
        where: where that is written, for messages.
        binding: sides on which a difference is an error; on others it is only said.
    """

    pair: BoundPair | None
    where: str
    binding: frozenset[str] = _SIDES

    def judge(self, present: Mapping[str, str]) -> dict[str, Any] | None:
        """Say whether what is here is the pair.

        Returns:
            ``{"bound", "of", "differs"}``, or ``None`` when nothing says what the pair would be.

        Raises:
            UnboundPairError: naming the sides that differ, when the claim is binding.
        """
        if self.pair is None:
            return None
        differs = self.pair.differences(present)
        if not self.binding.isdisjoint(differs):
            raise UnboundPairError(
                f"{self.where} binds another pair: {'; '.join(differs.values())}. Give what it names; to evaluate "
                "another skill, pass --skill FILE without --pair, and the result says that it is not the bound pair"
            )
        return {"bound": not differs, "of": self.where, "differs": list(differs.values())}


def words(verdict: Mapping[str, Any] | None) -> str:
    """Return one sentence on a verdict."""
    if verdict is None:
        return "No pair.json says which skill belongs to this checkpoint."
    if verdict["bound"]:
        return f"This is the bound pair of {verdict['of']}."
    return f"This is not the bound pair of {verdict['of']}: {'; '.join(verdict['differs'])}."


def claim_of(pair: str | None, checkpoint: Path, *, other_skill: bool) -> Claim:
    """Return the claim of an evaluation.

    Args:
        pair: ``--pair``, a directory or file; it binds every side.
        checkpoint: directory of the weights; a ``pair.json`` beside them, or in their run for their round, binds
            weights and skill. Another world is only said: overrides may ask for one.
        other_skill: whether ``--skill`` was given; then another skill is only said too.
    """
    if pair is not None:
        return Claim(read_pair(Path(pair)), pair)
    binding = frozenset({"checkpoint"} if other_skill else {"checkpoint", "skill"})
    directory, root = checkpoint.parent, checkpoint.parent.parent
    if PAIR.exists(directory):
        return Claim(read_pair(directory), str(PAIR.path(directory)), binding)
    if PAIR.exists(root) and (found := read_pair(root)) and directory.name == _round(found):
        return Claim(found, str(PAIR.path(root)), binding)
    if is_sealed(directory) and CONTRIBUTIONS.exists(directory):
        return Claim(pair_of(directory, "not asked"), str(directory), binding)
    return Claim(None, "")


def checkpoint_of(pair: str) -> Path:
    """Return the round or directory whose weights ``--pair`` names, when it stands in a run or beside weights.

    Raises:
        ConfigError: when the weights are not there, as in an export.
    """
    path = Path(pair)
    directory = path if path.is_dir() else path.parent
    for candidate in (directory / _round(read_pair(path)), directory / "checkpoint"):
        if candidate.is_dir():
            return candidate
    raise ConfigError(f"no weights stand beside {pair}, as in every export; add --ckpt, the run that it came from")


def skill_for(source: Source, path: str | None, pair: str | None, *, mode: str, claim: Claim) -> Skill | None:
    """Return the skill that an evaluation is about; ``None`` when it shows none and claims no pair.

    Args:
        source: the checkpoint and what stands beside it.
        path: ``--skill``.
        pair: ``--pair``; the skill of an export is read from it.
        mode: of the evaluation.
        claim: its claim.

    Raises:
        ConfigError: when a skill is needed and there is none.
    """
    directory = None if pair is None else Path(pair) if Path(pair).is_dir() else Path(pair).parent
    if path is None and directory is not None and (directory / SKILL_FILE).is_file():
        return read_export(directory)[0]
    claimed = claim.pair is not None and (path is not None or source.skill_path is not None)
    return skill_of(source, path) if claimed or mode == MODES[1] else None


def judge(claim: Claim, run: Run, checkpoint: Path, skill: Skill | None) -> dict[str, Any] | None:
    """Load the checkpoint and say whether it, the skill and the world are the pair; see `Claim.judge`."""
    if claim.pair is None:
        return None
    here = {"environment": run.environment.version}
    claim.judge(here)  # before the weights, which may not load in another world
    run.learner.load(checkpoint)
    here["checkpoint"] = run.learner.checkpoint
    return claim.judge(here if skill is None else here | {"skill": skill.hash})


def record(directory: Path, verdict: Mapping[str, Any] | None) -> None:
    """Add the verdict to ``eval.json``."""
    EVALUATION.write(directory, EVALUATION.read(directory), {"pair": verdict})


def _round(pair: BoundPair) -> str:
    return f"round_{pair.gate.round:03d}"
