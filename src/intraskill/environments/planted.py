"""A world with known true contributions: no model, milliseconds; the wind tunnel of the statistics.

The success probability of an episode on task i with visible set v, at absorbed shares a, is

    p = base_i + drift · steps + Σ_j e_ij · (a_j + (1 − a_j) · 1[j ∈ v]) + Σ_{(j,k) ⊆ v} w_jk        clipped to [0, 1]

Training moves a_j from 0 to 1, so that a chunk's true contribution ``e_j · (1 − a_j)`` fades while the bare reward
gains what it lost: internalisation (method §8.3) with every quantity known. The a_j are the weights of its learner.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from intraskill.config.config import Config
from intraskill.environments.protocol import Opening, Outcome, ToolSpec
from intraskill.method.errors import CheckpointError, ConfigError, SplitError, offenders
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.rollouts import Episode, GroupResult, Rollout, Turn
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, ChunkId, Skill, Visible
from intraskill.method.tasks import SPLITS, Split, Task


@dataclass(frozen=True, slots=True)
class PlantedChunk:
    """A chunk whose true effect is known.

    Attributes:
        title: its title; the body follows from it.
        effect: change of the success probability on the tasks where it acts.
        reach: share of tasks where it acts, in (0, 1].
        missing: absent from the draft skill; a proposer may find it.
        replaces: title of the draft chunk that it would rewrite; only for a missing one.
    """

    title: str
    effect: float
    reach: float = 1.0
    missing: bool = False
    replaces: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.reach <= 1.0 or (self.replaces is not None and not self.missing):
            raise ConfigError(f"planted chunk {self.title!r}: reach lies in (0, 1], and only a missing one replaces")

    @property
    def chunk(self) -> Chunk:
        """Its text."""
        return Chunk(self.title, f"Applies when: the planted task asks for it.\nProcedure: {self.title.lower()}.")


@dataclass(frozen=True, slots=True)
class PlantedEdit:
    """An edit that a proposer may find while the skill holds what it removes and lacks what it adds.

    Attributes:
        removes: titles of chunks that it takes out.
        adds: titles of missing chunks that it puts in; they come by this edit only, never as an ADD of their own.
    """

    removes: tuple[str, ...]
    adds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "removes", tuple(self.removes))
        object.__setattr__(self, "adds", tuple(self.adds))
        if not self.removes:
            raise ConfigError(f"a planted edit removes something; a missing chunk alone is an ADD, got {self.adds}")


_DEFAULT_CHUNKS = (
    PlantedChunk("Read the whole request", 0.20),
    PlantedChunk("Compare before choosing", 0.15),
    PlantedChunk("Greet the catalogue", 0.0),
    PlantedChunk("Prefer round prices", 0.0),
    PlantedChunk("Take the first result", -0.15),
    PlantedChunk("Check every option", 0.20, missing=True),
    PlantedChunk("Convert prices first", 0.10, missing=True, replaces="Prefer round prices"),
)
_DEFAULT_TASKS: Mapping[str, int] = {"train": 200, "skill_validation": 400, "model_dev": 100, "audit": 100, "test": 200}


@dataclass(frozen=True, slots=True)
class PlantedWorld:
    """A task family with planted effects; an `intraskill.environments.protocol.Environment`.

    Attributes:
        seed: seed of the world.
        tasks_per_split: number of tasks per data role.
        baseline: mean bare success probability.
        spread: half-width of the difficulties around it.
        grades: Bernoulli draws averaged into one reward; 1 is pass or fail.
        chunks: the planted chunks; mappings with the same keys do too.
        interactions: ``(title, title, w)``: w is added when both are visible.
        broken: share of tasks that always pay 0.
        learning_rate: share of what is left that one step absorbs of a chunk whose every sibling succeeds.
        drift: change of every success probability per training step.
        fault_rate: share of episodes that break technically.
        edits: MERGE, SPLIT, DELETE and further REWRITE that a proposer may find; mappings do too.
    """

    seed: int = 0
    tasks_per_split: Mapping[str, int] = field(default_factory=lambda: dict(_DEFAULT_TASKS))
    baseline: float = 0.25
    spread: float = 0.10
    grades: int = 1
    chunks: tuple[PlantedChunk, ...] = _DEFAULT_CHUNKS
    interactions: tuple[tuple[str, str, float], ...] = ()
    broken: float = 0.0
    learning_rate: float = 0.05
    drift: float = 0.0
    fault_rate: float = 0.0
    edits: tuple[PlantedEdit, ...] = field(default=(), repr=False)
    family: str = field(default="planted", init=False)
    reward_parts: tuple[str, ...] = field(default=("r_strict", "r_half"), init=False)
    by_id: Mapping[ChunkId, PlantedChunk] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        chunks = tuple(c if isinstance(c, PlantedChunk) else PlantedChunk(**c) for c in self.chunks)
        object.__setattr__(self, "chunks", chunks)
        edits = tuple(e if isinstance(e, PlantedEdit) else PlantedEdit(**e) for e in self.edits)
        object.__setattr__(self, "edits", edits)
        object.__setattr__(self, "interactions", tuple((a, b, float(w)) for a, b, w in self.interactions))
        object.__setattr__(self, "by_id", {planted.chunk.id: planted for planted in chunks})
        if unknown := sorted(set(self.tasks_per_split) - set(SPLITS)):
            raise ConfigError(f"tasks_per_split names unknown splits, {offenders(unknown)}; choose of {SPLITS}")
        if self.grades < 1:
            raise ConfigError(f"grades must be 1 or more, got {self.grades}")
        titles = {planted.title for planted in chunks}
        named = {t for a, b, _ in self.interactions for t in (a, b)} | {c.replaces for c in chunks if c.replaces}
        named |= {title for edit in edits for title in (*edit.removes, *edit.adds)}
        if len(self.by_id) < len(chunks) or named - titles:
            raise ConfigError(
                f"planted titles must be unique, and these must exist, {offenders(sorted(named - titles))}"
            )

    @property
    def version(self) -> str:
        """Hash of everything that could change a reward or a proposal."""
        return content_hash("planted-1", repr(self), *([repr(self.edits)] if self.edits else []))

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """No tools: nothing here is called by a model."""
        return ()

    @property
    def draft(self) -> Skill:
        """The cold-start draft: every chunk that is not missing."""
        return Skill("Planted world.", tuple(planted.chunk for planted in self.chunks if not planted.missing))

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Tasks of one split, by number."""
        if split not in SPLITS:
            raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        ids = (f"planted-{split}-{number:04d}" for number in range(self.tasks_per_split.get(split, 0)))
        return tuple(Task(task_id, self.family, split) for task_id in ids)

    def open(self) -> "PlantedSession":
        """Return a new single-use session."""
        return PlantedSession(self)

    def learner(self, config: Config) -> "PlantedLearner":
        """Return who acts and learns here; no policy of the config has a part in it."""
        del config
        return PlantedLearner(self)

    def solvable(self, task_id: str) -> bool:
        """Whether the task can pay at all."""
        return self.broken == 0.0 or uniform(self.seed, "broken", task_id) >= self.broken

    def effect(self, chunk_id: ChunkId, task_id: str) -> float:
        """e_ij: effect of a chunk on a task; 0 for a chunk that was never planted."""
        planted = self.by_id.get(chunk_id)
        if planted is None:
            return 0.0
        acts = planted.reach == 1.0 or uniform(self.seed, "reach", chunk_id, task_id) < planted.reach
        return planted.effect if acts else 0.0

    def success_probability(
        self, task_id: str, visible: Visible, absorbed: Mapping[ChunkId, float], steps: int = 0
    ) -> float:
        """Return p of the module's formula."""
        if not self.solvable(task_id):
            return 0.0
        p = self.baseline + self.spread * (2.0 * uniform(self.seed, "difficulty", task_id) - 1.0) + self.drift * steps
        for chunk_id in self.by_id:
            share = 1.0 if chunk_id in visible else absorbed.get(chunk_id, 0.0)
            if share:
                p += share * self.effect(chunk_id, task_id)
        seen = {self.by_id[chunk_id].title for chunk_id in visible if chunk_id in self.by_id}
        p += sum(weight for one, other, weight in self.interactions if {one, other} <= seen)
        return min(max(p, 0.0), 1.0)

    def true_contributions(
        self, chunk_ids: Sequence[ChunkId], tasks: Sequence[Task], absorbed: Mapping[ChunkId, float]
    ) -> tuple[float, ...]:
        """The β that an unbiased gate should find, (J,): mean over tasks of e_ij (1 − a_j); exact while additive."""
        return tuple(
            (1.0 - absorbed.get(chunk_id, 0.0)) * fmean(self.effect(chunk_id, task.id) for task in tasks)
            for chunk_id in chunk_ids
        )

    def is_additive(self) -> bool:
        """Whether p is linear: no interactions, no broken task, and no visible set ever clips it (drift aside)."""
        low = self.baseline - abs(self.spread) + sum(min(planted.effect, 0.0) for planted in self.chunks)
        high = self.baseline + abs(self.spread) + sum(max(planted.effect, 0.0) for planted in self.chunks)
        return not self.interactions and not self.broken and low >= -1e-12 and high <= 1.0 + 1e-12

    def propose(self, rollouts: Sequence[Rollout], skill: Skill) -> tuple[Proposal, ...]:
        """Propose: the draft for an empty skill; after a failure every missing chunk and edit that would fit.

        A missing chunk with ``replaces`` comes as a REWRITE while its target is in the skill, the others as ADD.
        """
        failed = sorted(f"{r.task_id}#{r.sample}" for r in rollouts if r.reward is not None and r.reward < 1.0)
        if not failed:
            return ()
        present = {self.by_id[chunk_id].title: chunk_id for chunk_id in skill.ids if chunk_id in self.by_id}
        by_edit = {title for edit in self.edits for title in edit.adds}
        found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        for planted in self.chunks:
            wanted = planted.missing if skill.chunks else not planted.missing
            if wanted and planted.title not in {*present, *by_edit}:
                found.append(((planted.replaces,) if planted.replaces in present else (), (planted.title,)))
        for edit in self.edits if skill.chunks else ():
            if set(edit.removes) <= set(present) and present.keys().isdisjoint(edit.adds):
                found.append((edit.removes, edit.adds))
        by_title = {planted.title: planted.chunk for planted in self.chunks}
        return tuple(
            _proposal(
                tuple(present[title] for title in removes if title),
                tuple(by_title[title] for title in adds),
                tuple(failed),
            )
            for removes, adds in found
        )


def _proposal(targets: tuple[ChunkId, ...], chunks: tuple[Chunk, ...], support: tuple[str, ...]) -> Proposal:
    missing = " and ".join(chunk.title for chunk in chunks)
    cause = f"planted: {missing} is missing" if chunks else "planted: it only harms"
    return Proposal(Edit(targets, chunks).op, targets, chunks, cause, support)


class PlantedSession:
    """An episode without a model: the action is the reward that it earns, a number from 0 to 1."""

    def __init__(self, world: PlantedWorld) -> None:
        self._world, self._state = world, "new"

    def reset(self, task_id: str) -> Opening:
        """Start the episode of one task.

        Raises:
            RuntimeError: when the session was used before.
            SplitError: for an id that this world does not hold.
        """
        if self._state != "new":
            raise RuntimeError("a session serves one episode; open another")
        if not any(task_id == task.id for split in SPLITS for task in self._world.tasks(split)):
            raise SplitError(f"this planted world has no task {task_id!r}; read the ids from tasks(split)")
        self._state = "running"
        return Opening(f"Play {task_id}.", None, "Say the reward that you earn.", {})

    def step(self, action: str) -> Outcome:
        """End the episode with the reward that ``action`` names, or answer ``unavailable_action``."""
        if self._state != "running":
            raise RuntimeError("the episode is not running; open another session")
        try:
            reward = float(action)
        except ValueError:
            reward = -1.0
        if not 0.0 <= reward <= 1.0:
            return Outcome("Say a number from 0 to 1.", {}, "unavailable_action", "", "", done=False)
        self._state = "over"
        return Outcome("Over.", {}, "executed", "earn", action, True, reward, _parts_of(reward), "purchase")

    def terminate(self, reason: str) -> Outcome:
        """End the episode without a reward."""
        self._state = "over"
        return Outcome("Over.", {}, "executed", "", "", True, 0.0, _parts_of(0.0), reason)


def _parts_of(reward: float) -> dict[str, float]:
    """Return the reward components of a finished episode."""
    return {"r_strict": reward, "r_half": reward / 2.0}


_STATE_FILE = "planted_state.json"


class PlantedLearner:
    """Acts and learns in a planted world; an `intraskill.rl.learner.Learner`. Its weights are the a_j."""

    def __init__(self, world: PlantedWorld) -> None:
        self.world = world
        self.absorbed: dict[ChunkId, float] = dict.fromkeys(world.by_id, 0.0)
        self.steps = 0

    @property
    def checkpoint(self) -> str:
        """Hash of the state."""
        return content_hash("planted", self.world.version, self.absorbed, self.steps)

    @property
    def conditions(self) -> dict[str, str]:
        """What a fair comparison holds fixed."""
        return {"sampling": "planted", "prompt": "planted", "environment": self.world.version}

    def run(self, episodes: Sequence[Episode]) -> tuple[Rollout, ...]:
        """Draw the reward of every episode from its own seed."""
        checkpoint = self.checkpoint
        return tuple(self._play(episode, checkpoint) for episode in episodes)

    def _play(self, episode: Episode, checkpoint: str) -> Rollout:
        p = self.world.success_probability(episode.task.id, episode.visible, self.absorbed, self.steps)
        broke = uniform(episode.seed, "fault") < self.world.fault_rate
        grades = self.world.grades
        reward = fmean(float(uniform(episode.seed, "outcome", grade) < p) for grade in range(grades))
        context = int(content_hash(episode.task.id, sorted(episode.visible)), 16) % 2**31
        return Rollout(
            task_id=episode.task.id,
            visible=episode.visible,
            checkpoint=checkpoint,
            sample=episode.sample,
            prompt_ids=(context,),
            token_ids=(round(reward * grades),),
            loss_mask=(1,),
            logprobs=(0.0,),
            reward=None if broke else reward,
            parts={} if broke else _parts_of(reward),
            fault="planted fault" if broke else None,
            request=f"Play {episode.task.id}.",
            turns=(Turn("planted", f"{reward}", "earn", f"{reward}", "executed"),),
        )

    def update(self, groups: Sequence[GroupResult]) -> dict[str, float]:
        """Absorb chunks that were visible in groups with signal, by the share of their successes.

        A skill-free group practises what has begun: it absorbs in proportion to what is already absorbed. A chunk that
        does no good is never absorbed.
        """
        for group in groups:
            rewards = group.rewards
            if not rewards or min(rewards) == max(rewards):
                continue
            for chunk_id, planted in self.world.by_id.items():
                done = self.absorbed[chunk_id]
                practice = 1.0 if chunk_id in group.group.visible else done if not group.group.visible else 0.0
                if planted.effect > 0.0 and practice:
                    self.absorbed[chunk_id] = done + self.world.learning_rate * practice * fmean(rewards) * (1.0 - done)
        self.steps += 1
        return {"planted/absorbed_share": fmean(self.absorbed.values()) if self.absorbed else 0.0}

    def save(self, directory: Path) -> None:
        """Write the state as JSON."""
        state = {"world": self.world.version, "absorbed": self.absorbed, "steps": self.steps}
        (directory / _STATE_FILE).write_text(json.dumps(state, sort_keys=True, indent=1) + "\n", encoding="utf-8")

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote.

        Raises:
            CheckpointError: if it is missing, corrupt, or of another world.
        """
        path = directory / _STATE_FILE
        try:
            state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            world, absorbed, steps = state["world"], state["absorbed"], int(state["steps"])
            restored = {chunk_id: float(absorbed[chunk_id]) for chunk_id in self.world.by_id}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path} does not hold a planted state ({error}); restore it or start anew"
            ) from error
        if world != self.world.version:
            raise CheckpointError(
                f"{path} is of planted world {world}, this is {self.world.version}; use its own world"
            )
        self.absorbed, self.steps = restored, steps
