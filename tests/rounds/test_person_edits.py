"""A skill edited by hand in the middle of a run goes through the next gate, and nothing of it is lost."""

import shutil

import pytest
from planted_runs import planted_config

from intraskill.environments.planted import PlantedWorld
from intraskill.method.errors import ArtifactError
from intraskill.method.gate.rules import Fate
from intraskill.method.skill.edits import changes
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import Chunk, Skill, parse_skill
from intraskill.rounds.human_review import with_persons_edits
from intraskill.rounds.loop import read_state, run
from intraskill.rounds.setup import bench
from intraskill.store.run_directory import is_sealed, read_json, read_text

NEXT_SKILL, ARCHIVE, RECORD = "next_skill.md", "person_skill.md", "person_edits.json"
OWN = Chunk("Mine", "Applies when: always.\nProcedure: breathe slowly and read twice.")
LEAK = Chunk("Leak", "Procedure: remember planted-test-0003.")


class Notes:
    def __init__(self):
        self.lines = []

    def stage(self, round_index, name, total):
        pass

    def advance(self, done, *, tokens=0, note=""):
        pass

    def spent(self, usage):
        pass

    def say(self, message):
        self.lines.append(message)


def started(tmp_path, rounds=2):
    """A run that was stopped after its cold start: everything behind round 0 is taken away."""
    root = run(planted_config(tmp_path / "run"))
    for number in range(1, rounds + 1):
        shutil.rmtree(root / f"round_{number:03d}")
    shutil.rmtree(root / "final")
    return root


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    return started(tmp_path_factory.mktemp("cold"))


@pytest.fixture
def root(cold, tmp_path):
    return shutil.copytree(cold, tmp_path / "run")


def skill_of(directory):
    return parse_skill(read_text(directory / "skill.md"))


def drop(root, *chunks, preamble=None):
    skill = skill_of(root / "round_000")
    text = Skill(skill.preamble if preamble is None else preamble, tuple(chunks)).to_markdown()
    (root / NEXT_SKILL).write_text(text)
    return text


def test_a_persons_edits_go_through_the_gate_and_stand_in_the_ledger_as_a_persons(root):
    kept, *rest = skill_of(root / "round_000").chunks
    text = drop(root, kept, *rest[1:], OWN)
    notes = Notes()
    run(planted_config(root), notes)
    directory = root / "round_001"
    assert (directory / ARCHIVE).read_text() == text and not (root / NEXT_SKILL).exists()
    mine = [e for e in read_state(directory).ledger.entries if e.origin == "person"]
    assert sorted(entry.op for entry in mine) == ["ADD", "DELETE"]
    assert OWN.id in read_json(directory / "masks.json")["chunks"]
    assert any(
        f"2 edits of a person's {NEXT_SKILL}" in line and "on top of max_candidates" in line for line in notes.lines
    )
    assert not (root / "round_002" / ARCHIVE).exists() and is_sealed(root / "round_002")


def test_without_a_file_nothing_is_written(root):
    run(planted_config(root))
    assert not list(root.glob(f"round_*/{RECORD}"))


def test_the_leak_filter_reads_a_persons_text_too(root):
    drop(root, *skill_of(root / "round_000").chunks, LEAK)
    run(planted_config(root))
    (entry,) = [e for e in read_state(root / "round_001").ledger.entries if e.origin == "person"]
    assert entry.fate is Fate.LEAK_FILTER and "task_id" in entry.reason
    assert LEAK.id not in read_json(root / "round_001" / "masks.json")["chunks"]


def test_what_no_rule_of_leaks_forbids_is_tested_as_the_person_saved_it_with_a_note(root):
    own = Chunk(
        "Mine", "Read https://example.org/rules first.\n\n#### In code\n\n```\nstep\n```\n" + "more words " * 150 + "."
    )
    text = Skill("", (*skill_of(root / "round_000").chunks, own)).to_markdown()
    (root / NEXT_SKILL).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    notes = Notes()
    run(planted_config(root), notes)
    assert own.id in read_json(root / "round_001" / "masks.json")["chunks"]
    for rule in ("size", "link", "markup"):
        assert any(f"chunk 'Mine', {rule}: " in line and "kept as you wrote it; " in line for line in notes.lines)


@pytest.mark.parametrize("text", ["### \n\nno title\n", "### No text\n", "\udcff"])
def test_a_file_that_is_no_skill_stays_where_it_is_and_the_run_goes_on(root, text):
    (root / NEXT_SKILL).write_bytes(text.encode("utf-8", "surrogateescape"))
    notes = Notes()
    run(planted_config(root), notes)
    assert (root / NEXT_SKILL).exists() and is_sealed(root / "round_002")
    assert any("stays where it is" in line for line in notes.lines)
    assert any("no round follows" in line for line in notes.lines)


def test_a_run_killed_after_the_file_was_taken_in_goes_on_to_the_same_gate(root, tmp_path):
    drop(root, *skill_of(root / "round_000").chunks, OWN)
    other = shutil.copytree(root, tmp_path / "other")
    run(planted_config(root))
    (other / "round_001").mkdir()
    (other / NEXT_SKILL).rename(other / "round_001" / ARCHIVE)
    run(planted_config(other))
    for name in (RECORD, "masks.json", "ledger.json"):
        assert (other / "round_001" / name).read_bytes() == (root / "round_001" / name).read_bytes()


def test_a_gate_that_has_begun_takes_no_file_in(root):
    again = run(planted_config(root))
    directory = again / "round_001"
    drop(again, OWN)
    current = bench(planted_config(again), again)
    assert with_persons_edits(current, directory, skill_of(again / "round_000"), (), Ledger()) == ((), Ledger())
    assert (again / NEXT_SKILL).exists()
    (directory / "masks.json").unlink()
    assert with_persons_edits(current, directory, skill_of(again / "round_000"), (), Ledger())[0] != ()


def test_a_proposers_own_proposal_for_the_same_chunk_waits_and_others_stay(root):
    first, *others = skill_of(root / "round_000").chunks
    drop(root, Chunk(first.title, first.body + " Slowly."), *others)
    same = Proposal("DELETE", (first.id,), (), "harm", ("r1",))
    other = Proposal("ADD", (), (PlantedWorld().chunks[5].chunk,), "missing", ("r1",))
    directory = root / "round_001"
    directory.mkdir()
    current = bench(planted_config(root), root)
    got, ledger = with_persons_edits(current, directory, skill_of(root / "round_000"), (same, other), Ledger())
    assert [(p.op, p.origin) for p in got] == [("REWRITE", "person"), ("ADD", "analyst")]
    assert [(e.op, e.fate) for e in ledger.entries] == [("DELETE", Fate.WAITING)]


def test_a_file_made_from_an_older_skill_is_compared_with_that_one(root):
    finished = run(planted_config(root))
    old = skill_of(finished / "round_000")
    drop(finished, *old.chunks, OWN)
    directory = finished / "round_003"
    directory.mkdir()
    current = bench(planted_config(finished), finished)
    newest = skill_of(finished / "round_002")
    assert newest.ids != old.ids, "the planted world changed its skill, or this test shows nothing"
    got, _ = with_persons_edits(current, directory, newest, (), Ledger())
    assert [p.chunks for p in got] == [(OWN,)]
    assert read_json(directory / RECORD)["base"] in ("round_000", "round_001")


def test_a_changed_preamble_is_said_to_be_untested(root):
    drop(root, *skill_of(root / "round_000").chunks, preamble="My own preamble.")
    notes = Notes()
    run(planted_config(root), notes)
    assert any("the preamble is no chunk" in line for line in notes.lines)
    assert skill_of(root / "round_001").preamble == skill_of(root / "round_000").preamble


def test_a_sealed_skill_edited_in_place_is_refused_with_the_way_to_do_it_and_nothing_is_lost(root):
    path = root / "round_000" / "skill.md"
    sealed = path.read_bytes()
    edited = path.read_text() + "\n" + OWN.render() + "\n"
    path.write_text(edited)
    with pytest.raises(ArtifactError, match=rf"changed since they were sealed.*mv .*skill\.md .*{NEXT_SKILL}"):
        run(planted_config(root))
    path.rename(root / NEXT_SKILL)
    run(planted_config(root))
    assert path.read_bytes() == sealed
    assert (root / "round_001" / ARCHIVE).read_text() == edited


@pytest.mark.parametrize("name", ["ledger.json", "decision.json"])
def test_an_artifact_of_another_run_is_refused(root, name, tmp_path):
    config = planted_config(tmp_path / "stranger", baseline=0.3)
    config.seed = 5
    shutil.copy(run(config) / "round_000" / name, root / "round_000" / name)
    with pytest.raises(ArtifactError, match=rf"changed since they were sealed, 1: .*round_000/{name}") as caught:
        run(planted_config(root))
    assert "mv " not in str(caught.value)


def text(title, body):
    return Chunk(title, body)


A = text("Size", "Press the size that the profile names.")
B = text("Color", "Press the color that the request names.")
BOTH = text("Options", "Press the size that the profile names and the color that the request names.")
C = text("Query", "Search with every feature word.")


@pytest.mark.parametrize(
    ("base", "wanted", "ops"),
    [
        ((A, C), (BOTH, C), [("REWRITE", 1, 1)]),
        ((A, B, C), (BOTH, C), [("MERGE", 2, 1)]),
        ((BOTH,), (A, B), [("SPLIT", 1, 2)]),
        ((A, C), (C,), [("DELETE", 1, 0)]),
        ((C,), (C, A), [("ADD", 0, 1)]),
        ((A, C), (C, A), []),
        ((A,), (text("Size", "Something entirely new."),), [("REWRITE", 1, 1)]),
        ((A,), (C,), [("DELETE", 1, 0), ("ADD", 0, 1)]),
    ],
)
def test_what_a_person_changed_is_told_apart(base, wanted, ops):
    found = changes(Skill("", base), Skill("", wanted))
    assert [(edit.op, len(edit.removes), len(edit.adds)) for edit in found] == ops
