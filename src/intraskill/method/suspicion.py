"""Which chunks look harmful in training: DELETE proposals from randomised contexts (method §6.3).

A chunk's visibility in an assisted group was drawn at random before training, so shown against hidden is a fair
comparison, unlike failures alone, which are selected by their reward. It is still a suspicion: the gate decides.
"""

import math
from collections.abc import Sequence
from statistics import fmean, variance

from intraskill.method.proposals import Proposal
from intraskill.method.rollouts import GroupResult
from intraskill.method.skill import Skill

MIN_GROUPS_PER_SIDE = 8
STANDARD_ERRORS = 2.0


def suspect_harm(results: Sequence[GroupResult], skill: Skill) -> tuple[Proposal, ...]:
    """Propose DELETE for every chunk whose groups earn less by more than two standard errors.

    The unit is the group: its mean reward, since its G rollouts share a task and a context. Skill-free groups are left
    out, because in them every other chunk is hidden too.

    Args:
        results: the round's training groups.
        skill: S_t, the skill that they were drawn from.
    """
    assisted = [result for result in results if result.group.kind != "skill_free" and result.rewards]
    proposals = []
    for chunk in skill.chunks:
        shown = [fmean(result.rewards) for result in assisted if chunk.id in result.group.visible]
        hidden = [fmean(result.rewards) for result in assisted if chunk.id not in result.group.visible]
        if min(len(shown), len(hidden)) < MIN_GROUPS_PER_SIDE:
            continue
        error = math.sqrt(variance(shown) / len(shown) + variance(hidden) / len(hidden))
        difference = fmean(shown) - fmean(hidden)
        if difference < -STANDARD_ERRORS * error:
            cause = f"shown minus hidden {difference:+.3f} ± {error:.3f} over {len(shown)} and {len(hidden)} groups"
            support = tuple(result.group.id for result in assisted if chunk.id in result.group.visible)
            proposals.append(Proposal("DELETE", (chunk.id,), (), cause, support, "groups without it earn more"))
    return tuple(proposals)
