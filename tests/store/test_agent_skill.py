"""The Agent Skills folder: each rule of the front matter, the budget of the body, and the way back."""

import json
import shutil
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from intraskill.history.imports import import_skill
from intraskill.method.errors import ArtifactError, SkillFormatError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.agent_skill import (
    MAX_LINES,
    MAX_TOKENS,
    describe,
    estimate_tokens,
    fits,
    front_matter_problems,
    one_line,
    reference,
    render_body,
    render_front_matter,
    skill_name,
)
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.agent_skill import CHUNKS_FILE, CHUNKS_FORMAT, is_export, read_export, read_skill, split_document

GOOD = {"name": "shopping-skill", "description": "Buys things. Use when a list is long.", "metadata": {"round": "3"}}
FOLDER = "shopping-skill"


def text_of(skill, name=FOLDER):
    fields = {"name": name, "description": describe("shopping", skill)}
    body, moved = render_body(skill)
    return f"{render_front_matter(fields, {'skill': skill.hash})}\n{body}", moved


def write_folder(folder, skill):
    text, moved = text_of(skill, folder.name)
    folder.mkdir(parents=True)
    for path, content in {"SKILL.md": text, **moved}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8", newline="\n")
    rows = [
        {"id": chunk.id, "file": reference(chunk.id) if reference(chunk.id) in moved else "SKILL.md"}
        for chunk in skill.chunks
    ]
    side = {"format": CHUNKS_FORMAT, "skill": skill.hash, "chunks": rows}
    (folder / CHUNKS_FILE).write_text(json.dumps(side), encoding="utf-8")
    return folder


def validator_says(folder):
    """The reference validator's complaints, by its own code."""
    validate = pytest.importorskip("skills_ref.validator", reason="skills-ref is not installed").validate
    return validate(folder)


def test_a_right_front_matter_breaks_no_rule():
    assert front_matter_problems(GOOD, FOLDER) == ()
    optional = {"license": "Apache-2.0", "compatibility": "any agent", "allowed-tools": "Read"}
    assert front_matter_problems({**GOOD, **optional}, FOLDER) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "1"}, "there is no key 'version'"),
        ({"name": "Shopping"}, "lower-case"),
        ({"name": "shopping--skill"}, "single hyphens"),
        ({"name": "-shopping"}, "single hyphens"),
        ({"name": "shöpping"}, "ASCII"),
        ({"name": ""}, "1 to 64"),
        ({"name": "a" * 65}, "1 to 64"),
        ({"name": 7}, "1 to 64"),
        ({"name": "another"}, "not the folder's name"),
        ({"description": ""}, "1 to 1024"),
        ({"description": "Use when " + "x" * 1016}, "1 to 1024"),
        ({"description": None}, "1 to 1024"),
        ({"description": "It buys things."}, "Use when"),
        ({"description": "Use when\nit rains"}, "one line"),
        ({"description": "Use when <b>"}, "holds '<'"),
        ({"description": "Use when a>b"}, "holds '>'"),
        ({"description": "Use when --- so"}, "holds '---'"),
        ({"compatibility": "x" * 501}, "at most 500"),
        ({"license": 2}, "must be a text"),
        ({"metadata": "round 3"}, "a mapping"),
        ({"metadata": {"round": 3}}, "must be texts"),
        ({"metadata": {"a round": "3"}}, "written like a name"),
        ({"metadata": {"round": "3\n4"}}, "one line"),
        ({"metadata": {"round": "---"}}, "holds '---'"),
    ],
)
def test_each_rule_of_the_front_matter_is_enforced(change, words):
    problems = front_matter_problems({**GOOD, **change}, FOLDER)
    assert len(problems) >= 1 and any(words in problem for problem in problems)


def test_longest_legal_values_are_legal():
    name = "a" * 64
    assert front_matter_problems({"name": name, "description": "Use when " + "x" * 1015}, name) == ()
    assert front_matter_problems({**GOOD, "compatibility": "x" * 500}, FOLDER) == ()


@given(st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=12))
def test_any_family_and_any_skill_make_a_legal_description_and_name(family, texts):
    chunks = {}
    for title, condition in texts:
        shown = " ".join(title.split()) or "t"
        if len(shown.splitlines()) == 1:
            body = f"Applies when: {one_line(condition)}".strip()
            chunks[shown] = Chunk(shown, body)
    skill = Skill("", tuple(chunks.values()))
    name = skill_name(family)
    assert front_matter_problems({"name": name, "description": describe(family, skill)}, name) == ()


def test_a_description_says_what_and_when_and_counts_what_it_leaves_out():
    some = Skill("", (Chunk("Compare prices", "Applies when: two shops sell it.\nCompare."), Chunk("Wait", "Wait.")))
    assert describe("shopping", some) == (
        "Procedures for shopping tasks, each kept for its measured contribution: Compare prices; Wait. "
        "Use when two shops sell it."
    )
    assert describe("shopping", Skill("", (Chunk("Wait", "Wait."),))).endswith("Use when working on shopping tasks.")
    many = Skill("", tuple(Chunk(f"Step {n} of a long way", f"Applies when: it is {n} o'clock.") for n in range(99)))
    assert "; and " in describe("shopping", many) and len(describe("shopping", many)) <= 1024


@given(st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(), max_size=4), st.text())
@example({"no": "", "on": "x", "null": "y"}, "")
def test_a_front_matter_comes_back_from_yaml_as_it_went_in(metadata, description):
    shown = {key: one_line(value) for key, value in metadata.items()}
    fields = {"name": "x", "description": one_line(description)}
    front = split_document(render_front_matter(fields, shown) + "\nbody").front
    assert front == {**fields, **({"metadata": shown} if shown else {})}


def test_a_front_matter_that_is_not_closed_or_no_mapping_is_refused():
    assert split_document("---\nname: x\n---\nb").front == {"name": "x"}
    assert split_document("no front\n---\n").front == {}
    for text, words in (
        ("---\nname: x\n", "never closed"),
        ("---\n- a\n---\n", "a list"),
        ("---\na: [\n---\n", "YAML"),
    ):
        with pytest.raises(SkillFormatError, match=words):
            split_document(text)


def test_the_token_estimate_errs_upwards():
    assert estimate_tokens("procedure") == 3 and estimate_tokens("a b, 12\n") == 6
    assert estimate_tokens("价格") == len("价格".encode())
    assert estimate_tokens("") == 0


def test_a_long_body_moves_its_largest_chunks_into_references(tmp_path):
    small = Chunk("Small", "Applies when: little is asked.\nDo little.")
    large = Chunk("Large", "Applies when: much is asked.\n" + "word " * 2600 + "end")
    skill = Skill("# A skill", (small, large))
    body, moved = render_body(skill)
    assert list(moved) == [f"references/{large.id}.md"] and f"({reference(large.id)})" in body
    assert "Applies when: much is asked." in body and "word word" not in body and fits(body)
    folder = write_folder(tmp_path / FOLDER, skill)
    assert read_export(folder)[0] == skill and validator_says(folder) == []
    (folder / reference(large.id)).unlink()
    with pytest.raises(SkillFormatError, match="missing, 1: references/large"):
        read_export(folder)


def test_an_export_given_as_a_skill_is_whole_and_its_front_matter_is_no_text_of_it(tmp_path):
    large = Chunk("Large", "Applies when: much is asked.\n#### kept\n" + "word " * 2600 + "end")
    skill = Skill("# A skill", (Chunk("Small", "Do little.\n\nTitle\n---\nmore"), large))
    folder = write_folder(tmp_path / FOLDER, skill)
    shutil.make_archive(str(tmp_path / "plain"), "zip", folder)
    shutil.make_archive(str(tmp_path / "within"), "zip", tmp_path, FOLDER)
    windows = shutil.copytree(folder, tmp_path / "windows")
    for file in windows.rglob("*.*"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    for path in (folder, folder / "SKILL.md", windows, tmp_path / "plain.zip", tmp_path / "within.zip"):
        said = []
        again = read_skill(path, said.append)
        assert again == skill and again.hash == skill.hash and said == []
        assert "description" not in again.render() and skill.hash not in again.render()
        assert import_skill(path, LeakFilter()).skill == skill


def test_a_body_is_cut_by_lines_as_well_as_by_tokens():
    chunks = tuple(Chunk(f"C{n}", "\n".join(["x"] * 97)) for n in range(5))
    assert fits(render_body(Skill("", chunks[:4]))[0]) and render_body(Skill("", chunks[:4]))[1] == {}
    body, moved = render_body(Skill("", chunks))
    assert len(moved) == 1 and body.count("\n") + 1 < MAX_LINES and estimate_tokens(body) < MAX_TOKENS


def test_a_preamble_over_the_budget_is_one_clear_error():
    with pytest.raises(SkillFormatError, match="shorten the preamble"):
        render_body(Skill("word " * 5000 + "end", (Chunk("A", "b"),)))


def bodies():
    lines = st.sampled_from(
        ["a word", "", "- item", "---", "## two", "#### four", "价格 先看", "Applies when: x.", "<b>"]
    )
    fenced = st.just("```\n### no heading\n```")
    return st.lists(lines | fenced | st.text(st.characters(codec="utf-8", exclude_characters="\r`~#")), max_size=8).map(
        lambda parts: "\n".join(parts).strip()
    )


@st.composite
def skills(draw):
    titles = draw(st.lists(st.sampled_from(["One", "Two words", "第三", "4: x", "[l](m)", "---"]), max_size=5))
    chunks = {}
    for title in titles:
        body = draw(bodies())
        body = body if len(body) % 3 else (body + "\n" + "long " * 900 + "end").strip()
        chunk = Chunk(title, body)
        chunks[chunk.id] = chunk
    return Skill(draw(bodies()), tuple(chunks.values()))


@settings(deadline=None, max_examples=60)
@given(skills())
def test_import_of_an_export_is_the_same_skill(tmp_path_factory, skill):
    folder = write_folder(tmp_path_factory.mktemp("e") / FOLDER, skill)
    assert is_export(folder)
    again, _ = read_export(folder)
    assert again == skill and again.hash == skill.hash
    assert validator_says(folder) == []
    assert b"\r" not in (folder / "SKILL.md").read_bytes()


def test_a_side_file_of_another_kind_is_no_export(tmp_path):
    folder = write_folder(tmp_path / FOLDER, Skill("", (Chunk("A", "b"),)))
    (folder / CHUNKS_FILE).write_text("{}")
    assert not is_export(folder)
    with pytest.raises(ArtifactError, match="does not list chunks"):
        read_export(folder)


def test_a_side_file_cannot_point_out_of_its_folder(tmp_path):
    folder = write_folder(tmp_path / FOLDER, Skill("", (Chunk("A", "b"),)))
    for row in ({"id": "../../x", "file": "references/../../x.md"}, {"id": "a", "file": "/etc/hosts"}):
        (folder / CHUNKS_FILE).write_text(json.dumps({"format": CHUNKS_FORMAT, "chunks": [row]}))
        with pytest.raises(ArtifactError, match="outside references/"):
            read_export(folder)


def test_the_reference_validator_sees_what_our_rules_see(tmp_path):
    folder = write_folder(tmp_path / FOLDER, Skill("", (Chunk("A", "b"),)))
    assert validator_says(folder) == []
    said = subprocess.run(
        [sys.executable, "-c", "from skills_ref.cli import main; main()", "validate", str(folder)],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    folder.rename(tmp_path / "another")
    assert any("must match skill name" in problem for problem in validator_says(tmp_path / "another"))
