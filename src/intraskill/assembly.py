"""Put a run together from its config: the environment, the learner, the analyst, the run directory.

Heavy packages are imported here only when the config asks for what needs them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from intraskill.config import Config, check, flatten
from intraskill.environments.protocol import Environment
from intraskill.factories import built, imported
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.firewall import Firewall
from intraskill.method.randomness import shuffled
from intraskill.method.tasks import SPLITS, Split, Task
from intraskill.provenance import about, check_provenance, claim, draft_of, plan_of
from intraskill.run_sizes import check_sizes, check_slots
from intraskill.runtime.distributed_settings import launched
from intraskill.runtime.learner import Learner
from intraskill.runtime.trace2skill import Analyst, OwnAnalyst, secrets_of
from intraskill.runtime.tracking import Metrics, Monitor, Silence, WandbMirror
from intraskill.runtime.trainer_settings import LossKind, SelfCheck, TrainerSettings

if TYPE_CHECKING:
    from intraskill.runtime.policy import Engine, Policy

PACKAGE = Path(__file__).parent
SHIPPED_POLICIES = ("tiny", "tiny_editor")


@dataclass
class Run:
    """Everything that the stages of one run share.

    Attributes:
        config: resolved and checked.
        root: the run directory.
        environment: one task family.
        learner: policy and optimizer.
        analyst: reads rollouts and proposes; ``None`` when the config wants none.
        firewall: what no chunk may hold.
        metrics: the metric log.
        monitor: whoever watches.
    """

    config: Config
    root: Path
    environment: Environment
    learner: Learner
    analyst: Analyst | None
    firewall: Firewall
    metrics: Metrics
    monitor: Monitor

    def round_directory(self, round_index: int) -> Path:
        """Return ``RUN/round_003``."""
        return self.root / f"round_{round_index:03d}"

    def tasks(self, split: Split, limit: int | None = None) -> tuple[Task, ...]:
        """Return the tasks of a split that training and the gate may read; at most ``limit``, drawn by the seed.

        Raises:
            SplitError: for ``test``, which only the final report reads (method §12.4).
        """
        if split == "test":
            raise SplitError("test tasks are for the final report only; use train, skill_validation or model_dev")
        return panel(self.environment, split, limit, self.config.seed)


def panel(environment: Environment, split: Split, limit: int | None, seed: int) -> tuple[Task, ...]:
    """Return a split's tasks, at most ``limit`` of them in the order of an addressed shuffle.

    Raises:
        ConfigError: for a limit below 1.
        SplitError: when the split is empty.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"at most {limit} {split} tasks were asked for; ask for 1 or more, or for the whole split")
    tasks = {task.id: task for task in environment.tasks(split)}
    if not tasks:
        raise SplitError(f"the environment has no {split} tasks; choose a larger env.preset")
    if limit is None or limit >= len(tasks):
        return tuple(tasks.values())
    return tuple(tasks[task_id] for task_id in shuffled(tasks, seed, "panel", split)[:limit])


def assemble(config: Config, monitor: Monitor | None = None) -> Run:
    """Build a run and claim its directory; the resolved config, versions, git state and hashes are written first.

    Raises:
        ConfigError: for a config that makes no sense, or that the world's tasks cannot carry to the end.
        SkillFormatError: for a draft that is not a skill.
        ArtifactError: when the directory belongs to another plan, environment version, conditions or start weights.
    """
    check(config)
    root = Path(config.run_dir)
    plan = plan_of(config)
    if (root / "plan.json").exists():
        claim(root, plan, {})
    draft = draft_of(config)
    environment = environment_of(config)
    check_sizes(config, {split: len(environment.tasks(split)) for split in SPLITS}, draft)
    run = bench(config, root, monitor, environment)
    facts = about(run.learner, run.environment, run.analyst)
    claim(root, plan, facts)
    check_provenance(root, facts)
    if config.tracking.name == "wandb":
        mirror = WandbMirror(root, config.tracking.project, config.tracking.mode, flatten(config))
        run.metrics = Metrics(root / "metrics.jsonl", mirror)
    return run


def bench(config: Config, root: Path, monitor: Monitor | None = None, environment: Environment | None = None) -> Run:
    """Build everything a stage needs, with its files under ``root``, and claim nothing: for evaluations.

    Raises:
        ConfigError: also when the environment holds fewer episodes at once than a batch.
    """
    environment = environment or environment_of(config)
    check_slots(config.rollout.batch, getattr(environment, "slots", None))
    learner = learner_of(config, environment)
    firewall, metrics = Firewall(secrets_of(environment)), Metrics(root / "metrics.jsonl")
    shown = monitor or Silence()
    analyst = analyst_of(config, environment, root, shown)
    return Run(config, root, environment, learner, analyst, firewall, metrics, shown)


def environment_of(config: Config) -> Environment:
    """Build the environment.

    Raises:
        ConfigError: for an unknown name, a factory that cannot be imported or fails, options that do not fit it, or
            another family than asked for.
    """
    name = config.env.name
    environment: Environment = built(config.env)
    if config.family is not None and config.family != environment.family:
        raise ConfigError(f"family={config.family}, but env.name={name} is of family {environment.family}")
    return environment


def learner_of(config: Config, environment: Environment) -> Learner:
    """Build the policy and its optimizer for an environment; among several processes, the one that leads the others.

    Raises:
        ConfigError: also for a world with a learner of its own among several processes.
    """
    if config.env.name != "planted" and not hasattr(environment, "learner"):
        return _torch_learner(config, environment)
    if launched().size > 1:
        raise ConfigError(
            f"env.name={config.env.name} has a learner of its own, for one process; start it without a launcher"
        )
    if config.env.name == "planted":
        planted: Learner = imported("intraskill.environments.planted:PlantedLearner")(environment)
        return planted
    own: Learner = environment.learner(config)  # type: ignore[attr-defined]
    return own


def _torch_learner(config: Config, environment: Environment) -> Learner:
    language = getattr(getattr(environment, "settings", None), "language", "plain")
    if config.policy.path == "tiny" and language != "plain":
        raise ConfigError(
            f"policy.path=tiny reads env.options.language=plain only, and this shop is in {language!r}; set "
            "env.options.language=plain, or policy.path to a model that reads natural language"
        )
    from intraskill.runtime.distributed import present
    from intraskill.runtime.distributed_learner import NoEngine, led, refuse_engine, together_of
    from intraskill.runtime.trainer import TorchLearner
    from intraskill.runtime.vllm_choice import vllm_engine_of

    rollout, ranks = config.rollout, present()
    refuse_engine(rollout.engine, ranks)
    loaded, settings = start_policy(config), trainer_settings(config)
    together = together_of(ranks, loaded, settings)
    engine: Engine | None = None
    if rollout.engine != "torch":
        directory = policy_directory(config.policy.path)
        engine = NoEngine() if ranks and ranks.rank else vllm_engine_of(rollout, loaded, directory)
    local = TorchLearner(loaded, environment, settings, engine=engine, together=together)
    return local if ranks is None else led(local, ranks, elsewhere=rollout.engine != "torch")


def start_policy(config: Config) -> "Policy":
    """Load the start weights and, where the config asks for one, the adapter on top, onto this process's device.

    Raises:
        ConfigError: when there is no such directory or device.
        CheckpointError: when the directory holds no model.
    """
    directory = policy_directory(config.policy.path)
    import torch
    from transformers.utils import logging

    from intraskill.runtime.distributed import device_of, present
    from intraskill.runtime.policy import LoraSettings, load_policy

    logging.disable_progress_bar()
    torch.set_num_threads(config.threads)
    policy, lora = config.policy, None
    if policy.lora_rank:
        targets = tuple(policy.lora_targets)
        lora = LoraSettings(policy.lora_rank, policy.lora_alpha, targets[0] if targets == ("all-linear",) else targets)
    device = device_of(policy.device, present())
    return load_policy(directory, lora=lora, device=device, dtype=getattr(torch, policy.dtype))


def policy_directory(path: str) -> Path:
    """Return the directory of the start weights.

    Raises:
        ConfigError: when there is none.
    """
    directory = PACKAGE / "policies" / path if path in SHIPPED_POLICIES else Path(path)
    if not directory.is_dir():
        raise ConfigError(
            f"policy.path={path}: {directory} is not a directory; give one that holds config.json, or let "
            "intraskill warmstart (a policy) or intraskill editor sft (an editor) make it"
        )
    return directory


def trainer_settings(config: Config) -> TrainerSettings:
    """Translate the config into the trainer's own settings."""
    grpo, rollout = config.grpo, config.rollout
    return TrainerSettings(
        lr=grpo.lr,
        weight_decay=grpo.weight_decay,
        max_grad_norm=grpo.max_grad_norm,
        warmup_steps=grpo.warmup_steps,
        loss=cast(LossKind, grpo.loss),
        epsilon_low=grpo.clip_low,
        epsilon_high=grpo.clip_high,
        beta=grpo.kl_beta,
        entropy_coef=grpo.entropy_coef,
        updates_per_batch=grpo.updates_per_batch,
        token_budget=grpo.micro_batch_tokens,
        shared_prefix=grpo.shared_prefix,
        prefix_tree=grpo.prefix_tree,
        self_check=cast(SelfCheck, grpo.self_check),
        checkpoint_activations=grpo.checkpoint_activations,
        temperature=rollout.temperature,
        max_turns=rollout.max_turns,
        max_new_tokens=rollout.max_new_tokens,
        max_context=rollout.max_context,
        constrained=rollout.constrained,
        rollout_batch=-(-rollout.batch // (config.workers * launched().size)),
        workers=config.workers,
        mismatch_cap=grpo.mismatch_cap,
    )


def analyst_of(config: Config, environment: Environment, root: Path, monitor: Monitor) -> Analyst | None:
    """Return the analyst that the config asks for; a world that brings its own keeps it under ``rules``.

    An LLM's answers are cached under ``root``, so a resumed run asks nothing twice; the monitor hears what they cost.
    An editor is loaded when asked.
    """
    proposer = config.proposer
    if proposer.name == "none":
        return None
    if proposer.name == "openai":
        from intraskill.runtime.analyst_llm import llm_analyst
        from intraskill.runtime.llm import JsonClient, endpoint_of, limits_of

        client = JsonClient(endpoint_of(proposer), root / "llm_cache", limits_of(proposer), monitor.spent)
        return llm_analyst(client, environment, proposer)
    if proposer.name == "skill_alpha":
        from intraskill.editor.proposing import editor_analyst

        return editor_analyst(config, unasked_analyst(environment))
    return unasked_analyst(environment)


def unasked_analyst(environment: Environment) -> Analyst:
    """Return the analyst that asks no model: the world's own, or the rules."""
    own = getattr(environment, "propose", None)
    if own is not None:
        return OwnAnalyst(own)
    from intraskill.runtime.analyst_rules import RulesAnalyst

    return RulesAnalyst()
