"""Does a policy read the skill? Greedy agreement with the scripted shopper that obeys the shown rules.

A policy that reads agrees with the rule-obeying shopper for held-out phrasings too, and stays with the rule-free
shopper when a chunk is negated, shuffled or meaningless.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import fmean

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.plain.expert import RuleShopper
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call
from intraskill.method.pairing_audit import MAIN_PART
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode
from intraskill.method.skill import Chunk, Skill
from intraskill.method.tasks import Task
from intraskill.runtime.demonstrations import Draw, draw_chunk, negated_chunk, shuffled_chunk
from intraskill.runtime.learner import Learner


@dataclass(frozen=True, slots=True)
class Probe:
    """One question.

    Attributes:
        name: what is shown.
        shown: rules whose chunks are shown.
        obeyed: rules that a reader follows.
        form: ``train`` or ``held_out`` phrasings, ``negated`` or ``shuffled`` ones.
    """

    name: str
    shown: tuple[str, ...]
    obeyed: tuple[str, ...]
    form: str = "held_out"


@dataclass(frozen=True, slots=True)
class Answer:
    """Agreement of N episodes.

    Attributes:
        same_episode: share of episodes whose every action is the shopper's.
        same_search: share whose first query is the shopper's.
        reward: mean reward of the policy.
        shopper_reward: mean reward of the shopper on the same tasks.
        episodes: N.
    """

    same_episode: float
    same_search: float
    reward: float
    shopper_reward: float
    episodes: int


def ask(learner: Learner, world: ShopWorld, probe: Probe, tasks: Sequence[Task], seed: int = 0) -> Answer:
    """Run one episode per task; a temperature near 0 gives the sharpest answer."""
    episodes = []
    for number, task in enumerate(tasks):
        draw = Draw(child_seed(seed, "probe", probe.name, number))
        skill = Skill("# Shopping skill", tuple(_chunk(rule, probe.form, draw) for rule in probe.shown))
        episodes.append(Episode(task, skill, frozenset(skill.ids), 0, child_seed(seed, task.id)))
    rollouts = learner.run(episodes)
    wanted = [shop(world, task.id, set(probe.obeyed)) for task in tasks]
    taken = [[turn.argument for turn in rollout.turns] for rollout in rollouts]
    return Answer(
        same_episode=fmean(own == actions for own, (actions, _) in zip(taken, wanted, strict=True)),
        same_search=fmean(own[:1] == actions[:1] for own, (actions, _) in zip(taken, wanted, strict=True)),
        reward=fmean(rollout.reward or 0.0 for rollout in rollouts),
        shopper_reward=fmean(parts[MAIN_PART] for _, parts in wanted),
        episodes=len(tasks),
    )


def shop(world: ShopWorld, task_id: str, rules: AbstractSet[str]) -> tuple[list[str], Mapping[str, float]]:
    """Return the scripted shopper's arguments and reward components on one task."""
    session = world.open()
    opening = session.reset(task_id)
    shopper, state, arguments = RuleShopper(opening, rules), dict(opening.state), []
    while True:
        call = shopper.act(state)
        arguments.append(call.argument)
        outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
        if outcome.done:
            return arguments, outcome.parts
        state = dict(outcome.state)


def _chunk(rule: str, form: str, draw: Draw) -> Chunk:
    if form == "negated":
        return negated_chunk(rule, draw)
    if form == "shuffled":
        return shuffled_chunk(rule, draw)
    return draw_chunk(rule, draw, held_out=form == "held_out")
