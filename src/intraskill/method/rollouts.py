"""Records of what a policy did: turns, rollouts, groups (method §5).

Shape letters: G rollouts of a group, T tokens after the prompt.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from intraskill.method.skill.skill import Skill, Visible
from intraskill.method.tasks import Task

ContextKind = Literal["skill_free", "assisted", "assisted_empty"]


@dataclass(frozen=True, slots=True)
class Group:
    """One GRPO group: a task and the one context that all its rollouts see (method §5.1).

    Attributes:
        id: address of the group in its round, such as ``r003/s0007/g02``.
        round_index: outer-loop round t.
        step: optimizer step inside the round.
        slot: position inside the step; slots past the needed number are the oversample and refill reserve.
        task: a train task.
        kind: ``assisted_empty`` is an assisted group whose draw shows no chunk; it is not a skill-free group.
        visible: the chunks shown.
    """

    id: str
    round_index: int
    step: int
    slot: int
    task: Task
    kind: ContextKind
    visible: Visible


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and what the environment publicly answered; the proposer's evidence.

    Attributes:
        page: page type before the action.
        action: the text that the policy produced.
        tool: parsed tool name, ``""`` when the text was not one valid call.
        argument: parsed argument.
        feedback: the environment's feedback code, such as ``executed``.
        state: the public observation state BEFORE the action.
    """

    page: str
    action: str
    tool: str
    argument: str
    feedback: str
    state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode, token-exact.

    Attributes:
        task_id: the task.
        visible: chunks shown in its prompt.
        checkpoint: hash of the weights that produced it.
        sample: index among rollouts of the same task and context.
        prompt_ids: tokens of system prompt, skill, persona, first page; identical for all rollouts of a group.
        token_ids: (T,) every later token, actions and observations, append-only.
        loss_mask: (T,) 1 on tokens that the policy sampled.
        logprobs: (T,) log-probability under the sampling distribution; 0.0 where ``loss_mask`` is 0.
        reward: main reward; ``None`` exactly when ``fault`` is set. A fault is never reward 0.
        parts: every reward component, such as ``r_att``.
        fault: what broke technically, or ``None``.
        attempts: how often the episode was run; every attempt but the last broke.
        truncated: the episode ended by a length or action limit.
        request: the public task text (instruction and persona).
        turns: public log.
    """

    task_id: str
    visible: Visible
    checkpoint: str
    sample: int
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    fault: str | None = None
    attempts: int = 1
    truncated: bool = False
    request: str = ""
    turns: tuple[Turn, ...] = ()

    def __post_init__(self) -> None:
        if (self.reward is None) != (self.fault is not None):
            raise ValueError(f"rollout of {self.task_id}: reward is None exactly when a fault is set")
        if not len(self.token_ids) == len(self.loss_mask) == len(self.logprobs):
            raise ValueError(f"rollout of {self.task_id}: token_ids, loss_mask and logprobs differ in length")


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A group and its G rollouts, faulted ones included."""

    group: Group
    rollouts: tuple[Rollout, ...]

    @property
    def rewards(self) -> tuple[float, ...]:
        """Rewards of the rollouts without a fault, (≤ G,)."""
        return tuple(r.reward for r in self.rollouts if r.reward is not None)

    @property
    def faulted(self) -> bool:
        """Whether a rollout broke; such a group is never trained on."""
        return len(self.rewards) < len(self.rollouts)


@dataclass(frozen=True, slots=True)
class Episode:
    """One rollout to run.

    Attributes:
        task: the task.
        skill: the pool of chunks that ``visible`` refers to.
        visible: chunks to show; empty means the bare context.
        sample: index among rollouts of the same task and context.
        seed: seed of this episode's own generator (`randomness.child_seed`), so that its tokens depend on no
            other episode.
    """

    task: Task
    skill: Skill
    visible: Visible
    sample: int
    seed: int
