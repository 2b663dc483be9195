"""A training in one process or in several: rank 0 leads it, the other ranks serve its learner."""

from collections.abc import Callable
from typing import TypeVar, cast

from intraskill.assembly import learner_of
from intraskill.config import Config
from intraskill.environments.protocol import Environment
from intraskill.method.errors import RankError
from intraskill.runtime.distributed_settings import launched, strategy_of
from intraskill.runtime.tracking import Monitor

Led = TypeVar("Led")


def run_together(
    config: Config,
    lead: Callable[[Config, Monitor | None], Led],
    environment_of: Callable[[Config], Environment],
    monitor: Monitor | None = None,
) -> Led | None:
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

    from intraskill.runtime.distributed import joined
    from intraskill.runtime.distributed_learner import dismiss, serve
    from intraskill.runtime.trainer import TorchLearner

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
