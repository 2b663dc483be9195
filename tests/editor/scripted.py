"""An editor whose answers a test writes, and a worker that counts its calls: whole runs without a model."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from intraskill.config.config import Config
from intraskill.editor.domain import Answer, Job, Query, Stream, Workbench
from intraskill.editor.domains.planted import RewardVerifier
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import Unit
from intraskill.editor.prompt import PromptSize
from intraskill.editor.setup import EditorRun, evidence_limits
from intraskill.editor.states import EditState
from intraskill.editor.trials import Trials
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.skill import BARE, Chunk, Skill
from intraskill.store.metrics import Metrics, Silence

HELPFUL = Chunk("Helpful", "Read the size before you buy.")
USELESS = Chunk("Useless", "Stay friendly at all times.")
HARMFUL = Chunk("Harmful", "Take whatever is listed first.")
SKILL = Skill("", (USELESS, HARMFUL))


@dataclass
class CountedWorker:
    """Scores a job as ``score`` says, ``None`` for a fault, and counts every job by skill, query and seed."""

    score: Callable[[Job], float | None] = lambda job: (
        0.5 + 0.25 * (HELPFUL in job.skill.chunks) - 0.25 * (HARMFUL in job.skill.chunks)
    )
    calls: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    version: str = "counted-1"

    def answer(self, jobs):
        self.calls.update((job.skill.hash, job.query.id, job.seed) for job in jobs)
        scores = [self.score(job) for job in jobs]
        return [Answer(fault="worker: down") if s is None else Answer(facts={"reward": s}) for s in scores]


@dataclass
class WrittenDomain:
    """Streams that a test wrote."""

    train: tuple[Stream, ...] = ()
    held: tuple[Stream, ...] = ()
    family: str = "written"
    version: str = "written-1"
    secrets: Secrets = field(default_factory=Secrets)

    def streams(self, part):
        return self.train if part == "train" else self.held

    def query(self, query_id):
        return Query(query_id, f"Ask {query_id}.")


@dataclass
class WrittenLearner:
    """Answers each edit state as ``write`` says; ``None`` is an answer that broke."""

    write: Callable[[EditState, int], str | None]
    environment: EditorEnvironment
    asked: list[str] = field(default_factory=list)
    seeds: dict[str, int] = field(default_factory=dict)
    updates: list[Any] = field(default_factory=list)
    checkpoint: str = "written"
    conditions: dict[str, str] = field(default_factory=dict)

    def run(self, episodes):
        self.asked += [episode.task.id for episode in episodes]
        self.seeds |= {episode.task.id: episode.seed for episode in episodes}
        return tuple(
            answered(self.write(self.environment.state(e.task.id), e.sample), e.task.id, e.sample) for e in episodes
        )

    def update(self, groups):
        self.updates.append(groups)
        return {}

    def save(self, directory):
        (directory / "updates").write_text(str(len(self.updates)))

    def load(self, directory):
        self.updates = [None] * int((directory / "updates").read_text())


def answered(text: str | None, state_id: str = "s", sample: int = 0) -> Rollout:
    """Return an answer as a learner does; ``None`` is one that broke."""
    turns = () if text is None else (Turn("edit", text, "", "", "executed"),)
    reward, fault = (None, "engine: lost") if text is None else (0.0, None)
    return Rollout(state_id, BARE, "c", sample, (1,), (), (), (), reward=reward, fault=fault, turns=turns)


def unit(number: int, *anchors: str, words: int = 5, drafts: tuple[Chunk, ...] = ()) -> Unit:
    return Unit(f"u{number}", "experience", " ".join(["w"] * words), anchors, drafts)


def written_run(place: Path, domain: WrittenDomain, write, worker: CountedWorker | None = None, **options) -> EditorRun:
    """Return a run around a written domain; ``options`` are those of ``editor``."""
    config = Config(run_dir=str(place))
    config.grpo.groups_per_step, config.grpo.group_size = 2, 3
    for name, value in ({"steps": 3, "batch": 1} | options).items():
        setattr(config.editor, name, value)
    place.mkdir(parents=True, exist_ok=True)
    environment = EditorEnvironment(LeakFilter(domain.secrets))
    bench = Workbench(domain, worker or CountedWorker(), RewardVerifier())
    trials = Trials(bench.worker, bench.verifier, place / "trials.jsonl")
    size, metrics = PromptSize(lambda text: len(text.split())), Metrics(place / "metrics.jsonl")
    learner = WrittenLearner(write, environment)
    return EditorRun(
        config, place, bench, environment, learner, trials, evidence_limits(config), size, metrics, Silence()
    )
