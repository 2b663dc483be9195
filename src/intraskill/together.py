"""``intraskill train`` in one process or in several: rank 0 runs the loop, the other ranks serve its learner."""

from pathlib import Path

from intraskill.assembly import environment_of, learner_of
from intraskill.config import Config
from intraskill.loop import run
from intraskill.method.errors import RankError
from intraskill.runtime.distributed_settings import launched, strategy_of
from intraskill.runtime.tracking import Monitor


def run_together(config: Config, monitor: Monitor | None = None) -> Path | None:
    """Run the loop, or what is left of it; return the run directory on rank 0 and nothing on the others.

    Raises:
        IntraSkillError: with one clear sentence, on rank 0; the other ranks end with it.
        RankError: on rank 0 when another rank fails, on another one when rank 0 is gone without a word.
        SystemExit: on the other ranks, when rank 0 says why it ends.
    """
    if strategy_of(config.distributed, launched()) == "none":
        return run(config, monitor)
    import torch

    from intraskill.runtime.distributed import joined
    from intraskill.runtime.distributed_learner import dismiss, serve

    cuda = config.policy.device != "cpu" and torch.cuda.is_available()
    torch.set_num_threads(config.threads)
    with joined(config.distributed, cuda=cuda) as ranks:
        if ranks.rank == 0:
            root = run(config, monitor)
            dismiss(ranks)
            return root
        try:
            serve(learner_of(config, environment_of(config)), ranks)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except RankError:
            if ranks.told:
                raise SystemExit(2) from None
            raise
    return None
