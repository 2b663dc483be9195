"""The rule-based proposer names the first responsible decision, from public evidence only."""

import dataclasses

import pytest
from shop_rollouts import SOLVED, failed, on_product, open_result, play, product, rollout, search

from intraskill.environments.shop_evidence.diagnosis import MAX_LESSONS_PER_SUCCESS, diagnose, explain_success
from intraskill.environments.shop_evidence.purchases import find_purchase, instruction_and_persona, read_vocabulary
from intraskill.environments.shop_evidence.reader import ShopReader
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL, lesson_chunk, mechanism_of, phrasings
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.proposers.analysis_records import rollout_id
from intraskill.proposers.rules import RulesProposer

REQUEST = "Find a waterproof wool jacket in red, at most $40.\nProfile: likes nova; wears small; plays chess."
AXES = {"color": ["blue", "red"], "size": ["large", "small"]}
RIGHT = product("b100", "nova", ["wool", "waterproof"])
PLAIN = product("b200", "nova", ["cotton", "washable"], rank=2)
OTHER_BRAND = product("b300", "orbit", ["wool", "waterproof"], rank=3)
MUG = product("b400", "nova", ["wool", "waterproof"], noun="mug", rank=4)
ROWS = [RIGHT, PLAIN, OTHER_BRAND, MUG]
WISE_QUERY = "nova waterproof wool jacket"


def bought(row, parts, query=WISE_QUERY, color="red", size="small", before=()):
    turns = [
        *before,
        search(query),
        open_result(row["id"], ROWS),
        on_product(f"color={color}", row, AXES, {}),
        on_product(f"size={size}", row, AXES, {"color": color}),
        on_product("buy now", row, AXES, {"color": color, "size": size}),
    ]
    return rollout(REQUEST, turns, parts)


RULES = RulesProposer(ShopReader("plain"))
DEAR = product("b500", "nova", ["wool", "waterproof"], price=50.0, rank=5)


def prices():
    """Six purchases within the budget that succeeded, six beyond it that failed."""
    sides = [bought(RIGHT, SOLVED)] * 6 + [bought(DEAR, failed(r_price=0.0))] * 6
    return [dataclasses.replace(one, task_id=f"price-{number}") for number, one in enumerate(sides)]


def first_cause(one):
    finding = diagnose(one, read_vocabulary([one]))
    return finding and (finding.mechanism, finding.turn)


def recorded(number: int, reward: float, termination: str = "executed"):
    """An episode as a server's log has it: pages as text, the state holding nothing but that text."""
    pages = ["[SEP] 搜索 [SEP] 搜索功能是否可用: True", "商品标题: 保温杯 价格（¥59.00） 颜色分类: 米白 | 墨绿"]
    turns = tuple(
        dataclasses.replace(turn, state={"observation": page}, feedback=termination)
        for turn, page in zip([search("保温杯"), search("保温杯 墨绿")], pages, strict=True)
    )
    one = rollout(REQUEST, turns, {"r_strict": reward, "r_success": reward})
    return dataclasses.replace(one, task_id=f"recorded-{number}", reward=reward)


def test_pages_that_are_text_alone_teach_no_rule_anything():
    logs = [recorded(number, reward=float(number < 3)) for number in range(40)]
    found = RULES.analyse(logs, Skill(""))
    assert found.proposals == () and found.counts["unreadable"] == 40
    assert all(record.proposed == () for record in found.records)
    mixed = RULES.analyse([*prices(), *logs], Skill(""))
    assert mixed.counts["unreadable"] == 40 and mixed.proposals == RULES.analyse(prices(), Skill("")).proposals != ()


def test_a_query_without_the_requested_features_is_the_first_cause() -> None:
    one = bought(PLAIN, failed(r_att=0.5), query="nova jacket")
    assert first_cause(one) == ("search_features", 0)
    assert diagnose(one, read_vocabulary([one])).evidence == "not in the query: waterproof, wool"


def test_a_query_without_the_persona_brand_is_the_cause_when_the_features_are_there() -> None:
    assert first_cause(bought(OTHER_BRAND, failed(r_att=0.5), query="waterproof wool jacket")) == ("search_persona", 0)


def test_a_feature_that_the_product_has_anyway_is_no_cause() -> None:
    assert first_cause(bought(RIGHT, failed(r_att=0.5), query="jacket")) is None


def test_a_full_query_leaves_a_missed_attribute_unexplained() -> None:
    assert first_cause(bought(PLAIN, failed(r_att=0.5))) is None


def test_another_value_than_the_requested_one_is_the_cause_where_it_was_chosen() -> None:
    assert first_cause(bought(RIGHT, failed(r_option=0.5), color="blue")) == ("option_request", 2)


def test_another_value_than_the_persona_wants_is_the_cause_where_it_was_chosen() -> None:
    assert first_cause(bought(RIGHT, failed(r_option=0.5), size="large")) == ("option_persona", 3)


def test_a_value_that_is_not_on_offer_is_no_cause() -> None:
    one = bought(RIGHT, failed(r_option=0.5), color="blue")
    turns = tuple(
        dataclasses.replace(t, state={**t.state, "available_options": {"color": ["blue", "pink"]}}) for t in one.turns
    )
    assert first_cause(dataclasses.replace(one, turns=turns)) is None


def test_the_explicit_request_overrides_the_persona() -> None:
    one = bought(RIGHT, failed(r_option=0.5), color="blue")
    conflicting = dataclasses.replace(one, request=REQUEST.replace("plays chess", "often picks blue"))
    assert first_cause(conflicting) == ("option_request", 2)


def test_a_purchase_beyond_the_budget_is_the_cause_at_the_purchase() -> None:
    assert first_cause(bought(RIGHT, failed(r_price=0.0))) == ("price_check", 4)


def test_a_product_of_another_kind_is_the_cause_where_it_was_opened() -> None:
    assert first_cause(bought(MUG, failed(r_type=0.0))) == ("wrong_type", 1)


def test_an_invalid_action_is_the_cause_only_when_nothing_else_is() -> None:
    stumble = (search("", feedback="empty_argument"),)
    assert first_cause(rollout(REQUEST, [*stumble, search("jacket")], failed(r_att=0.0))) == ("invalid_action", 0)
    assert first_cause(bought(RIGHT, failed(r_price=0.0), before=stumble)) == ("price_check", 5)


def test_an_episode_without_a_purchase_ran_into_the_limit() -> None:
    assert first_cause(rollout(REQUEST, [search("jacket")], failed(r_att=0.0))) == ("action_limit", 0)


def test_an_episode_without_turns_has_no_cause() -> None:
    assert first_cause(rollout(REQUEST, [], failed(r_att=0.0))) is None


def test_the_first_cause_hides_the_later_ones() -> None:
    everything = failed(r_att=0.0, r_option=0.0, r_price=0.0, r_type=0.0)
    assert first_cause(bought(PLAIN, everything, query="jacket", color="blue", size="large"))[0] == "search_features"
    everything["r_att"] = 1.0
    assert first_cause(bought(PLAIN, everything, query="jacket", color="blue", size="large"))[0] == "wrong_type"


def test_the_persona_begins_after_the_first_line_of_the_request() -> None:
    instruction, persona = instruction_and_persona(REQUEST)
    assert "red" in instruction and "nova" not in instruction
    assert "nova" in persona and "red" not in persona


def test_a_purchase_records_its_search_its_rank_and_its_choices() -> None:
    purchase = find_purchase(bought(OTHER_BRAND, SOLVED))
    assert (purchase.search_turn, purchase.open_turn, purchase.rank, purchase.buy_turn) == (0, 1, 3, 4)
    assert find_purchase(rollout(REQUEST, [search("jacket")], failed())) is None


def test_a_success_teaches_at_most_three_lessons_each_at_its_turn() -> None:
    lessons = explain_success(one := bought(RIGHT, SOLVED), read_vocabulary([one]))
    assert [(f.mechanism, f.turn) for f in lessons] == [
        ("search_features", 0),
        ("search_persona", 0),
        ("option_request", 2),
    ]
    assert len(lessons) == MAX_LESSONS_PER_SUCCESS


def test_a_success_also_teaches_a_superstition_that_the_gate_must_refuse() -> None:
    one = bought(MUG, SOLVED, query="jacket")
    assert ("open_last", 1) in [(f.mechanism, f.turn) for f in explain_success(one, read_vocabulary([one]))]


def proposals_for(one, skill):
    """Proposals that one rollout supports in a company that shows both sides of the price."""
    made = RULES.analyse([one, *prices()], skill).proposals
    return tuple(proposal for proposal in made if rollout_id(one) in proposal.support)


def test_an_uncovered_mechanism_becomes_an_add() -> None:
    (proposal,) = proposals_for(bought(RIGHT, failed(r_price=0.0)), Skill("p"))
    assert (proposal.op, proposal.chunks) == ("ADD", (lesson_chunk("price_check"),))
    assert proposal.support[0].startswith("t1#0@")


def test_a_shown_chunk_that_did_not_help_becomes_a_rewrite_and_a_hidden_one_nothing() -> None:
    old = lesson_chunk("price_check")
    one = bought(RIGHT, failed(r_price=0.0))
    shown = dataclasses.replace(one, visible=frozenset({old.id}))
    (proposal,) = proposals_for(shown, Skill("p", (old,)))
    assert (proposal.op, proposal.targets, proposal.chunks) == ("REWRITE", (old.id,), (lesson_chunk("price_check", 1),))
    assert proposals_for(one, Skill("p", (old,))) == ()


def test_a_chunk_in_any_phrasing_of_the_catalogue_covers_its_mechanism() -> None:
    assert mechanism_of(Chunk("Whatever", phrasings("option_request")[0][3])) == "option_request"
    assert mechanism_of(Chunk("Color", "Select something else.")) is None


def test_a_faulted_rollout_is_counted_and_never_read() -> None:
    broken = dataclasses.replace(bought(RIGHT, failed(r_price=0.0)), reward=None, fault="timeout")
    analysis = RULES.analyse([broken], Skill("p"))
    assert analysis.proposals == () and analysis.counts["faults"] == 1


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("tiny", page_size=5, language="plain")


@pytest.mark.parametrize("left_out", USEFUL)
def test_in_the_real_shop_the_rule_that_was_not_obeyed_is_the_one_that_is_found(
    world: ShopWorld, left_out: str
) -> None:
    rules = set(USEFUL) - {left_out}
    played = [play(world, task.id, rules) for task in world.tasks("train")]
    vocabulary = read_vocabulary(played)
    found = [f.mechanism for one in played if not one.parts["r_success"] and (f := diagnose(one, vocabulary))]
    assert found.count(left_out) >= 3
    others = set(found) - {left_out, "price_check"}
    assert not others & set(USEFUL), f"blamed {others} although they were obeyed"
