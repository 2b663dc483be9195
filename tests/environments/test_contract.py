"""The contract check: what keeps the contract passes every rule, and each planted breach is named, alone."""

import dataclasses
import itertools
import sys
import threading
from pathlib import Path

import pytest

from intraskill.environments.contract import check_environment
from intraskill.environments.contract.check import RULES, violated
from intraskill.environments.contract.play import random_rollout, replay
from intraskill.environments.planted import PlantedWorld
from intraskill.environments.protocol import Outcome
from intraskill.environments.remote.shop import RemoteShop
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.session import ShopSession
from intraskill.environments.tool_calls import read_call
from intraskill.method.errors import EnvironmentFault, SplitError
from intraskill.method.tasks import Task

sys.path.append(str(Path(__file__).parents[2] / "docs" / "examples"))
from number_hunt import GUESS, NUMBERS, Hunt, NumberHunt  # noqa: E402

TICKS = itertools.count()
BREACHES = {}


def breach(rule, hunt=None):
    """Register a planted breach: an environment class, or a session class of `NumberHunt`."""

    def register(kind):
        name = kind.__name__
        world = kind
        if issubclass(kind, Hunt):
            world = type(name, (NumberHunt,), {"open": lambda self: kind(self)})
        BREACHES[name] = (rule, lambda: world("tiny"))
        return kind

    return register


def changed(outcome, **fields):
    return dataclasses.replace(outcome, **fields)


@breach("members")
class NoMainReward(NumberHunt):
    reward_parts = ("r_close",)


@breach("members")
class NoTerminate(Hunt):
    terminate = None


@breach("one_call")
class HalfACharacter(Hunt):
    def step(self, action):
        if "\\ud83d" in action:
            raise UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed")
        return super().step(action)


@breach("one_call")
class EndlessNesting(Hunt):
    def step(self, action):
        if "[" * 1000 in action:
            raise RecursionError("maximum recursion depth exceeded")
        return super().step(action)


@breach("splits")
class OneIdTwice(NumberHunt):
    def tasks(self, split):
        found = super().tasks(split)
        return (*found, Task("train-0", self.family, split)) if split == "audit" else found


@breach("splits")
class AnswersUnknownSplit(NumberHunt):
    def tasks(self, split):
        return super().tasks(split if split in ("train", "audit", "test", "model_dev", "skill_validation") else "train")


@breach("splits")
class NumbersAsFeatures(NumberHunt):
    def tasks(self, split):
        return tuple(Task(t.id, t.family, t.split, {"length": 3}) for t in super().tasks(split))


@breach("version")
class VersionOfTheHour(NumberHunt):
    def __init__(self, preset):
        super().__init__(preset)
        self.version = f"build-{next(TICKS)}"


@breach("tools")
class ToolWithoutItsWrapper(NumberHunt):
    tools = [GUESS]


@breach("tools")
class ToolRequiresWhatItHasNot(NumberHunt):
    tools = [{"type": "function", "function": GUESS | {"parameters": GUESS["parameters"] | {"required": ["guess"]}}}]


@breach("opening")
class EmptyRequest(Hunt):
    def reset(self, task_id):
        return changed(super().reset(task_id), instruction=" ")


@breach("single_use")
class UsedTwice(Hunt):
    def reset(self, task_id):
        self.hidden = None
        return super().reset(task_id)


@breach("single_use")
class StepsBeforeReset(Hunt):
    def step(self, action):
        self.hidden = self.hidden or 1
        return super().step(action)


@breach("unknown_task")
class InventsTasks(Hunt):
    def reset(self, task_id):
        try:
            return super().reset(task_id)
        except SplitError:
            return super().reset("train-0")


@breach("unknown_task")
class KeyErrorForUnknownTask(Hunt):
    def reset(self, task_id):
        _ = {"train-0": 1}[task_id] if task_id not in self.world.ids else 0
        return super().reset(task_id)


@breach("over")
class GoesOnAfterTheEnd(Hunt):
    def step(self, action):
        self.over = False
        return super().step(action)


@breach("one_call")
class TakesTheFirstOfTwoCalls(Hunt):
    def step(self, action):
        first, end, _ = action.partition("</tool_call>")
        return super().step(first + end)


@breach("one_call")
class RaisesOnBrokenJson(Hunt):
    def step(self, action):
        if read_call(action, {"guess": "number"}) == "invalid_format" and "<tool_call>" in action:
            raise ValueError("not JSON")
        return super().step(action)


@breach("one_call")
class OneCodeForAll(Hunt):
    def outcome(self, feedback, *rest):
        return super().outcome("invalid_format" if feedback == "empty_argument" else feedback, *rest)


@breach("wrong_action")
class RaisesOnUnavailableValue(Hunt):
    def step(self, action):
        call = read_call(action, {"guess": "number"})
        if not isinstance(call, str):
            {number: 1 for number in NUMBERS}[call.argument]
        return super().step(action)


@breach("wrong_action")
class MovesOnAWrongAction(Hunt):
    def outcome(self, feedback, *rest):
        if feedback not in ("executed", ""):
            self.hint = "think harder"
        return super().outcome(feedback, *rest)


@breach("wrong_action")
class AcceptsWhatIsNotListed(Hunt):
    def step(self, action):
        outcome = super().step(action)
        return changed(outcome, feedback="executed") if outcome.feedback == "unavailable_action" else outcome


class StateOf(Hunt):
    more: dict[str, object] = {}

    def outcome(self, *arguments):
        outcome = super().outcome(*arguments)
        return changed(outcome, state={**outcome.state, **self.more})


@breach("json_state")
class TupleInState(StateOf):
    more = {"range": (1, 30)}


@breach("json_state")
class SetInState(StateOf):
    more = {"seen": {1, 2}}


@breach("private_state")
class GoalInState(StateOf):
    more = {"notes": [{"goalOptions": "7"}]}


@breach("unnamed")
class NumbersItsUsers(Hunt):
    """One task of many, which a few random episodes would miss."""

    def reset(self, task_id):
        last = self.world.tasks("audit")[-1].id
        persona = "年龄: 30\n用户ID: U111111111111" if task_id == last else None
        return changed(super().reset(task_id), persona=persona)


@breach("private_text")
class FieldNameInPage(Hunt):
    def step(self, action):
        outcome = super().step(action)
        return changed(outcome, observation=f"{outcome.observation} reason_key: 7")


@breach("running")
class PaysOnTheWay(Hunt):
    def step(self, action):
        outcome = super().step(action)
        return outcome if outcome.done else changed(outcome, reward=0.1)


class PaidAs(Hunt):
    def step(self, action):
        outcome = super().step(action)
        return changed(outcome, **self.pay(outcome)) if outcome.done else outcome


@breach("payment")
class LosesAPart(PaidAs):
    def pay(self, outcome):
        return {"parts": {"r_strict": outcome.reward}}


@breach("payment")
class PaysNan(PaidAs):
    def pay(self, outcome):
        return {"parts": {**outcome.parts, "r_close": float("nan")}}


@breach("payment")
class PaysTwo(PaidAs):
    def pay(self, outcome):
        return {"reward": 2.0, "parts": {**outcome.parts, "r_strict": 2.0}}


@breach("payment")
class RewardIsNotItsPart(PaidAs):
    def pay(self, outcome):
        return {"reward": 0.5}


@breach("terminate")
class PaysTheLimit(Hunt):
    def terminate(self, reason):
        return changed(super().terminate(reason), parts={"r_strict": 0.0, "r_close": 1.0})


@breach("terminate")
class ForgetsTheReason(Hunt):
    def terminate(self, reason):
        return changed(super().terminate(reason), termination="stopped")


@breach("same_reset")
class OpensDifferently(Hunt):
    def reset(self, task_id):
        return changed(super().reset(task_id), observation=f"visitor {next(TICKS)}")


@breach("same_steps")
class AnswersDifferently(Hunt):
    def step(self, action):
        return changed(super().step(action), observation=f"{self.hint} {next(TICKS)}")


@breach("interleaved")
class SharesItsSecret(Hunt):
    def reset(self, task_id):
        opening = super().reset(task_id)
        self.world.hidden = self.hidden
        return opening

    def step(self, action):
        if self.hidden is not None:
            self.hidden = self.world.hidden
        return super().step(action)


@breach("threads")
class BoundToItsThread(Hunt):
    owner = threading.get_ident()

    def step(self, action):
        if threading.get_ident() != self.owner:
            raise RuntimeError("this connection was made in another thread")
        return super().step(action)


@breach("snapshot")
class SnapshotIsAnAlias(Hunt):
    def snapshot(self):
        return self.__dict__

    def restore(self, kept):
        self.__dict__ = kept


@pytest.mark.parametrize("name", BREACHES)
def test_a_planted_breach_is_named_and_nothing_else_is(name):
    rule, build = BREACHES[name]
    findings = check_environment(build(), again=build)
    assert violated(findings) == [rule]
    found = next(finding for finding in findings if finding.rule == rule)
    assert found.what and found.remedy and found.promise


def test_every_rule_has_a_planted_breach():
    assert {rule for rule, _ in BREACHES.values()} == {rule.name for rule in RULES}


def test_what_keeps_the_contract_passes_every_rule():
    shop = lambda: ShopWorld("tiny", 0, language="plain", page_size=4)  # noqa: E731
    findings = check_environment(shop(), again=shop)
    assert {(finding.rule, finding.status) for finding in findings} == {(rule.name, "ok") for rule in RULES}


@pytest.mark.parametrize("options", [{"language": "en"}, {"language": "zh", "renderer": "sep"}])
def test_other_languages_and_renderers_keep_it_too(options):
    assert violated(check_environment(ShopWorld("tiny", 1, **options), tasks=3)) == []


def test_a_world_without_tools_is_told_so_and_otherwise_passes():
    findings = check_environment(PlantedWorld(), again=PlantedWorld)
    assert violated(findings) == []
    assert {f.rule for f in findings if f.status == "skipped"} == {"tools", "one_call", "snapshot"}


class NamesItsGold(ShopSession):
    def reset(self, task_id):
        opening = super().reset(task_id)
        gold = self._world.shop_task(task_id).goal.product_id
        return changed(opening, instruction=f"{opening.instruction} ({gold})")


class HintsAtItsGold(ShopSession):
    def step(self, action):
        outcome = super().step(action)
        gold = self._world.shop_task(self._task_id).goal.product_id
        return changed(outcome, observation=f"{outcome.observation}\n{gold}")


class SaysEverything(ShopSession):
    def reset(self, task_id):
        return changed(super().reset(task_id), instruction=self._world.shop_task(task_id).instruction)


class PagesSayEverything(ShopSession):
    def step(self, action):
        outcome = super().step(action)
        return changed(
            outcome, observation=f"{outcome.observation}\n{self._world.shop_task(self._task_id).instruction}"
        )


class TitlesItsGold(ShopSession):
    def step(self, action):
        outcome = super().step(action)
        title = self._world.shop_task(self._task_id).goal.title
        return changed(outcome, observation=f"{outcome.observation}\n{title}")


class ForgetsOptions(ShopSession):
    def restore(self, snapshot):
        super().restore(dataclasses.replace(snapshot, page="search_home"))


@pytest.mark.parametrize(
    ("session", "rule"),
    [
        (NamesItsGold, "private_text"),
        (HintsAtItsGold, "private_text"),
        (SaysEverything, "private_text"),
        (PagesSayEverything, "private_text"),
        (TitlesItsGold, "private_text"),
        (ForgetsOptions, "snapshot"),
    ],
)
def test_a_shop_that_gives_its_gold_product_away_is_caught(session, rule):
    world = type("Leaky", (ShopWorld,), {"open": lambda self: session(self)})("tiny", 0)
    assert violated(check_environment(world)) == [rule]


def test_the_openings_of_all_tasks_are_read_for_product_ids_and_three_are_named():
    shop = ShopWorld("tiny", 0, language="zh")
    for task in list(shop._tasks.values())[-5:]:
        shop._tasks[task.id] = dataclasses.replace(task, persona=f"年龄：30\n备注：U{task.goal.product_id.lower()}")
    (finding,) = [one for one in check_environment(shop, tasks=1) if one.rule == "unnamed"]
    assert (finding.status, finding.where) == ("violated", "of all 60 tasks")
    assert finding.what.startswith("show a product id, 5: shop-") and finding.what.count("shop-") == 3


def test_a_rule_that_builds_on_a_broken_one_is_skipped_and_says_so():
    _, build = BREACHES["OpensDifferently"]
    found = {finding.rule: finding for finding in check_environment(build())}
    assert found["same_steps"].status == found["threads"].status == "skipped"
    assert "same_reset" in found["same_steps"].what and found["json_state"].status == "ok"


def test_a_server_that_is_down_breaks_no_rule():
    with pytest.raises(EnvironmentFault, match="start the server"):
        check_environment(RemoteShop(url="http://127.0.0.1:9", retries=0))
    down = type("Down", (NumberHunt,), {"version": property(lambda self: 1 / 0), "__init__": lambda self: None})()
    assert violated(check_environment(down)) == ["members"]


def test_no_test_task_is_ever_opened():
    opened = []

    class Noted(Hunt):
        def reset(self, task_id):
            opened.append(task_id)
            return super().reset(task_id)

    world = type("Watched", (NumberHunt,), {"open": lambda self: Noted(self)})("tiny")
    assert violated(check_environment(world, tasks=40)) == []
    assert len(set(opened)) > 40 and not [task_id for task_id in opened if task_id.startswith("test-")]


def test_the_same_seed_plays_the_same_episode_and_another_seed_another():
    world = ShopWorld("tiny", 0)
    task_id = world.tasks("train")[0].id
    assert (
        random_rollout(world, task_id, 1)
        == random_rollout(world, task_id, 1)
        == replay(world, random_rollout(world, task_id, 1))
    )
    assert random_rollout(world, task_id, 1).actions != random_rollout(world, task_id, 2).actions


def test_an_outcome_of_another_type_is_reported():
    class Bare(Hunt):
        def step(self, action):
            outcome = super().step(action)
            return changed(outcome, tool=None) if isinstance(outcome, Outcome) else outcome

    world = type("Untyped", (NumberHunt,), {"open": lambda self: Bare(self)})("tiny")
    assert violated(check_environment(world)) == ["running"]
