"""What runs beside an episode changes no token of it, and no prompt or observation is forwarded twice."""

import pytest
from rl.test_trainer import SETTINGS, groups_of, learner
from rl.toy import SKILL, CountingWorld, config_of, episode

from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import BARE
from intraskill.rl.policy import Policy, load_policy
from intraskill.rl.trainer import TorchLearner, given_tokens

LOGPROB_TOLERANCE = 1e-5
PREFILL_LIMIT = 1.05
EPISODES = [
    episode(task_id, sample, visible)
    for task_id in ("bbb", "ccccc", "ddddddd")
    for visible in (BARE, frozenset(SKILL.ids))
    for sample in range(4)
]


def run(policy: Policy, order: list[int], **changes) -> list[Rollout]:
    """Run the episodes in some order and company; return them in their own order."""
    student = TorchLearner(policy, CountingWorld(), config_of(**SETTINGS | changes))
    found = dict(zip(order, student.run([EPISODES[k] for k in order]), strict=True))
    return [found[k] for k in range(len(EPISODES))]


def differences(ours: list[Rollout], theirs: list[Rollout]) -> tuple[int, float]:
    """Return how many rollouts differ in a token, and the largest difference of a log-probability in the others."""
    same = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.token_ids == b.token_ids]
    gaps = [abs(x - y) for a, b in same for x, y in zip(a.logprobs, b.logprobs, strict=True)]
    return len(ours) - len(same), max(gaps, default=0.0)


@pytest.mark.parametrize("changes", [{"batch": 1}, {"batch": 7}, {"batch": 5, "workers": 2}])
def test_the_same_seeds_give_the_same_tokens_in_any_company(model_dir, changes: dict[str, int]) -> None:
    policy = load_policy(model_dir)
    count = len(EPISODES)
    together = run(policy, list(range(count)))
    shuffled = run(policy, sorted(range(count), key=lambda k: (7 * k) % count), **changes)
    changed, gap = differences(together, shuffled)
    assert changed == 0
    assert gap <= LOGPROB_TOLERANCE
    warmer = run(policy, list(range(count)), temperature=1.1)
    assert differences(together, warmer)[0] > 0, "the comparison sees a difference"


def test_an_update_reports_that_next_to_nothing_was_prefilled_twice(model_dir) -> None:
    together = learner(model_dir, batch=64)
    groups = groups_of(together)
    ratio = together.update(groups)["rollout/prefill_ratio"]
    given = given_tokens([rollout for group in groups for rollout in group.rollouts])
    assert 1 <= ratio <= PREFILL_LIMIT
    assert ratio == together.engine.prefilled / given
    alone = learner(model_dir, batch=1)
    assert alone.update(groups_of(alone))["rollout/prefill_ratio"] > PREFILL_LIMIT, "no company, nothing to share"
