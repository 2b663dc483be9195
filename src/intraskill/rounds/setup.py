"""Put a run together from its config: the environment, the learner, the proposer, the run directory.

Heavy packages are imported here only when the config asks for what needs them.
"""

from pathlib import Path
from typing import Any

from intraskill.config.config import Config, check, flatten
from intraskill.environments.factories import built
from intraskill.environments.protocol import Environment, own_propose, reader_of, secrets_of, slots_of
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.tasks import SPLITS
from intraskill.proposers.trace2skill import OwnProposer, Proposer
from intraskill.rl.learner import Learner
from intraskill.rl.start import learner_of
from intraskill.rounds.rewards import in_reward_units, paid_by
from intraskill.rounds.run import Run
from intraskill.rounds.sizes import check_sizes, check_slots
from intraskill.store.artifacts import METRICS, PLAN
from intraskill.store.lengthening import lengthen, recognised, standing
from intraskill.store.metrics import Metrics, Mirror, Monitor, Silence
from intraskill.store.provenance import about, check_provenance, claim, draft_of, plan_of
from intraskill.store.tensorboard_mirror import TensorBoardMirror
from intraskill.store.wandb_mirror import WandbMirror


def assemble(config: Config, monitor: Monitor | None = None, *, lengthens: bool = False) -> Run:
    """Build a run and claim its directory; the resolved config, versions, git state and hashes are written first.

    Args:
        config: of the run.
        monitor: who watches.
        lengthens: whether more rounds than the directory's plan has are taken as more rounds of the same run.

    Raises:
        ConfigError: for a config that makes no sense, or that the world's tasks cannot carry to the end.
        SkillFormatError: for a draft that is not a skill.
        ArtifactError: when the directory belongs to another plan, environment version, conditions or start weights.
    """
    check(config)
    root = Path(config.run_dir)
    plan = plan_of(config)
    longer = recognised(root, plan) if lengthens else None
    claimed = plan if longer is None else {**plan, "rounds": longer.before}
    if PLAN.exists(root):
        claim(root, claimed, {})
    draft = draft_of(config)
    environment = environment_of(config)
    check_sizes(config, {split: len(environment.tasks(split)) for split in SPLITS}, draft)
    run = bench(config, root, monitor, environment)
    facts = facts_of(run.learner, run.environment, run.proposer)
    claim(root, claimed, facts)
    check_provenance(root, facts)
    if longer is not None:
        run.monitor.say(standing(root, plan))
        lengthen(root, longer, facts)
    run.metrics = Metrics(METRICS.path(root), _mirror(config, root))
    return run


def _mirror(config: Config, root: Path) -> Mirror | None:
    tracking = config.tracking
    if tracking.name == "wandb":
        return WandbMirror(root, tracking.project, tracking.mode, flatten(config), tracking.group)
    return TensorBoardMirror(root, flatten(config)) if tracking.name == "tensorboard" else None


def bench(config: Config, root: Path, monitor: Monitor | None = None, environment: Environment | None = None) -> Run:
    """Build everything a stage needs, with its files under ``root``, and claim nothing: for evaluations.

    Raises:
        ConfigError: also when the environment holds fewer episodes at once than a batch.
    """
    environment = environment or environment_of(config)
    check_slots(config.rollout.batch, slots_of(environment))
    payment = paid_by(config, environment)
    learner = learner_of(config, environment)
    leak_filter = LeakFilter(secrets_of(environment), config.leak_filter)
    metrics = Metrics(METRICS.path(root))
    shown = monitor or Silence()
    proposer = proposer_of(config, environment, root, shown)
    scaled = in_reward_units(config, payment)
    return Run(scaled, root, environment, learner, proposer, leak_filter, metrics, shown)


def facts_of(learner: Learner, environment: Environment, proposer: Proposer | None) -> dict[str, Any]:
    """Return what ``plan.json`` records of a run beside its plan."""
    prompts = "" if proposer is None else proposer.prompts_hash
    return about(learner.checkpoint, learner.conditions, environment.version, prompts)


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


def proposer_of(config: Config, environment: Environment, root: Path, monitor: Monitor) -> Proposer | None:
    """Return the proposer that the config asks for; a world that brings its own keeps it under ``rules``.

    An LLM's answers are cached under ``root``, so a resumed run asks nothing twice; the monitor hears what they cost.
    An editor is loaded when asked.
    """
    settings = config.proposer
    if settings.name == "none":
        return None
    if settings.name == "openai":
        from intraskill.llm.client import JsonClient, endpoint_of, limits_of
        from intraskill.proposers.llm import llm_proposer

        client = JsonClient(endpoint_of(settings), root / "llm_cache", limits_of(settings), monitor.spent)
        return llm_proposer(client, environment, settings)
    if settings.name == "skill_alpha":
        from intraskill.editor.proposing import editor_proposer

        return editor_proposer(config, unasked_proposer(environment))
    return unasked_proposer(environment)


def unasked_proposer(environment: Environment) -> Proposer:
    """Return the proposer that asks no model: the world's own, or the rules."""
    own = own_propose(environment)
    if own is not None:
        return OwnProposer(own)
    from intraskill.proposers.rules import RulesProposer

    return RulesProposer(reader_of(environment))
