"""The editor's answers: one strict format, every refusal with a name, and application through the edit engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intraskill.editor.actions import ACTIONS, Action, ActionError, attempt, parse_action
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.method.skill.skill import Chunk, Skill

SKILL = Skill("Shop.", (Chunk("Query", "Put the colour in the query."), Chunk("Budget", "Mind the budget.")))
NEW = Chunk("Sizes", "Choose the size before buying.")
DRAFTS = (Chunk("First", "One."), Chunk("Second", "Two."))


def answer(text: str, **options):
    return attempt(text, SKILL, LeakFilter(), **options)


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (f"CREATE\n{NEW.render()}", ["Query", "Budget", "Sizes"]),
        (f"UPDATE 1\n{NEW.render()}", ["Sizes", "Budget"]),
        (f"MERGE 1 2\n{NEW.render()}", ["Sizes"]),
        ("PRUNE 2", ["Query"]),
        ("NOOP", ["Query", "Budget"]),
    ],
)
def test_every_action_changes_the_skill_as_its_name_says(text, titles):
    made = answer(text)
    assert not made.invalid
    assert [chunk.title for chunk in made.skill.chunks] == titles
    assert made.noop == (text == "NOOP")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("ADD\n### T\n\nb", "unknown_action"),
        ("create\n### T\n\nb", "unknown_action"),
        ("CREATE now\n### T\n\nb", "unknown_action"),
        (f"CREATE 1\n{NEW.render()}", "targets"),
        (f"UPDATE\n{NEW.render()}", "targets"),
        (f"UPDATE 1 2\n{NEW.render()}", "targets"),
        ("PRUNE", "targets"),
        ("PRUNE 1 2", "targets"),
        ("NOOP 1", "targets"),
        (f"MERGE\n{NEW.render()}", "empty_merge"),
        (f"MERGE 1\n{NEW.render()}", "empty_merge"),
        (f"MERGE 1 1\n{NEW.render()}", "repeated_target"),
        ("CREATE", "missing_text"),
        ("MERGE 1 2", "missing_text"),
        ("PRUNE 1\nbecause it harms", "unexpected_text"),
        ("NOOP\nNothing to do.", "unexpected_text"),
        ("PRUNE 1\nPRUNE 2", "two_actions"),
        (f"CREATE\n{NEW.render()}\n\nNOOP", "two_actions"),
        ("CREATE\njust words", "bad_chunk"),
        ("CREATE\nwords\n### T\n\nb", "bad_chunk"),
        ("CREATE\n### T\n\nb\n### U\n\nc", "bad_chunk"),
        ("CREATE\n### T", "bad_chunk"),
        ("CREATE\n### T\n\n```\nopen", "bad_chunk"),
        ("CREATE\ndraft 1", "no_such_draft"),
        ("PRUNE 3", "no_such_chunk"),
        ("PRUNE 0", "no_such_chunk"),
        (f"UPDATE 9\n{NEW.render()}", "no_such_chunk"),
        (f"UPDATE 1\n{SKILL.chunks[0].render()}", "unchanged"),
        (f"CREATE\n{SKILL.chunks[1].render()}", "unchanged"),
    ],
)
def test_what_is_not_one_valid_action_is_refused_by_name_and_leaves_the_skill(text, kind):
    made = answer(text)
    assert (made.invalid, made.skill, made.edit) == (kind, SKILL, None)
    assert made.message


def test_a_draft_is_taken_as_it_is():
    assert answer("CREATE\ndraft 2", drafts=DRAFTS).skill.chunks[-1] == DRAFTS[1]
    assert answer("CREATE\ndraft 3", drafts=DRAFTS).invalid == "no_such_draft"


def test_the_leak_filter_stands_before_the_skill():
    wall = LeakFilter(Secrets(product_ids=("B0ABCDEFGH",)))
    made = attempt("CREATE\n### Tip\n\nBuy b0abcdefgh first.", SKILL, wall)
    assert made.invalid == "firewall"
    assert "product_id" in made.message
    assert made.skill == SKILL


def test_a_copy_of_the_chunk_that_it_replaces_is_no_copy_but_a_copy_of_another_one_is():
    longer = "### Query\n\nPut the colour in the query, and the size as well."
    assert not answer(f"UPDATE 1\n{longer}").invalid
    assert answer("UPDATE 2\n### Again\n\nPut the colour in the query.").invalid == "firewall"


def test_an_action_that_is_switched_off_is_unknown():
    assert answer("NOOP", actions=("CREATE", "PRUNE")).invalid == "unknown_action"
    assert not answer("PRUNE 1", actions=("CREATE", "PRUNE")).invalid


def test_a_leading_thought_is_passed_over_and_a_later_one_is_not():
    assert answer("<think>hm\nNOOP</think>\nNOOP").noop
    assert answer("NOOP\n<think>hm</think>").invalid == "unexpected_text"


_TEXT = st.text("abc XYZ.,", min_size=1, max_size=20).map(str.strip).filter(bool)


@given(st.sampled_from(ACTIONS), _TEXT, _TEXT)
def test_what_an_action_renders_parses_back(name, title, body):
    targets = {"CREATE": (), "UPDATE": (2,), "MERGE": (2, 1), "PRUNE": (1,), "NOOP": ()}[name]
    action = Action(name, targets, Chunk(title, body) if name in ("CREATE", "UPDATE", "MERGE") else None)
    assert parse_action(action.render()) == action


def test_a_fenced_action_word_is_still_a_second_action():
    """Strict on purpose: no lesson needs a line that is nothing but an action."""
    with pytest.raises(ActionError, match="second action"):
        parse_action("CREATE\n### T\n\n```\nNOOP\n```")
