"""The shop: a frozen small policy shops with a skill of lessons, and an editor reads what it went through.

A stream has a first skill with one to three useful lessons missing and perhaps a harmful one among them. Its evidence
is what the worker did with that skill on train tasks; each failure comes with the rules proposer's lesson as a draft,
often a decoy beside it. A failure names anchors among the tasks of skill validation that are like its own, and skills
are compared on test tasks: no edit is ever tried on what its evidence shows. Streams for evaluation come from another
world, in phrasings that no stream to learn from shows.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from intraskill.config.config import Config
from intraskill.editor.domain import Job, Part, Query, Stream, Workbench
from intraskill.editor.domains.shop_rules import drafts, first_skill, rules_of, shopper_reward
from intraskill.editor.domains.shop_worker import (
    ANCHORS,
    EVIDENCE,
    PROBES,
    Episodes,
    ShopVerifier,
    ShopWorker,
    anchors_like,
    plain_shop,
    query_of,
    tasks_of,
)
from intraskill.editor.evidence import EvidenceLimits, Unit, experience_unit, spelt
from intraskill.editor.setup import evidence_limits
from intraskill.editor.workers_options import read_options
from intraskill.environments.shop_evidence.diagnosis import findings_of
from intraskill.environments.shop_evidence.purchases import Vocabulary, read_vocabulary
from intraskill.environments.shopworld.plain.generate import PRESETS
from intraskill.environments.shopworld.reward import REWARD_PARTS
from intraskill.method.errors import ConfigError, SplitError, offenders
from intraskill.method.leakage.filter import Secrets
from intraskill.method.randomness import child_seed, content_hash, shuffled
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import Skill
from intraskill.rl.start import policy_directory
from intraskill.store.artifacts import EPISODES

WHERE = "editor.options"
_WORKER = "tiny"
WORLDS = 50
"""Worlds 0 to 49 are for learning, 50 to 99 for evaluation; the tiny policy's own training used 101 to 106."""
_VALUED = 96
"""Tasks on which the scripted shopper is asked what a skill is worth."""


@dataclass(frozen=True, slots=True)
class ShopOptions:
    """How streams are made; see docs/skill_alpha.md.

    Attributes:
        seed: world to learn from; the world of evaluation is 50 further on.
        preset: size of both worlds.
        streams: streams to learn from.
        held_out: streams for evaluation.
        units: pieces of evidence per stream.
        probes: most queries on which a stream's skills are compared.
        anchors: most queries that a failure names.
        part: reward component that counts.
        temperature: of the worker.

    Raises:
        ConfigError: for a value out of range.
    """

    seed: int = 0
    preset: str = "small"
    streams: int = 72
    held_out: int = 24
    units: int = 8
    probes: int = 16
    anchors: int = 8
    part: str = "r_strict"
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < WORLDS:
            raise ConfigError(f"{WHERE}.seed={self.seed} is no world to learn from; give one from 0 to {WORLDS - 1}")
        if self.preset not in PRESETS:
            raise ConfigError(f"{WHERE}.preset={self.preset!r} is unknown; choose {' or '.join(PRESETS)}")
        if self.part not in REWARD_PARTS:
            raise ConfigError(f"{WHERE}.part={self.part!r} is unknown; choose {', '.join(REWARD_PARTS)}")
        least = {"streams": 1, "held_out": 1, "units": 1, "probes": 0, "anchors": 1, "temperature": 0}
        if low := [name for name, most in least.items() if getattr(self, name) < most]:
            raise ConfigError(f"{WHERE}.{low[0]}={getattr(self, low[0])} is too low; the least is {least[low[0]]}")


@dataclass(frozen=True, slots=True)
class ShopPlan:
    """One stream before anything is played.

    Attributes:
        id: unique in the domain.
        world: seed of its world.
        held_out: it is for evaluation.
        skill: z_0.
        evidence: ids of the queries whose episodes are its evidence, in order.
        probes: ids of the queries that compare skills.
    """

    id: str
    world: int
    held_out: bool
    skill: Skill
    evidence: tuple[str, ...]
    probes: tuple[str, ...]


@dataclass(frozen=True)
class ShopDomain:
    """Streams of shopping; an `intraskill.editor.domain.Domain` that `KnowsWorth`.

    Attributes:
        options: how streams are made.
        limits: sizes of the evidence.
        episodes: plays and keeps what is evidence.
        family: name of the task family.
    """

    options: ShopOptions
    limits: EvidenceLimits
    episodes: Episodes
    family: str = dataclasses.field(default="shop_editing", init=False)

    @property
    def version(self) -> str:
        """Hash of worlds, options, limits and worker."""
        worlds = [plain_shop(self.options.preset, seed).version for seed in self._worlds]
        made = (repr(self.options), repr(self.limits), self.episodes.worker.version)
        return content_hash("shop-editing-1", worlds, *made)

    @cached_property
    def secrets(self) -> Secrets:
        """What no chunk may hold of either world."""
        both = [plain_shop(self.options.preset, seed).secrets() for seed in self._worlds]
        names = [item.name for item in dataclasses.fields(Secrets)]
        return Secrets(**{name: tuple(one for held in both for one in getattr(held, name)) for name in names})

    def streams(self, part: Part) -> tuple[Stream, ...]:
        """Return the streams of a part; what their episodes need is played at the first call.

        Raises:
            NothingToLearnError: when no episode has a reward.
        """
        return self._train if part == "train" else self._held_out

    def value(self, stream_id: str) -> Callable[[Skill], float]:
        """Return the scripted shopper's mean reward over tasks that anchors come from; see `KnowsWorth`.

        Raises:
            SplitError: for a stream that the domain does not hold.
        """
        if stream_id not in self._plans:
            raise SplitError(f"{stream_id!r} is no stream of this shop; its streams are {offenders(list(self._plans))}")
        preset, world = self.options.preset, self._plans[stream_id].world
        known = tasks_of(preset, world, ANCHORS)
        tasks = tuple(known[name].id for name in shuffled(known, world, "valued")[:_VALUED])
        return lambda skill: shopper_reward(preset, world, tasks, self.options.part, rules_of(skill))

    def query(self, query_id: str) -> Query:
        """Return a query of either world.

        Raises:
            SplitError: for an id that is not there.
        """
        for world in self._worlds:
            if (found := query_of(self.options.preset, world, query_id)) is not None:
                return found
        raise SplitError(f"{query_id!r} is no task of the worlds {self._worlds[0]} and {self._worlds[1]} of this shop")

    @property
    def _worlds(self) -> tuple[int, int]:
        return self.options.seed, self.options.seed + WORLDS

    @cached_property
    def _train(self) -> tuple[Stream, ...]:
        return self._played([plan for plan in self._plans.values() if not plan.held_out])

    @cached_property
    def _held_out(self) -> tuple[Stream, ...]:
        return self._played([plan for plan in self._plans.values() if plan.held_out])

    @cached_property
    def _plans(self) -> dict[str, ShopPlan]:
        counts = (self.options.streams, self.options.held_out)
        made = [self._plan(world, n) for world, count in zip(self._worlds, counts, strict=True) for n in range(count)]
        return {plan.id: plan for plan in made}

    def _plan(self, world: int, number: int) -> ShopPlan:
        """Tasks are dealt out in turn, so streams share evidence tasks only where they need more than there are."""
        preset, units, held_out = self.options.preset, self.options.units, world >= WORLDS
        dealt = shuffled(tasks_of(preset, world, EVIDENCE), world, "evidence")
        evidence = tuple(dealt[(number * units + k) % len(dealt)] for k in range(min(units, len(dealt))))
        probes = tuple(shuffled(tasks_of(preset, world, PROBES), world, "probes", number)[: self.options.probes])
        skill = first_skill(child_seed(world, "first skill", number), held_out)
        return ShopPlan(f"world-{world}/stream-{number}", world, held_out, skill, evidence, probes)

    def _played(self, plans: Sequence[ShopPlan]) -> tuple[Stream, ...]:
        jobs = [
            Job(self.query(name), plan.skill, child_seed(plan.world, "evidence", plan.id, name))
            for plan in plans
            for name in plan.evidence
        ]
        rollouts = iter(self.episodes.of(jobs))
        return tuple(self._stream(plan, [next(rollouts) for _ in plan.evidence]) for plan in plans)

    def _stream(self, plan: ShopPlan, rollouts: Sequence[Rollout | None]) -> Stream:
        sound = {name: one for name, one in zip(plan.evidence, rollouts, strict=True) if one is not None}
        vocabulary = read_vocabulary(sound.values())
        units = tuple(self._unit(plan, name, one, vocabulary) for name, one in sound.items())
        return Stream(plan.id, units, plan.skill, plan.probes)

    def _unit(self, plan: ShopPlan, name: str, rollout: Rollout, vocabulary: Vocabulary) -> Unit:
        """Return an episode's view; a failure names anchors that are like it, and brings drafts where it is explained.

        What the rules proposer learns from a success is left out: a success is nothing to mend.
        """
        viewed = dataclasses.replace(rollout, task_id=name, turns=tuple(map(spelt, rollout.turns)))
        unit = experience_unit(viewed, self.limits)
        assert unit is not None  # every kept episode has a reward
        if not unit.anchors:
            return unit
        anchors = anchors_like(self.options.preset, plan.world, name, self.options.anchors, plan.id)
        written = [
            chunk
            for finding in findings_of(rollout, vocabulary)
            for chunk in drafts(finding.mechanism, child_seed(plan.world, "drafts", plan.id, name), plan.held_out)
        ]
        return dataclasses.replace(unit, anchors=anchors, drafts=tuple(written))


def shop(config: Config, root: Path) -> Workbench:
    """Return shops, the shipped tiny policy that shops in them, and what they pay; docs/skill_alpha.md.

    Builds no world and loads no weights before they are needed.

    Raises:
        ConfigError: for an option that is none, or a value out of range.
    """
    known = dataclasses.asdict(ShopOptions())
    options = ShopOptions(**read_options(config.editor.options, known, WHERE))
    directory = policy_directory(_WORKER)
    worker = ShopWorker(directory, options.preset, options.temperature, config.threads, config.workers)
    episodes = Episodes(worker, EPISODES.path(root))
    return Workbench(ShopDomain(options, evidence_limits(config), episodes), worker, ShopVerifier(options.part))
