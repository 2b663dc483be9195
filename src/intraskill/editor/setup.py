"""Put an editor's run together from its config: workbench, editor policy, trials, run directory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from intraskill.config.config import Config, check
from intraskill.editor.actions import ACTIONS, ActionName
from intraskill.editor.domain import Stream, Workbench
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import EvidenceLimits, Order
from intraskill.editor.prompt import PromptSize
from intraskill.editor.states import Chain, begin
from intraskill.editor.trials import Trials
from intraskill.environments.factories import imported
from intraskill.llm.client import Usage, usage_of, watch_together
from intraskill.method.errors import ConfigError, SplitError, TooFewTasksError, counted
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.rl.learner import Learner
from intraskill.rl.start import learner_of
from intraskill.store.artifacts import ATTEMPTS, EPISODES, METRICS, TRIALS
from intraskill.store.metrics import Metrics, Monitor, Silence
from intraskill.store.provenance import about, check_provenance, claim, plan_of

DOMAINS = {
    "planted": "intraskill.editor.domains.planted:planted",
    "shop": "intraskill.editor.domains.shop:shop",
    "documents": "intraskill.editor.domains.documents:documents",
    "workbooks": "intraskill.editor.domains.workbooks:workbooks",
    "dialogues": "intraskill.editor.domains.dialogues:dialogues",
}

EVIDENCE = ("llm_*", ATTEMPTS.name, f"{EPISODES.path(Path()).stem}.*")
"""What a domain writes when its streams are made, each bound to what made it: it outlives a run that was refused."""


@dataclass
class EditorRun:
    """Everything that the stages of an editor's run share.

    Attributes:
        config: resolved and checked.
        root: the run directory.
        workbench: domain, worker, verifier.
        environment: where edit states are placed.
        learner: the editor policy and its optimizer.
        trials: worker and verifier, each call made once.
        limits: sizes of the evidence.
        size: measures prompts as the editor's tokenizer does.
        metrics: the metric log.
        monitor: whoever watches.
    """

    config: Config
    root: Path
    workbench: Workbench
    environment: EditorEnvironment
    learner: Learner
    trials: Trials
    limits: EvidenceLimits
    size: PromptSize
    metrics: Metrics
    monitor: Monitor

    @cached_property
    def train_streams(self) -> dict[str, Stream]:
        """Streams to learn from, by id; read once, as making them may mean reading every file of the domain.

        Raises:
            SplitError: when there are none, or no evidence in them names a query to try an edit on.
        """
        found = streams_of(self, "train")
        if not any(unit.anchors for stream in found for unit in stream.units):
            raise SplitError(
                f"none of {counted(sum(len(stream.units) for stream in found), 'piece')} of evidence in "
                f"{counted(len(found), 'train stream')} of editor.domain={self.config.editor.domain} names a query to "
                "try an edit on, so no edit has a reward; give queries, or attempts short of full reward"
            )
        return {stream.id: stream for stream in found}

    @cached_property
    def held_out(self) -> tuple[Stream, ...]:
        """Streams to compare on at the end; none where the config wants no comparison.

        Raises:
            SplitError: when one is wanted and there are none.
            TooFewTasksError: when fewer than two of them hold probes.
        """
        count = self.config.editor.eval_streams
        there = streams_of(self, "held_out") if count else ()
        streams = there[:count]
        if count and (probed := sum(bool(stream.probes) for stream in streams)) < 2:
            raise TooFewTasksError(
                f"held-out streams with probes: {probed} of {len(streams)}, and an interval needs two; give more "
                f"evidence, raise editor.eval_streams={count}, or set it to 0 for no comparison"
            )
        if count > len(there):
            self.monitor.say(f"editor.eval_streams={count} are wanted, all {len(there)} held-out streams are compared")
        return streams

    def check_streams(self) -> None:
        """Refuse a run that could not be carried to its end for want of streams.

        Raises:
            SplitError: as `held_out` and `train_streams`.
            TooFewTasksError: as `held_out`.
        """
        try:
            _ = self.held_out, self.train_streams
        except BaseException:  # nothing may be logged in a directory that is not taken
            if self.usage is not None:
                self.monitor.say(f"LLM so far: {self.usage.words()}")
            raise

    @property
    def usage(self) -> Usage | None:
        """What the workbench's LLMs have cost since the start of the run; ``None`` when nothing was asked."""
        found = usage_of(self.workbench.clients)
        return found if found.calls else None

    def begin(self, stream: Stream, number: int) -> Chain:
        """Return pass ``number`` over a stream, in the order that the config asks for."""
        return begin(stream, number, order=cast(Order, self.config.editor.order), seed=self.config.seed)


def assemble_editor(
    config: Config, monitor: Monitor | None = None, check: Callable[[EditorRun], object] = lambda run: None
) -> EditorRun:
    """Build an editor's run and claim its directory.

    Args:
        config: of the run.
        monitor: whoever watches.
        check: raises for a run whose directory, when new, is not to be claimed.

    Raises:
        ConfigError: for a config that makes no sense.
        ArtifactError: when the directory belongs to another plan, domain or start weights.
    """
    run = editor_bench(config, Path(config.run_dir), monitor)
    facts = about(run.learner.checkpoint, run.learner.conditions, run.environment.version) | {
        "domain": run.workbench.domain.version
    }
    claim(run.root, plan_of(config), facts, check=lambda: check(run), kept=EVIDENCE)
    check_provenance(run.root, facts)
    return run


def editor_bench(
    config: Config, root: Path, monitor: Monitor | None = None, workbench: Workbench | None = None
) -> EditorRun:
    """Build everything an editor needs, with its files under ``root``, and claim nothing."""
    check(config)
    limits = limits_of(config)
    workbench = workbench or workbench_of(config, root)
    environment = editor_environment(config, workbench.domain.secrets)
    learner = learner_of(config, environment)
    trials = Trials(workbench.worker, workbench.verifier, TRIALS.path(root))
    size = prompt_size(learner, environment)
    metrics = Metrics(METRICS.path(root))
    shown = monitor or Silence()
    watch_together(workbench.clients, shown.spent)
    return EditorRun(config, root, workbench, environment, learner, trials, limits, size, metrics, shown)


def limits_of(config: Config) -> EvidenceLimits:
    """Return the limits of the config.

    Raises:
        ConfigError: when a prompt and an answer together exceed the context.
    """
    editor, rollout = config.editor, config.rollout
    if editor.prompt_tokens + rollout.max_new_tokens > rollout.max_context:
        raise ConfigError(
            f"editor.prompt_tokens={editor.prompt_tokens} and rollout.max_new_tokens={rollout.max_new_tokens} exceed "
            f"rollout.max_context={rollout.max_context}; raise it, or lower one of the two (+exp=editor_tiny sets all "
            "three for the shipped editor, +exp=skill_alpha for a large model)"
        )
    return evidence_limits(config)


def evidence_limits(config: Config) -> EvidenceLimits:
    """Return the sizes of evidence that a config asks for; the context is `limits_of`'s to check."""
    editor = config.editor
    return EvidenceLimits(editor.batch, editor.view_steps, editor.characters, editor.prompt_tokens)


def editor_environment(config: Config, secrets: Secrets) -> EditorEnvironment:
    """Return the environment whose prompts an editor is to answer.

    Raises:
        ConfigError: as `allowed_actions`.
    """
    leak_filter = LeakFilter(secrets, config.leak_filter)
    return EditorEnvironment(leak_filter, allowed_actions(config.editor.actions), terse=config.editor.terse)


def environment_of(config: Config) -> EditorEnvironment:
    """Build the environment of a rank that serves: rank 0 places the states in it.

    Raises:
        ConfigError: for a config that makes no sense.
    """
    return editor_environment(config, workbench_of(config, Path(config.run_dir)).domain.secrets)


def allowed_actions(names: list[str]) -> tuple[ActionName, ...]:
    """Return the actions that are switched on, in their own order.

    Raises:
        ConfigError: for an unknown name, or none.
    """
    if unknown := [name for name in names if name not in ACTIONS]:
        raise ConfigError(f"editor.actions has {unknown[0]!r}; choose from {', '.join(ACTIONS)}")
    if not names:
        raise ConfigError(f"editor.actions is empty; choose from {', '.join(ACTIONS)}")
    return tuple(name for name in ACTIONS if name in names)


def workbench_of(config: Config, root: Path) -> Workbench:
    """Build domain, worker and verifier.

    Raises:
        ConfigError: for an unknown name, a factory that cannot be imported, or what it raises.
    """
    factory = cast(Callable[[Config, Path], Workbench], imported(config.editor.domain, DOMAINS, "editor.domain"))
    return factory(config, root)


def prompt_size(learner: Learner, environment: EditorEnvironment) -> PromptSize:
    """Return how the editor's tokenizer and chat template count; an editor without one counts words."""
    policy, codec = getattr(learner, "policy", None), getattr(learner, "codec", None)
    if policy is None or codec is None:
        return PromptSize(lambda text: len(text.split()), len(environment.system.split()))
    return size_with(policy.tokenizer, codec)


def size_with(tokenizer: Any, codec: Any) -> PromptSize:
    """Return how a tokenizer and its chat codec measure prompts."""
    return PromptSize(
        lambda text: len(tokenizer.encode(text, add_special_tokens=False)), around=len(codec.prompt("", ""))
    )


def streams_of(run: EditorRun, part: str) -> tuple[Stream, ...]:
    """Return the streams of a part.

    Raises:
        SplitError: when there are none.
    """
    found = tuple(run.workbench.domain.streams("train" if part == "train" else "held_out"))
    if not found:
        raise SplitError(f"editor.domain={run.config.editor.domain} has no {part} streams; give it more evidence")
    return found
