"""From a config to a learner: start weights, engine and optimizer, in one process or in several.

Heavy packages are imported here only when the config asks for what needs them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from intraskill.config.config import Config
from intraskill.config.shipped import POLICIES
from intraskill.environments.protocol import Environment, language_of, own_learner
from intraskill.method.errors import ConfigError, RankError
from intraskill.rl.distributed.launch import launched, strategy_of
from intraskill.rl.learner import Learner
from intraskill.store.metrics import Monitor

if TYPE_CHECKING:
    from intraskill.rl.policy import Engine, Policy

_SHIPPED_POLICIES = ("tiny", "tiny_editor")
_Led = TypeVar("_Led")


def learner_of(config: Config, environment: Environment) -> Learner:
    """Build the policy and its optimizer for an environment; among several processes, the one that leads the others.

    Raises:
        ConfigError: also for a world with a learner of its own among several processes.
    """
    own = own_learner(environment)
    if own is None:
        return _torch_learner(config, environment)
    if launched().size > 1:
        raise ConfigError(
            f"env.name={config.env.name} has a learner of its own, for one process; start it without a launcher"
        )
    learner: Learner = own(config)
    return learner


def _torch_learner(config: Config, environment: Environment) -> Learner:
    check_readable(config, environment)
    from intraskill.rl.distributed.group import present
    from intraskill.rl.distributed.learner import NoEngine, led, refuse_engine, together_of
    from intraskill.rl.engines.vllm_local import vllm_engine_of
    from intraskill.rl.trainer import TorchLearner

    rollout, ranks = config.rollout, present()
    refuse_engine(rollout.engine, ranks)
    loaded = start_policy(config)
    together = together_of(ranks, loaded, config)
    engine: Engine | None = None
    if rollout.engine != "torch":
        directory = policy_directory(config.policy.path)
        engine = NoEngine() if ranks and ranks.rank else vllm_engine_of(rollout, loaded, directory)
    local = TorchLearner(loaded, environment, config, engine=engine, together=together)
    return local if ranks is None else led(local, ranks, elsewhere=rollout.engine != "torch")


def check_readable(config: Config, environment: Environment) -> None:
    """Refuse the tiny policy in a shop that it cannot read.

    Raises:
        ConfigError: naming the language.
    """
    language = language_of(environment)
    if config.policy.path == "tiny" and language not in ("", "plain"):
        raise ConfigError(
            f"policy.path=tiny reads env.options.language=plain only; env.name={config.env.name} is in {language!r}: "
            "set policy.path to a model that reads natural language, or +exp=quickstart for all that goes with tiny"
        )


def start_policy(config: Config) -> "Policy":
    """Load the start weights and, where the config asks for one, the adapter on top, onto this process's device.

    Raises:
        ConfigError: when there is no such directory or device.
        CheckpointError: when the directory holds no model.
    """
    directory = policy_directory(config.policy.path)
    import torch
    from transformers.utils import logging

    from intraskill.rl.distributed.group import device_of, present
    from intraskill.rl.policy import load_policy, lora_of

    logging.disable_progress_bar()
    torch.set_num_threads(config.threads)
    policy = config.policy
    device = device_of(policy.device, present())
    return load_policy(directory, lora=lora_of(policy), device=device, dtype=getattr(torch, policy.dtype))


def policy_directory(path: str) -> Path:
    """Return the directory of the start weights.

    Raises:
        ConfigError: when there is none.
    """
    directory = POLICIES / path if path in _SHIPPED_POLICIES else Path(path)
    if not directory.is_dir():
        raise ConfigError(
            f"policy.path={path}: {directory} is not a directory; give one that holds config.json, or let "
            "intraskill warmstart (a policy) or intraskill editor sft (an editor) make it"
        )
    return directory


def run_together(
    config: Config,
    lead: Callable[[Config, Monitor | None], _Led],
    environment_of: Callable[[Config], Environment],
    monitor: Monitor | None = None,
) -> _Led | None:
    """Run a training, or what is left of it; return what it returns on rank 0 and nothing on the others.

    Args:
        config: of the training.
        lead: the training; it builds its own learner.
        environment_of: builds the environment in which the other ranks' learners act.
        monitor: watches rank 0.

    Raises:
        IntraSkillError: with one clear sentence, on rank 0; the other ranks end with it.
        RankError: on rank 0 when another rank fails, on another one when rank 0 is gone without a word.
        SystemExit: on the other ranks, when rank 0 says why it ends.
    """
    if strategy_of(config.distributed, launched()) == "none":
        return lead(config, monitor)
    import torch

    from intraskill.rl.distributed.group import joined
    from intraskill.rl.distributed.learner import dismiss, serve
    from intraskill.rl.trainer import TorchLearner

    cuda = config.policy.device != "cpu" and torch.cuda.is_available()
    torch.set_num_threads(config.threads)
    with joined(config.distributed, cuda=cuda) as ranks:
        if ranks.rank == 0:
            found = lead(config, monitor)
            dismiss(ranks)
            return found
        try:
            serve(cast(TorchLearner, learner_of(config, environment_of(config))), ranks)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except RankError:
            if ranks.told:
                raise SystemExit(2) from None
            raise
    return None
