"""A skill's history: every version and chunk by its hash, each line's origin, differences, and the way back."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_runs import planted_config

from intraskill.cli import main
from intraskill.history.diff import diff_texts, diff_versions, word_diff
from intraskill.history.history import Version, blame, last_measured, read_history
from intraskill.method.errors import ArtifactError
from intraskill.method.gate.decision import decide
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import GateRule
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import Chunk, Skill, parse_skill
from intraskill.report.skill_log import blame_json, life_json, log_json
from intraskill.rounds.human_review import next_skill_text
from intraskill.rounds.loop import read_state, run
from intraskill.store.records import to_json
from intraskill.store.run_directory import read_json, seal, write_json, write_text

SE, PAIRS = 0.05, 48
OLD, NEW, ADDED, FADES = (
    *("Prefer round prices", "Convert every foreign currency"),
    *("Check each listed option", "Compare before choosing"),
)
NEXT_SKILL = "next_skill.md"
PLANTED = [
    {"title": OLD, "effect": 0.08},
    {"title": FADES, "effect": 0.10},
    {"title": NEW, "effect": 0.30, "missing": True, "replaces": OLD},
    {"title": ADDED, "effect": 0.15, "missing": True},
    {"title": "Greet the catalogue", "effect": -0.1},
]


def config(root, rounds=3):
    found = planted_config(root, chunks=PLANTED, baseline=0.15, spread=0.02, grades=16)
    found.rounds, found.frontier.max_mean = rounds, 0.6
    return found


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return run(config(tmp_path_factory.mktemp("planted") / "run"))


def commit(root: Path, number: int, before: Skill, edits: tuple[Edit, ...], betas: dict[str, float]) -> Skill:
    """Write and seal a round as the loop does, with contributions of our choice; what is not named is worth 0.1."""
    everything = pool(before, edits)
    beta_J = np.array([betas.get(chunk.title, 0.1) for chunk in everything.chunks])
    ones_J = np.ones(len(beta_J))
    found = Contributions(
        everything.ids, beta_J, SE * ones_J, beta_J - 0.1, beta_J + 0.1, PAIRS, ones_J.astype(int), 0.4, 1, 1.0, 0.1
    )
    decision = decide(before, edits, found, GateRule(10))
    proposals = tuple(Proposal(e.op, e.removes, e.adds, e.reason, e.support, "", (f"call/{e.id}",)) for e in edits)
    ledger = Ledger()
    for proposal in proposals:
        key = proposal.to_edit().id
        ledger = ledger.record(number, proposal, decision.fates[key], decision.reasons[key])
    directory = root / f"round_{number:03d}"
    directory.mkdir(parents=True)
    write_text(directory / "skill.md", decision.skill.to_markdown())
    write_json(directory / "contributions.json", to_json(found))
    write_json(directory / "decision.json", to_json(decision) | {"kept": list(decision.kept)})
    write_json(directory / "edits.json", {"proposals": to_json(proposals), "refused": [], "analyst": "rules"})
    write_json(directory / "curriculum.json", {"skill_free_prob": 0.2, "exposure": dict.fromkeys(decision.kept, 0.5)})
    write_json(directory / "ledger.json", to_json(ledger))
    write_json(directory / "round.json", {"r_free_interval": {"mean": 0.3, "se": 0.02}, "gap": None})
    if number == 0:
        write_text(directory / "draft.md", before.to_markdown())
    seal(directory)
    return decision.skill


def family(root: Path) -> dict[str, Chunk]:
    """Round 0 drafts A and B, round 1 merges them, round 2 splits the merged text, round 3 rewrites one half."""
    texts = {
        "A": Chunk("A", "alpha one\nalpha two"),
        "B": Chunk("B", "beta one\nbeta two"),
        "AB": Chunk("AB", "alpha one\nbeta two\ntogether"),
        "L": Chunk("Left", "alpha one\ntogether"),
        "R": Chunk("Right", "beta two\nsplit apart"),
        "R2": Chunk("Right again", "beta two\nsplit anew"),
    }
    write_json(root / "plan.json", {"plan": {"rounds": 9}})
    skill = commit(root, 0, Skill("Look well.", (texts["A"], texts["B"])), (), {})
    merge = Edit((texts["A"].id, texts["B"].id), (texts["AB"],), "overlap", ("t1#0", "t2#1"))
    skill = commit(root, 1, skill, (merge,), {"AB": 0.5})
    skill = commit(root, 2, skill, (Edit((texts["AB"].id,), (texts["L"], texts["R"]), "two things", ("t3#0",)),), {})
    commit(root, 3, skill, (Edit((texts["R"].id,), (texts["R2"],), "unclear", ("t4#0",)),), {"Right again": 0.3})
    return texts


@pytest.fixture
def chain(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run", family(tmp_path / "run")


def said(capsys, *words):
    status = main(list(map(str, words)))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_rewrite_keeps_the_older_origin_of_the_lines_that_it_left_alone(planted):
    history = read_history(planted)
    version = history.find("1")
    assert isinstance(version, Version)
    marks = {line.text: (line.origin.round_index, line.origin.edit.edit.op) for line in blame(history, version)[:4]}
    assert marks[f"### {NEW}"] == (1, "REWRITE") and marks["Applies when: the planted task asks for it."] == (0, "ADD")
    row = blame_json(history, version)["lines"][0]
    assert row["from"] == [history.chunk(OLD).id] and row["support"] and row["author"] == "rules"


def test_the_numbers_of_the_log_are_those_of_the_gate(planted):
    for entry in log_json(read_history(planted)):
        gate = read_json(planted / f"round_{entry['round']:03d}" / "contributions.json")
        other = read_json(planted / f"round_{(entry['round'] + 1) % 2:03d}" / "contributions.json")
        sides = [side for edit in entry["edits"] for side in (*edit["removes"], *edit["adds"])] + entry["left"]
        assert all(_is_of(gate, side) for side in sides)
        assert not any(_is_of(other, side) for side in sides), "the twin: another round's gate says something else"


def _is_of(gate, side):
    if side["id"] not in gate["chunk_ids"]:
        return False
    place = gate["chunk_ids"].index(side["id"])
    return (side["beta"], side["se"], side["pairs"]) == (gate["beta_J"][place], gate["se_J"][place], gate["num_pairs"])


def test_the_log_accounts_for_every_chunk_that_came_or_went(planted):
    log = log_json(read_history(planted))[::-1]
    before: set[str] = set()
    for entry in log:
        now = {chunk["id"] for chunk in entry["chunks"]}
        taken = [edit for edit in entry["edits"] if edit["taken"]]
        come = {side["id"] for edit in taken for side in edit["adds"]}
        gone = {side["id"] for edit in taken for side in edit["removes"]} | {side["id"] for side in entry["left"]}
        assert (now - before, before - now) == (come, gone)
        before = now
    assert {edit["op"] for entry in log for edit in entry["edits"] if edit["taken"]} == {"ADD", "REWRITE"}
    assert any(entry["left"] for entry in log)


def test_blame_says_when_a_chunk_was_last_measured_and_its_exposure(planted):
    history = read_history(planted)
    found = blame_json(history, history.newest)
    state = read_state(planted / "round_003")
    for chunk in found["chunks"]:
        assert chunk["last_measured"]["round_index"] == 3 != found["lines"][0]["round"]
        assert chunk["exposure"] == state.curriculum.exposure[chunk["id"]] != 0.0


def test_lines_are_traced_through_merge_split_and_rewrite(chain):
    root, texts = chain
    history = read_history(root)
    marks = {line.text: line.origin for line in blame(history, history.newest) if line.text}
    assert {text: origin.round_index for text, origin in marks.items()} == {
        "Look well.": 0,
        "### Left": 2,
        "alpha one": 0,
        "together": 1,
        "### Right again": 3,
        "beta two": 0,
        "split anew": 3,
    }
    assert (marks["alpha one"].chunk_id, marks["beta two"].chunk_id) == (texts["A"].id, texts["B"].id)
    assert marks["together"].edit.edit.op == "MERGE" and marks["together"].edit.calls == (
        f"call/{marks['together'].edit.edit.id}",
    )
    assert marks["### Left"].edit.edit.op == "SPLIT" and marks["alpha one"].edit.author == "draft"


def test_the_life_of_a_merged_chunk_names_its_parents_and_what_became_of_it(chain):
    root, texts = chain
    life = life_json(read_history(root), texts["AB"].id)
    assert [side["id"] for side in life["made_by"][0]["removes"]] == [texts["A"].id, texts["B"].id]
    assert [side["id"] for side in life["replaced_by"][0]["adds"]] == [texts["L"].id, texts["R"].id]
    assert [gate["in_skill"] for gate in life["gates"]] == [True, False]
    assert life["gates"][0]["beta"] == 0.5 and life["gates"][1]["beta"] != 0.5


def test_a_text_that_left_and_came_back_is_of_the_round_that_brought_it_back(tmp_path):
    chunk, other = Chunk("A", "alpha"), Chunk("B", "beta")
    skill = commit(tmp_path, 0, Skill("", (chunk, other)), (), {})
    skill = commit(tmp_path, 1, skill, (), {"A": -0.2})
    commit(tmp_path, 2, skill, (Edit((), (chunk,)),), {})
    history = read_history(tmp_path)
    assert {line.chunk_id: line.origin.round_index for line in blame(history, history.newest)} == {
        chunk.id: 2,
        other.id: 0,
    }
    assert last_measured(history, history.versions[1], chunk.id).beta == -0.2
    assert last_measured(history, history.newest, chunk.id).beta != -0.2


def test_versions_and_chunks_are_found_by_any_unique_prefix(chain):
    root, texts = chain
    history = read_history(root)
    second = history.versions[1]
    for key in ("1", "round_001", second.skill.hash, second.skill.hash[:6]):
        assert history.find(key) is second
    for key in (texts["AB"].id, texts["AB"].id.rpartition("-")[2][:6]):
        assert history.find(key) == texts["AB"]
    assert history.chunk("right again") == texts["R2"]


@pytest.mark.parametrize("key", ["17", "round_9", "ffff0000", "12"])
def test_an_unknown_version_is_refused_with_what_there_is(chain, capsys, key):
    status, out, err = said(capsys, "skill", "show", f"{chain[0]}@{key}")
    assert (status, out) == (2, "") and "round_000 to round_003" in err


def test_a_misspelt_chunk_is_answered_with_the_nearest_names(chain, capsys):
    status, _, err = said(capsys, "skill", "blame", chain[0], "--chunk", "Rihgt again")
    assert status == 2 and "did you mean 'Right again'" in err


def test_show_prints_a_version_by_round_and_by_hash_and_a_chunk(chain, capsys):
    root, texts = chain
    skill = read_history(root).versions[1].skill
    for name in (f"{root}@1", f"{root}@{skill.hash[:5]}", f"{root}/round_001"):
        assert said(capsys, "skill", "show", name) == (0, skill.render() + "\n", "")
    assert said(capsys, "skill", "show", f"{root}@{texts['A'].id}")[1] == texts["A"].render() + "\n"


@pytest.mark.parametrize("command", ["show", "log", "blame", "lint"])
def test_every_command_refuses_a_changed_sealed_file(chain, capsys, command):
    path = chain[0] / "round_002" / "skill.md"
    path.write_text(path.read_text() + "\nmore\n")
    status, _, err = said(capsys, "skill", command, f"{chain[0]}@2" if command != "log" else chain[0])
    assert status == 2 and "changed since they were sealed" in err


def test_a_run_without_a_finished_round_and_a_directory_that_is_no_run_are_told_apart(tmp_path, capsys):
    assert "is no run directory" in said(capsys, "skill", "log", tmp_path)[2]
    write_json(tmp_path / "plan.json", {"plan": {}})
    assert "no finished round yet" in said(capsys, "skill", "log", tmp_path)[2]
    assert "neither a skill file nor a run" in said(capsys, "skill", "log", tmp_path / "none")[2]


def test_a_rewrite_is_one_change_by_lineage_even_when_no_word_survives(tmp_path):
    old, new = Chunk("Old", "one two three"), Chunk("Quite other", "seven eight nine")
    skill = commit(tmp_path, 0, Skill("", (old,)), (), {})
    commit(tmp_path, 1, skill, (Edit((old.id,), (new,)),), {"Quite other": 0.4})
    first, second = read_history(tmp_path).versions
    found = diff_versions(read_history(tmp_path), first, second)
    assert [change.kind for change in found.changes] == ["rewritten"]
    assert [c.kind for c in diff_texts(first.skill, second.skill).changes] == ["added", "removed"], "without lineage"


def test_diffs_name_merges_and_splits_in_both_directions(chain):
    history = read_history(chain[0])
    v0, v1, v2, v3 = history.versions

    def kinds(old, new):
        return [change.kind for change in diff_versions(history, old, new).changes]

    assert kinds(v0, v1) == ["merged"] == kinds(v2, v1) and kinds(v1, v2) == ["split"] == kinds(v1, v0)
    assert kinds(v0, v3) == ["rewritten"] and kinds(v2, v3) == ["rewritten"]


def test_a_skill_does_not_differ_from_itself(planted):
    history = read_history(planted)
    for version in history.versions:
        for found in (diff_versions(history, version, version), diff_texts(version.skill, version.skill)):
            assert (found.changes, found.preamble, found.same) == ((), (), version.skill.ids)
    assert diff_versions(history, history.versions[0], history.versions[1]).changes, "the twin"


def test_a_chunk_that_moved_is_said_to_have_moved():
    a, b, c = (Chunk(name, name * 3) for name in "abc")
    found = diff_texts(Skill("", (a, b, c)), Skill("", (c, a, b)))
    assert [(change.kind, change.new) for change in found.changes] == [("moved", (c,))] and found.same == (a.id, b.id)


def test_a_diff_in_a_pipe_marks_words_and_has_no_colours(planted, capsys):
    status, out, _ = said(capsys, "skill", "diff", f"{planted}@0", f"{planted}@1")
    assert status == 0 and "\x1b" not in out
    assert "Procedure: [-prefer round prices-]{+convert every foreign currency+}." in out
    data = json.loads(said(capsys, "skill", "diff", f"{planted}@0", f"{planted}@1", "--json")[1])
    assert [change["kind"] for change in data["changes"]] == ["rewritten", "added"]


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path, capsys):
    old, new = tmp_path / "a.md", tmp_path / "b.md"
    old.write_text("### A\n\nplain\n")
    new.write_text("### A\n\nplain \x1b[31mred\n")
    assert "\x1b" not in said(capsys, "skill", "diff", old, new)[1]


TEXTS = st.text("ab  .\n红色", max_size=24)


@given(TEXTS, TEXTS)
def test_the_two_sides_of_a_word_diff_are_the_two_texts(old, new):
    runs = word_diff(old, new)
    assert "".join(text for mark, text in runs if mark != "added") == old
    assert "".join(text for mark, text in runs if mark != "removed") == new


LINES = st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(LINES)
def test_blame_covers_every_line_once_and_finds_its_first_round(kept):
    """One chunk, rewritten every round: with all lines different, a line is as old as its unbroken stay."""
    with TemporaryDirectory() as name:
        skill, since = Skill("Preamble.", ()), {}
        for number, lines in enumerate(kept):
            chunk = Chunk(f"T{number}", "\n".join([f"line {i}" for i in sorted(lines)] + [f"end {number}"]))
            since = {i: since.get(i, number) for i in lines}
            start = Skill("Preamble.", (chunk, Chunk("Other", "stays")))
            edits = (Edit((skill.ids[0],), (chunk,)),) if number else ()
            skill = commit(Path(name), number, skill if number else start, edits, {chunk.title: 0.2})
        history = read_history(Path(name))
        found = blame(history, history.newest)
    assert "\n".join(line.text for line in found) + "\n" == skill.to_markdown()
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    ages = {line.text: line.origin.round_index for line in found}
    assert {i: ages[f"line {i}"] for i in since} == since
    assert ages[f"end {len(kept) - 1}"] == len(kept) - 1


def test_a_revert_waits_for_the_next_round_and_changes_no_sealed_file(chain, capsys):
    root, _ = chain
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    status, out, _ = said(capsys, "skill", "revert", root, "--to", "2")
    text = (root / NEXT_SKILL).read_text()
    wanted = read_history(root).versions[2].skill
    assert status == 0 and text == next_skill_text("round_003", wanted) and "delete" in out
    assert all(path.read_bytes() == content for path, content in before.items())
    assert "waits for the next round already" in said(capsys, "skill", "revert", root, "--to", "1")[2]


def test_one_chunk_goes_back_with_everything_that_hangs_together_with_it(chain, capsys, tmp_path):
    root, texts = chain
    out = tmp_path / "back.md"
    assert said(capsys, "skill", "revert", root, "--to", "0", "--chunk", "Right again", "--out", out)[0] == 0
    assert parse_skill(out.read_text()).chunks == (texts["A"], texts["B"])
    assert not (root / NEXT_SKILL).exists()
    again = tmp_path / "one.md"
    assert said(capsys, "skill", "revert", root, "--to", "2", "--chunk", "Right", "--out", again)[0] == 0
    assert parse_skill(again.read_text()).chunks == (texts["L"], texts["R"])


def test_a_revert_that_would_change_nothing_is_refused(chain, capsys):
    root, _ = chain
    assert "nothing to revert" in said(capsys, "skill", "revert", root, "--to", "3")[2]
    assert "nothing to revert" in said(capsys, "skill", "revert", root, "--to", "2", "--chunk", "Left")[2]
    assert not (root / NEXT_SKILL).exists()


def test_a_finished_run_takes_no_revert_but_writes_a_file(planted, capsys, tmp_path):
    assert "finished its 3 rounds" in said(capsys, "skill", "revert", planted, "--to", "0")[2]
    out = tmp_path / "old.md"
    assert said(capsys, "skill", "revert", planted, "--to", "0", "--out", out)[0] == 0
    assert parse_skill(out.read_text()) == read_history(planted).versions[0].skill
    assert "is there already" in said(capsys, "skill", "revert", planted, "--to", "0", "--out", out)[2]


def test_the_next_round_takes_a_revert_through_its_gate_as_a_persons_edit(planted, tmp_path, capsys):
    root = shutil.copytree(planted, tmp_path / "run")
    shutil.rmtree(root / "final")
    for number in (2, 3):
        shutil.rmtree(root / f"round_{number:03d}")
    assert said(capsys, "skill", "revert", root, "--to", "0")[0] == 0
    run(config(root))
    history = read_history(root)
    persons = [tried for tried in history.versions[2].edits if tried.author == "person"]
    texts = {chunk_id for tried in persons for chunk_id in (*tried.edit.removes, *tried.edit.added_ids)}
    assert texts == {history.chunk(title).id for title in (OLD, NEW, ADDED)}
    assert not (root / NEXT_SKILL).exists()


def test_a_reader_that_goes_away_ends_the_command_quietly(planted):
    code = f"import sys; from intraskill.cli import main; sys.exit(main(['skill', 'log', {str(planted)!r}, '--json']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 141


def test_a_file_has_no_history(planted, capsys):
    status, _, err = said(capsys, "skill", "blame", planted / "round_001" / "skill.md")
    assert status == 2 and "has no history" in err
    with pytest.raises(ArtifactError, match="names a chunk"):
        from intraskill.report.skill_source import run_version

        run_version(f"{planted}@{read_history(planted).newest.skill.ids[0]}")


def test_a_proposal_that_the_ledger_keeps_away_is_shown_with_the_round_until_which(tmp_path, capsys):
    harmful = {"title": "Hum a tune", "effect": -0.3, "missing": True}
    again = config(tmp_path / "run")
    again.env.options["chunks"] = [*PLANTED, harmful]
    root = run(again)
    log = {entry["round"]: entry for entry in log_json(read_history(root))}
    assert [edit["taken"] for edit in log[1]["edits"] if edit["adds"][0]["title"] == "Hum a tune"] == [False]
    (away,) = [entry for entry in log[2]["untested"] if entry["titles"] == ["Hum a tune"]]
    assert away["fate"] == "blocked_by_ledger" and away["support"], away
    assert "in round 1 (" in away["reason"] and away["reason"].endswith("kept away until round 3")
    assert main(["skill", "log", str(root)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("kept away until round 3") == 1 and "no test ADD Hum a tune by rules blocked" in told
