"""Every section of a run, and the whole of them: names, checks, and what an older run may still ask for.

Each option has its meaning, unit, range and default in one of the sections here, in `learning` or in `proposing`, and
nowhere else; the YAML files hold only deltas.

The dataclasses are what omegaconf calls structured configs (no Literal, no tuple, not frozen), so an unknown key is
an error wherever it comes from. `check` refuses values that are out of range or contradict each other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from intraskill.config.learning import DistributedConfig, GrpoConfig, PolicyConfig, RolloutConfig
from intraskill.config.option import check_values, option, options
from intraskill.config.proposing import EditorConfig, ProposerConfig, contradictions
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.index import LeakLimits

POLICIES = ("positive_topk", "probability", "fdr", "keep")
ESTIMATORS = ("paired_ols", "paired_ols_intercept", "ancova", "masked_ols", "covariate")


@dataclass
class EnvConfig:
    """Which world the agent acts in."""

    name: str = option("shopworld", "shopworld, planted, or 'package.module:factory' called with preset, seed, options")
    preset: str = option("small", "size of the generated world")
    seed: int = option(0, "seed of the generated world; independent of the run's seed", "[0, inf)")
    options: dict[str, Any] = option({}, "further keyword arguments of the world")


@dataclass
class ColdStartConfig:
    """The first skill (method §4)."""

    tasks: int = option(64, "train tasks sampled with the initial policy; 0 = no Trace2Skill at the start", "[0, inf)")
    repeats: int = option(1, "rollouts of each of these tasks", "[1, 1000]")
    max_drafts: int = option(16, "most chunks in the document that the first gate calibrates", "[0, 64]")
    draft: str | None = option(None, "skill file to start from (a path, or a file shipped in configs/); null = empty")


@dataclass
class CurriculumConfig:
    """Two-level curriculum (method §8)."""

    assisted: bool = option(True, "false: no group ever sees the skill, which is plain GRPO")
    controller: str = option("fixed", "what moves q between rounds", choices=("fixed", "linear", "gap", "signal"))
    skill_free_prob: float = option(0.20, "q_0, probability that a whole group sees no skill", "(0, 1)")
    q_floor: float = option(0.10, "least q of a controller that moves it", "(0, 1)")
    q_ceiling: float = option(0.60, "largest q of a controller that moves it", "(0, 1)")
    q_max_change: float = option(0.10, "largest change of q per round", "(0, 1)")
    hint_on_failure: bool = option(
        False, "half of a step's groups practise bare, and the failed ones come again in their planned context"
    )
    q_enough: float = option(
        0.5, "signal controller: bare groups' signal, share of the assisted groups', at which q is largest", "(0, 1]"
    )
    rho_min: float = option(0.20, "least inclusion probability of an active chunk", "(0, 1)")
    rho_max: float = option(0.90, "largest inclusion probability of an active chunk", "(0, 1)")
    saturation: float = option(0.15, "contribution, share of the reward range, at which ρ reaches rho_max", "(0, inf)")


@dataclass
class FrontierConfig:
    """Which groups count as failing (method §6): low mean and low dispersion."""

    max_mean: float = option(0.0, "largest mean reward of a frontier group, share of the reward range", "[0, 1]")
    max_std: float = option(0.0, "largest reward SD of a frontier group, share of the reward range", "[0, 1]")
    part: str = option("", "reward component the rule reads, such as r_success; empty = the main reward")
    max_tasks: int | None = option(None, "most frontier tasks reviewed per round; null = all", "[0, inf)")


@dataclass
class TriageConfig:
    """Re-runs of frontier tasks at the frozen checkpoint (method §6)."""

    reruns: int = option(
        4, "full-skill and as many bare re-runs per task; 0 = no triage, every frontier task is read", "[0, 100]"
    )
    solved: float = option(1.0, "reward at which a re-run counts as a rescue, share of the reward range", "(0, 1]")
    min_valid: int = option(2, "re-runs without a fault needed for a verdict", "[1, 100]")


@dataclass
class GateConfig:
    """Randomised validation gate (method §7)."""

    estimator: str = option("paired_ols", "model of the contributions; paired_ols is always beside it", "", ESTIMATORS)
    design: str = option("bernoulli", "how the masks are drawn", choices=("bernoulli", "balanced", "mirrored"))
    policy: str = option("positive_topk", "decision rule; keep: a control that takes every edit", "", POLICIES)
    top_k: int = option(10, "most active chunks, K", "[0, 64]")
    admit: float = option(0.8, "policy probability: P(α > 0) from which a chunk is admitted", "(0.5, 1)")
    retire: float = option(0.2, "policy probability: P(α > 0) down to which a chunk is dropped", "(0, 0.5)")
    carry_over: float = option(0.5, "policy probability: what a round's precision is worth one round later", "[0, 1)")
    fdr: float = option(0.1, "policy fdr: tolerated share of useless chunks among the admitted ones", "(0, 1)")
    negligible: float = option(0.05, "contribution as good as none, either way, in reward units; for words", "(0, 1]")
    tasks: int | None = option(None, "validation pairs; null = the whole split", "[2, inf)")
    inclusion: float = option(0.5, "probability that a masked run shows a chunk", "(0, 1)")
    replicates: int = option(1, "masked runs per task, each under its own mask", "[1, 100]")
    bare_replicates: int = option(1, "bare runs per task; B is their mean", "[1, 100]")
    placebos: int = option(0, "neutral chunks measured beside the pool and never admitted", "[0, 16]")
    effect: float = option(
        0.0, "contribution, share of the reward range, that the gate should see; 0 = none is asked for", "[0, 1]"
    )
    require_power: bool = option(False, "refuse a gate that cannot see gate.effect; false: say so and go on")
    sigma: float | None = option(
        None, "SD of R − B to plan power with, share of the reward range; null = the last gate's, else 0.44", "(0, 2]"
    )
    sequential: int = option(0, "tasks between two looks; the gate stops once all is decided; 0 = off", "[0, inf)")
    boundary: str = option(
        "spending",
        "of a sequential gate: errors spent over planned looks, or mixture, valid at any look and less powerful",
        choices=("spending", "mixture"),
    )
    slices: list[str] = option([], "public task features whose values are measured apart, fixed before any reward")
    full_arm: bool = option(True, "measure R_pair, the committed skill shown whole")


@dataclass
class FinalConfig:
    """The closing comparison on the reporting split."""

    split: str = option("test", "reporting split", choices=("test", "model_dev"))
    tasks: int | None = option(None, "tasks, 2 or more; null = the whole split; 0 = no closing comparison", "[0, inf)")
    repeats: int = option(1, "rollouts per task and arm", "[1, 1000]")


@dataclass
class TrackingConfig:
    """Where metrics go besides metrics.jsonl."""

    name: str = option("none", "mirror", choices=("none", "wandb", "tensorboard"))
    mode: str = option("offline", "wandb mode", choices=("offline", "online", "disabled"))
    project: str = option("intraskill", "wandb project")
    group: str = option("", "wandb group, such as the name of an experiment over several seeds")


@dataclass
class Config:
    """One run."""

    seed: int = option(0, "seed of every draw of the run", "[0, inf)")
    run_dir: str = option("runs/own", "directory of the run; an unfinished run there is continued")
    review: bool = option(False, "stop before each gate for a person's yes, no or edit; no part of the plan")
    threads: int = option(1, "torch threads per process", "[1, 1024]")
    workers: int = option(1, "threads that share rollout batches and micro-batches; pays for small models", "[1, 64]")
    family: str | None = option(None, "task family; null = the environment's own; another one is refused")
    rounds: int = option(2, "outer-loop rounds after the cold start", "[0, 10000]")
    env: EnvConfig = field(default_factory=EnvConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    grpo: GrpoConfig = field(default_factory=GrpoConfig)
    coldstart: ColdStartConfig = field(default_factory=ColdStartConfig)
    curriculum: CurriculumConfig = field(default_factory=CurriculumConfig)
    frontier: FrontierConfig = field(default_factory=FrontierConfig)
    triage: TriageConfig = field(default_factory=TriageConfig)
    proposer: ProposerConfig = field(default_factory=ProposerConfig)
    editor: EditorConfig = field(default_factory=EditorConfig)
    leak_filter: LeakLimits = field(default_factory=LeakLimits)
    gate: GateConfig = field(default_factory=GateConfig)
    final: FinalConfig = field(default_factory=FinalConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)


def flatten(config: Config) -> dict[str, Any]:
    """Return dotted name → value, for plans and comparisons."""
    return {name: value for name, value, _ in options(config)}


RETIRED: dict[str, Any] = {"grpo.prefix_tree": False, "final.resamples": None}
"""Options that are gone, each with the value that this version behaves as, or ``None`` where none matters any more."""


RENAMED = {"intraskill.environments.remote_shop:RemoteShop": "intraskill.environments.remote.shop:RemoteShop"}
"""Values of ``env.name`` that earlier versions had; configs and plans of that time still hold them."""


def as_this_version(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored dotted name → value in the words of this version.

    Retired options that ask for what this version does anyway are left out, and renamed factories get their new name.
    """
    kept = {name: value for name, value in values.items() if name not in RETIRED or RETIRED[name] not in (value, None)}
    if (factory := kept.get("env.name")) in RENAMED:
        kept["env.name"] = RENAMED[factory]
    return kept


def unflatten(values: Mapping[str, Any]) -> Config:
    """Return the config whose `flatten` gave ``values``; options that are absent keep their default.

    Raises:
        ConfigError: for a name that is no option of this version.
    """
    config = Config()
    for name, value in as_this_version(values).items():
        *path, leaf = name.split(".")
        section: Any = config
        for step in path:
            section = getattr(section, step, None)
        if not hasattr(section, leaf):
            raise ConfigError(f"{name} is no option of this version of intraskill")
        setattr(section, leaf, value)
    return config


def check(config: Config) -> Config:
    """Return ``config`` when it makes sense.

    Raises:
        ConfigError: for the first value out of range or in contradiction with another one, in one sentence.
    """
    check_values(config)
    for broken, message in _contradictions(config):
        if broken:
            raise ConfigError(message)
    return config


def _contradictions(config: Config) -> Iterator[tuple[bool, str]]:
    curriculum, grpo, gate, triage = config.curriculum, config.grpo, config.gate, config.triage
    low, high = curriculum.rho_min, curriculum.rho_max
    yield (low > high, f"curriculum.rho_min={low} exceeds curriculum.rho_max={high}")
    yield (
        curriculum.controller != "fixed"
        and not curriculum.q_floor <= curriculum.skill_free_prob <= curriculum.q_ceiling,
        f"curriculum.skill_free_prob={curriculum.skill_free_prob} must lie in [q_floor, q_ceiling] = "
        f"[{curriculum.q_floor}, {curriculum.q_ceiling}] for curriculum.controller={curriculum.controller}",
    )
    yield (
        0 < triage.reruns < triage.min_valid,
        f"triage.min_valid={triage.min_valid} exceeds triage.reruns={triage.reruns}",
    )
    yield from contradictions(config.proposer)
    yield (
        config.rollout.max_new_tokens >= config.rollout.max_context,
        f"rollout.max_new_tokens={config.rollout.max_new_tokens} leaves no room in "
        f"rollout.max_context={config.rollout.max_context}",
    )
    served = config.rollout.engine == "vllm_server"
    yield (served and not config.rollout.vllm.urls, "rollout.engine=vllm_server needs addresses in rollout.vllm.urls")
    policy = config.policy
    yield (served and not policy.lora_rank, "rollout.engine=vllm_server swaps adapters only; set policy.lora_rank")
    yield (policy.lora_rank > 0 and not policy.lora_targets, "policy.lora_rank > 0 needs policy.lora_targets")
    yield (curriculum.controller == "gap" and not gate.full_arm, "curriculum.controller=gap needs gate.full_arm=true")
    yield (
        grpo.loss == "cispo" and grpo.clip_high < 1,
        f"grpo.clip_high={grpo.clip_high} caps every weight of grpo.loss=cispo below 1; use 5, say",
    )
    yield (config.final.tasks == 1, "final.tasks=1 gives no interval; use 2 or more, or 0 for no closing comparison")
    yield (not config.run_dir.strip(), "run_dir is empty; name a directory")
    yield (grpo.steps_per_round == 0 and config.rounds > 0, "grpo.steps_per_round=0 trains nothing; set rounds=0 too")
    yield (gate.design != "bernoulli" and gate.inclusion != 0.5, f"gate.design={gate.design} needs gate.inclusion=0.5")
    yield (gate.design == "mirrored" and gate.replicates % 2 == 1, "gate.design=mirrored needs an even gate.replicates")
    yield (gate.require_power and not gate.effect, "gate.require_power=true needs gate.effect, the effect to be seen")
