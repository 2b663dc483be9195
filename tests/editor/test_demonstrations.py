"""Traces of the warm start: every answer is valid where it is given and makes the skill that comes next."""

from dataclasses import replace
from functools import partial

import pytest
from editor.editing import planted_editing
from editor.scripted import HELPFUL, SKILL, WrittenDomain, unit

from intraskill.editor.actions import ACTIONS, attempt
from intraskill.editor.domain import Stream
from intraskill.editor.domains.planted import PlantedDomain
from intraskill.editor.evidence import EvidenceLimits
from intraskill.editor.prompt import PromptSize
from intraskill.editor.states import EditState, begin
from intraskill.editor.tiny.traces import best_answer, demonstrate, demonstrated, possible_answers
from intraskill.editor.warm_start import synthetic_traces
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.skill import Skill

WORDS, LEAK_FILTER = PromptSize(lambda text: len(text.split())), LeakFilter()
NO_NOOP = tuple(name for name in ACTIONS if name != "NOOP")
SUBSETS = [ACTIONS, NO_NOOP, ("CREATE", "UPDATE", "NOOP"), ("CREATE", "UPDATE", "MERGE")]


def passes(actions, careless, worlds=6):
    """Yield every world's chain and its traces."""
    domain = PlantedDomain(worlds=worlds, units=8)
    for stream in domain.streams("train"):
        value, chain = domain.value(stream.id), begin(stream, 0, order="source", seed=0)
        show = partial(demonstrate, value=value, leak_filter=LEAK_FILTER, careless=careless, seed=0, actions=actions)
        yield chain, list(demonstrated(chain, domain, EvidenceLimits(batch=2), WORDS, show))


@pytest.mark.parametrize("careless", [0.0, 0.5])
@pytest.mark.parametrize("actions", SUBSETS, ids=" ".join)
def test_a_traces_answer_is_valid_in_its_state_and_makes_the_recorded_next_skill(actions, careless):
    seen = 0
    for chain, traces in passes(actions, careless):
        skill = chain.skill
        for trace in traces:
            state = trace.state
            assert state.skill == skill, "a step begins where the last one ended"
            made = attempt(trace.answer, skill, LEAK_FILTER, drafts=state.drafts, actions=actions)
            assert (made.invalid, made.skill) == ("", trace.skill), trace.answer
            assert trace.answer in possible_answers(skill, state.drafts, actions)
            skill, seen = trace.skill, seen + 1
        if "NOOP" in actions:
            assert [one for trace in traces for one in trace.state.units] == list(chain.rest)
    assert seen > 10


def test_the_best_answer_is_the_best_of_all_valid_ones():
    domain = PlantedDomain(worlds=3, units=6)
    for chain, traces in passes(ACTIONS, 0.0, worlds=3):
        value = domain.value(chain.id.split("/")[0])
        for trace in traces:
            answers = possible_answers(trace.state.skill, trace.state.drafts)
            made = [attempt(text, trace.state.skill, LEAK_FILTER, drafts=trace.state.drafts) for text in answers]
            most = max(value(one.skill) for one in made if not one.invalid)
            assert value(trace.skill) > most - 0.02 - 1e-9


def test_where_no_action_is_possible_there_is_no_answer_and_no_trace():
    state = EditState("s", Skill(""), (unit(0),), ())
    assert best_answer(state, lambda skill: 0.0, LEAK_FILTER, ("CREATE", "PRUNE"))[0] == ""
    stream = Stream("s", (unit(0), unit(1, drafts=(HELPFUL,))), Skill(""))
    chain = begin(stream, 0, order="source", seed=0)
    show = partial(
        demonstrate, value=lambda s: len(s.chunks), leak_filter=LEAK_FILTER, careless=0.0, seed=0, actions=("CREATE",)
    )
    found = list(demonstrated(chain, WrittenDomain(), EvidenceLimits(batch=1), WORDS, show))
    assert [(trace.answer, trace.skill.chunks) for trace in found] == [("CREATE\ndraft 1", (HELPFUL,))]


def test_a_demonstrator_never_takes_what_the_leak_filter_refuses():
    leak = replace(HELPFUL, body="Buy B0ABCDEFGH before all else.")
    from intraskill.method.leakage.filter import Secrets

    wall = LeakFilter(Secrets(product_ids=("B0ABCDEFGH",)))
    state = EditState("s", SKILL, (unit(0, drafts=(leak, HELPFUL)),), ())
    answer, made = best_answer(state, lambda skill: 2.0 * (leak in skill.chunks) + (HELPFUL in skill.chunks), wall)
    assert "draft 2" in answer
    assert HELPFUL in made.skill.chunks


def test_synthetic_traces_without_any_possible_edit_are_one_error_and_not_an_endless_search(editing_place):
    config = planted_editing(editing_place, "none")
    config.editor.options = {"worlds": 1, "held_out": 1, "units": 1, "seed": 4}
    config.editor.actions = ["CREATE"]
    pieces = PlantedDomain(worlds=1, units=1, seed=4).streams("train")[0].units
    assert not pieces[0].drafts, "the premise: this world brings no draft"
    with pytest.raises(ConfigError, match=r"no edit of editor\.actions=CREATE fits any train state"):
        synthetic_traces(config, 3, careless=0.0, root=editing_place)
