"""``--review``: a run stops before each gate, and a person's yes, no or edit decides what goes into it."""

import re
from types import SimpleNamespace

import pytest
import yaml
from planted_runs import content, planted_config

from intraskill.cli import main
from intraskill.method.errors import ConfigError, WaitsForPerson
from intraskill.method.gate.rules import Fate
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.proposals import PERSON, Ledger, Proposal
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.rounds.human_review import (
    ask_in_terminal,
    blank_answers,
    read_answers,
    readable,
    reviewed,
)
from intraskill.rounds.loop import read_state, run
from intraskill.store.run_directory import is_sealed, read_json

READABLE, ANSWERS, REVIEW_RECORD = "proposals.md", "review.yaml", "review.json"


def reviewing(root, review=True):
    config = planted_config(root)
    config.review = review
    return config


def stopped(root):
    """Run until a person is asked; return the round's directory."""
    with pytest.raises(WaitsForPerson) as caught:
        run(reviewing(root))
    (name,) = re.findall(r"of (round_\d+) wait", str(caught.value))
    return root / name


def answer(directory, *words, old="", new=""):
    path = directory / ANSWERS
    text = path.read_text()
    for word in words:
        text = text.replace("  answer:\n", f"  answer: {word}\n", 1)
    path.write_text(text.replace(old, new) if old else text)


def answer_all(directory, word="yes"):
    answer(directory, *[word] * (directory / ANSWERS).read_text().count("  answer:\n"))


@pytest.fixture
def asked(tmp_path):
    """A run that waits before the gate of round 1, the cold start answered with yes."""
    root = tmp_path / "run"
    answer_all(stopped(root))
    directory = stopped(root)
    assert directory.name == "round_001"
    return directory


def entries_of(directory):
    return [e for e in read_state(directory).ledger.entries if e.round_index == 1]


def test_a_run_in_which_a_person_says_yes_to_everything_equals_one_without_review(tmp_path):
    free = run(planted_config(tmp_path / "free"))
    root = tmp_path / "run"
    for _ in range(3):
        try:
            run(reviewing(root))
            break
        except WaitsForPerson:
            for path in root.glob(f"round_*/{ANSWERS}"):
                answer_all(path.parent)
    else:
        run(reviewing(root))
    mine, theirs = content(root), content(free)
    extra = {name for name in mine if name not in theirs}
    assert extra and all(name.rpartition("/")[2] in (READABLE, ANSWERS, REVIEW_RECORD) for name in extra)
    differing = {name for name in theirs if mine[name] != theirs[name]}
    assert all(name.endswith("DONE") for name in differing), differing


def test_a_no_keeps_a_proposal_out_of_the_gate_and_away_for_some_rounds(asked):
    (first, *_) = yaml.safe_load((asked / ANSWERS).read_text())
    answer(asked, "no")
    answer_all(asked)
    text = (asked / ANSWERS).read_text().replace("  reason:\n", "  reason: too long\n", 1)
    (asked / ANSWERS).write_text(text)
    try:
        run(reviewing(asked.parent))
    except WaitsForPerson:
        assert is_sealed(asked)
    refused = [e for e in entries_of(asked) if e.fate is Fate.REFUSED_BY_PERSON]
    assert [(e.edit_id, e.reason) for e in refused] == [(first["edit"], "too long")]
    assert first["edit"] not in read_json(asked / "masks.json")["edits"]
    later = read_json(asked.parent / "round_002" / "edits.json")
    assert first["edit"] not in str(later["proposals"]) and "refused_by_person" in later["blocked"][0]["reason"]
    assert not any(e.meaning == refused[0].meaning for e in read_state(asked).ledger.entries if e.fate is Fate.SELECTED)


def test_an_edited_text_goes_to_the_gate_as_a_persons(asked):
    answer(asked, "edit", old="Procedure: check every option.", new="Procedure: check each option twice.")
    answer_all(asked)
    try:
        run(reviewing(asked.parent))
    except WaitsForPerson:
        assert is_sealed(asked)
    fates = [(e.origin, e.fate is Fate.REFUSED_BY_PERSON) for e in entries_of(asked)]
    assert ("analyst", True) in fates and ("person", False) in fates
    (original,) = [e for e in entries_of(asked) if e.fate is Fate.REFUSED_BY_PERSON]
    assert original.reason.startswith("rewritten as add-")
    assert "check-every-option" in " ".join(read_json(asked / "masks.json")["chunks"])


def test_missing_answers_stop_the_run_again_and_change_nothing(asked):
    before = (asked / ANSWERS).read_bytes()
    assert stopped(asked.parent) == asked
    assert (asked / ANSWERS).read_bytes() == before
    assert not (asked / REVIEW_RECORD).exists() and not (asked / "masks.json").exists()


def test_without_the_flag_the_run_goes_on_unasked(asked):
    run(reviewing(asked.parent, review=False))
    assert not (asked / REVIEW_RECORD).exists() and is_sealed(asked.parent / "round_002")
    assert Fate.REFUSED_BY_PERSON not in [e.fate for e in read_state(asked).ledger.entries]


@pytest.mark.parametrize(
    ("words", "old", "new", "message"),
    [
        (["maybe"], "", "", "the answer 'maybe' is not yes, no or edit"),
        (["edit"], "", "", "changes nothing in the text under chunks"),
        (["yes"], "check every option", "check one option", "says yes but changes the text"),
        (["edit"], "check every option", "open planted-test-0003", "leak filter refuses your text of .*task_id"),
        (["edit"], "    ### Check every option\n", "", r"\d+ characters under chunks stand before the first"),
        (["edit"], "    ### Check", "    ### Look\n\n    Twice.\n\n    ### Check", "an edited ADD must stay one"),
        ([], "- edit: add-", "- edit: odd-", "must hold one entry for each of"),
        ([], "- edit: add-", "- edit: [", "is not YAML"),
    ],
)
def test_answers_that_make_no_sense_are_refused_by_name(asked, words, old, new, message):
    answer(asked, *words, old=old, new=new)
    answer_all(asked)
    kept = (asked / ANSWERS).read_bytes()
    with pytest.raises(ConfigError, match=message):
        run(reviewing(asked.parent))
    assert (asked / ANSWERS).read_bytes() == kept and not (asked / REVIEW_RECORD).exists()


def test_a_proposal_is_shown_with_its_difference_and_its_support():
    old, new = Chunk("Size", "Press it.\nThen buy."), Chunk("Size", "Press it twice.\nThen buy.")
    proposals = (
        Proposal("REWRITE", (old.id,), (new,), "pressed once", ("r1", "r2"), "fewer misses"),
        Proposal("DELETE", (old.id,), (), "harm", (PERSON,)),
    )
    text = readable("round_003", Skill("", (old,)), proposals)
    assert "-Press it.\n+Press it twice.\n Then buy." in text
    assert "Support: 2 rollouts" in text and "a person's own" in text and "Expected: fewer misses" in text
    assert "twice" not in readable("round_003", Skill("", (old,)), proposals[1:])


@pytest.mark.parametrize(
    "body", ["Plain.", "# heading: x\n\n- list: y\n\n```\ncode\n```", "  'quotes\": {} [] & * !", "步骤：先看。"]
)
def test_any_text_survives_the_answer_file(body, tmp_path):
    proposals = [Proposal("ADD", (), (Chunk("T: 'x'", body.strip()),), "c"), Proposal("DELETE", ("a-1",), (), "c")]
    path = tmp_path / ANSWERS
    path.write_text(blank_answers(proposals))
    assert list(read_answers(path, proposals).values()) == [None, None]
    path.write_text(blank_answers(proposals, {p.to_edit().id: "yes" for p in proposals}))
    assert [a.word for a in read_answers(path, proposals).values()] == ["yes", "yes"]


@pytest.mark.parametrize(
    ("said", "complete", "words"),
    [(["y", "n"], True, ["yes", "no"]), (["yes", "e"], False, ["yes", "edit"]), (["y", "hm"], False, ["yes", None])],
)
def test_in_a_terminal_the_answers_are_written_to_the_file(tmp_path, said, complete, words):
    proposals = [Proposal("ADD", (), (Chunk(name, f"Do {name}."),), "c") for name in "ab"]
    path = tmp_path / ANSWERS
    path.with_name(READABLE).write_text("shown\n")
    replies = iter(said)
    assert ask_in_terminal(path, proposals, lambda _: next(replies)) is complete
    rows = [row["answer"] for row in yaml.safe_load(path.read_text())]
    assert [{True: "yes", False: "no"}.get(row, row) for row in rows] == words


def test_the_command_stops_with_status_0_and_one_line(tmp_path, capsys):
    words = ["train", "+exp=planted", "--review", f"run_dir={tmp_path / 'run'}", "rounds=0", "final.tasks=0"]
    words.append("coldstart.tasks=12")
    status = main(words)
    out = capsys.readouterr().out
    directory = tmp_path / "run" / "round_000"
    assert status == 0 and out.count("\n") == 1 and str(directory / ANSWERS) in out
    answer_all(directory)
    assert main(words) == 0 and is_sealed(directory)


def test_an_edited_text_is_inspected_beside_the_other_proposals_of_the_round(tmp_path):
    asking = SimpleNamespace(config=SimpleNamespace(review=True), leak_filter=LeakFilter())
    texts = ("Read the page of each product.", "Compare the kettles.")
    proposals = tuple(Proposal("ADD", (), (Chunk(f"Part {n}", text),), "c", ("r1",)) for n, text in enumerate(texts))
    directory = tmp_path / "round_001"
    directory.mkdir()
    with pytest.raises(WaitsForPerson):
        reviewed(asking, directory, Skill("p"), proposals, Ledger())
    answer(directory, "yes", "edit", old=texts[1], new="Read the page of each product!")
    with pytest.raises(ConfigError, match="leak filter refuses your text of .*copy"):
        reviewed(asking, directory, Skill("p"), proposals, Ledger())
    answer(directory, old="answer: yes", new="answer: no")
    assert len(reviewed(asking, directory, Skill("p"), proposals, Ledger())[0]) == 1
