"""What an editor sees: prompts within their limit, drafts counted, evidence cut where one piece is too long."""

import pytest

from intraskill.editor.domains.planted import PlantedDomain
from intraskill.editor.evidence import EvidenceLimits, Unit
from intraskill.editor.prompt import PromptSize
from intraskill.editor.states import Chain, next_state
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import Chunk, Skill

WORDS = PromptSize(lambda text: len(text.split()), around=10)
SKILL = Skill("", (Chunk("One", "a b c"),))
DOMAIN = PlantedDomain(worlds=2, held_out=1)


def unit(number, words, drafts=()):
    return Unit(f"u{number}", "experience", " ".join(["w"] * words), (f"world-0/size/red/{number}",), drafts)


def state(units, tokens, batch=4, anchors=1):
    limits = EvidenceLimits(batch=batch, tokens=tokens)
    return next_state(Chain("c", SKILL, tuple(units)), DOMAIN, limits, WORDS, anchors=anchors, seed=0)


def test_as_many_pieces_as_the_prompt_holds_are_read_and_the_rest_waits():
    pieces = [unit(k, 20) for k in range(6)]
    assert len(state(pieces, 1000).units) == 4
    assert len(state(pieces, 70).units) == 2


def test_drafts_count_against_the_prompt():
    drafts = tuple(Chunk(f"Draft {k}", "x " * 29 + "x") for k in range(2))
    plain, drafted = [unit(k, 5) for k in range(4)], [unit(k, 5, drafts[k % 2 : k % 2 + 1]) for k in range(4)]
    assert len(state(plain, 70).units) == 4
    assert len(state(drafted, 70).units) == 1


@pytest.mark.parametrize("tokens", [40, 60, 100])
def test_evidence_longer_than_the_prompt_is_cut_marked_and_fits(tokens):
    found = state([unit(0, 500)], tokens)
    assert found.units[0].text.endswith("[…]")
    assert WORDS.of(SKILL, found.units, found.drafts) <= tokens


def test_a_skill_that_fills_the_prompt_is_refused():
    with pytest.raises(ConfigError, match="take [0-9]+ of editor.prompt_tokens=[0-9]+ and leave nothing for evidence"):
        state([unit(0, 5)], 15)


def test_anchors_are_drawn_by_address_and_at_most_as_many_as_named():
    pieces = [unit(k, 5) for k in range(4)]
    assert [q.id for q in state(pieces, 1000, anchors=2).anchors] == [
        q.id for q in state(pieces, 1000, anchors=2).anchors
    ]
    assert [len(state(pieces, 1000, anchors=k).anchors) for k in (1, 3, 9)] == [1, 3, 4]


def test_a_planted_failure_names_further_queries_of_its_topic_when_more_anchors_are_asked_for():
    one, four = (PlantedDomain(worlds=1, anchors=count).streams("train")[0].units for count in (1, 4))
    assert any(unit.anchors for unit in one)
    for alone, beside in zip(one, four, strict=True):
        assert (beside.id, beside.text, beside.drafts) == (alone.id, alone.text, alone.drafts)
        assert beside.anchors[:1] == alone.anchors == ((alone.id,) if alone.anchors else ())
        assert len(set(beside.anchors)) == (4 if alone.anchors else 0)
        topics = {PlantedDomain().query(name).facts["topic"] for name in beside.anchors}
        assert len(topics) <= 1
