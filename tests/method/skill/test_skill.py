"""Laws 1 and 2: the skill survives its file, ids depend on text only, rendering shows exactly what is visible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from method_records import ids, skill

from intraskill.method.errors import SkillFormatError
from intraskill.method.skill.skill import BARE, Chunk, Skill, parse_skill

LINES = st.one_of(
    st.sampled_from(
        ["", "### Heading", "## Lower", "```", "````", "~~~", "```python", "  ```", "```x```", "- item", "#"]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12),
)
BODIES = st.lists(LINES, max_size=7).map("\n".join)


@st.composite
def legal_skills(draw: st.DrawFn) -> Skill:
    """Any skill that the constructors accept."""
    chunks: dict[str, Chunk] = {}
    for title, body in draw(st.lists(st.tuples(LINES, BODIES), max_size=4)):
        try:
            made = Chunk(title.strip(), body.strip())
        except SkillFormatError:
            continue
        chunks[made.id] = made
    try:
        return Skill(draw(BODIES).strip(), tuple(chunks.values()))
    except SkillFormatError:
        return Skill("", tuple(chunks.values()))


@given(legal_skills())
def test_every_legal_skill_survives_its_file(any_skill: Skill) -> None:
    assert parse_skill(any_skill.to_markdown()) == any_skill
    if any_skill.chunks:
        assert parse_skill(any_skill.render()) == any_skill


@given(legal_skills(), st.data())
def test_rendering_shows_exactly_the_visible_chunks_in_document_order(any_skill: Skill, data: st.DataObject) -> None:
    visible = frozenset(data.draw(st.lists(st.sampled_from(any_skill.ids)))) if any_skill.ids else BARE
    shown = parse_skill(any_skill.render(visible))
    assert shown.ids == tuple(chunk_id for chunk_id in any_skill.ids if chunk_id in visible)


def test_showing_nothing_renders_as_the_empty_string() -> None:
    assert skill("ab").render(BARE) == ""
    assert skill("ab").render(frozenset(ids("a"))) != ""


def test_ids_depend_on_the_text_only() -> None:
    assert Chunk("A title", "body").id == Chunk("A title", "body").id
    assert Chunk("A title", "body").id != Chunk("A title", "body!").id
    assert Chunk("A title", "body").id != Chunk("A titl", "body").id


@pytest.mark.parametrize("body", ["text\n```", "```\ncode", "~~~\n```", "a\n### Heading\nb", " outer", "a\rb"])
def test_a_body_that_would_not_survive_the_file_is_refused(body: str) -> None:
    with pytest.raises(SkillFormatError, match="chunk 'T'"):
        Chunk("T", body)
    with pytest.raises(SkillFormatError, match="preamble"):
        Skill(body)


def test_a_heading_inside_a_closed_fence_is_text() -> None:
    assert Chunk("T", "```\n### not a chunk\n```").body
    assert Chunk("T", "inline ```code``` is no fence\n```code```").body


def test_two_chunks_with_the_same_text_are_refused() -> None:
    with pytest.raises(SkillFormatError, match="same text, 1: chunk-a"):
        skill("aba")


def test_rendering_an_unknown_chunk_is_refused() -> None:
    with pytest.raises(SkillFormatError, match="no such chunks, 1: nobody"):
        skill("a").render(frozenset({"nobody"}))
