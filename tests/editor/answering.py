"""An editor's run around a domain whose worker and judge are asked over real HTTP."""

from pathlib import Path
from types import SimpleNamespace

from intraskill.config.config import Config
from intraskill.editor.domain import Workbench
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.passes import Worth, worth
from intraskill.editor.scoring import ScoredState, score_answers
from intraskill.editor.states import EditState
from intraskill.editor.trials import Trials
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.skill import BARE, Skill

SAMPLES = Path(__file__).parent / "samples"


def configured(**options) -> Config:
    config = Config()
    config.editor.options = options
    return config


def rollout(answer: str) -> Rollout:
    turns = (Turn("edit", answer, "", "", "executed"),)
    return Rollout("s", BARE, "c", 0, (), (), (), (), reward=0.0, turns=turns)


def scored(bench: Workbench, trials: Trials, answers: list[str], *, anchors: int = 1) -> ScoredState:
    """Score answers on the first state of the first train stream."""
    stream = bench.domain.streams("train")[0]
    environment = EditorEnvironment(LeakFilter(bench.domain.secrets))
    units = stream.units[:4]
    named = sorted({query_id for unit in units for query_id in unit.anchors})[:anchors]
    state = EditState("s", stream.skill, units, tuple(map(bench.domain.query, named)))
    (found,) = score_answers([state], [[rollout(one) for one in answers]], environment, trials, kind="binary", seed=0)
    return found


def worth_of(bench: Workbench, trials: Trials, skill: Skill) -> list[Worth]:
    """Score a skill against z_0 on the probes of every held-out stream."""
    streams = bench.domain.streams("held_out")
    run = SimpleNamespace(config=Config(), workbench=bench, trials=trials)
    return worth(run, streams, [skill] * len(streams))
