"""Every line of a person's skill is in its front matter, preamble or chunks, or named; and all commands agree on it."""

import re
from collections import Counter
from pathlib import Path

import pytest
from planted_runs import planted_config
from skill_shapes import BESIDE, SAVED, SHAPES, document, save

from intraskill.editor.domains.task_streams import first_skill
from intraskill.history.imports import import_skill
from intraskill.method.leakage.filter import LeakFilter
from intraskill.report.skill_diff import lint
from intraskill.report.skill_source import skill_file, skill_source
from intraskill.rounds.evaluate import Source, skill_of
from intraskill.store.agent_skill import read_document, read_reading, read_skill
from intraskill.store.provenance import draft_of, named_skill

UNDERLINE = re.compile(r"=+|-+|\*+")
MARKS = " #*`"


def plain(line: str) -> str:
    """A line without heading marks, which a chunk does not keep."""
    return line.strip().strip(MARKS).rstrip(":")


def unaccounted(shape, reading) -> list[str]:
    """Lines of a document that are not in exactly one place of what was read, nor in a note."""
    texts = [reading.preamble, *(section.body for section in reading.sections)]
    there = Counter(plain(line) for text in texts for line in text.split("\n"))
    titles = [section.title for section in reading.sections if section.body]
    notes = "\n".join(reading.said())
    given = Counter(plain(line) for line in shape.text.split("\n"))
    lost = []
    for line, times in given.items():
        if not line or UNDERLINE.fullmatch(line):
            continue
        named = any(line in plain(title) for title in titles) or line in notes
        if there[line] != times and not (named and there[line] <= times):
            lost.append(f"{line!r}: {times} given, {there[line]} kept")
    return lost


@pytest.mark.parametrize("how", SAVED)
@pytest.mark.parametrize("name", SHAPES)
def test_no_line_is_lost_and_none_is_silent(tmp_path: Path, name: str, how: str) -> None:
    shape = SHAPES[name]
    reading = read_reading(save(shape, how, tmp_path))
    skill, notes = reading.skill, "\n".join(reading.said())
    assert [chunk.title for chunk in skill.chunks] == shape.titles
    assert unaccounted(shape, reading) == []
    assert all(words in notes for words in shape.said)
    shown = skill.render()
    assert not any(line and line in shown for line in shape.front.split("\n"))
    beside = how in ("folder", "zip", "skill archive")
    assert all((file in notes) is beside for file in BESIDE)
    assert bool(notes) is bool(shape.said or beside)


def test_the_account_sees_a_line_that_is_lost_or_shown_twice() -> None:
    shape = SHAPES["groups"]
    whole = read_document(shape.text, "x")
    assert unaccounted(shape, whole) == []
    assert unaccounted(shape._replace(text=shape.text + "\nlost text\n"), whole) == ["'lost text': 1 given, 0 kept"]
    assert unaccounted(shape, read_document(shape.text + "\np text\n", "x")) == ["'p text': 1 given, 2 kept"]


@pytest.mark.parametrize(("name", "how"), [(name, SAVED[i % len(SAVED)]) for i, name in enumerate(SHAPES)])
def test_every_command_reads_the_same_skill(tmp_path: Path, name: str, how: str) -> None:
    path = save(SHAPES[name], how, tmp_path)
    skill = read_skill(path)
    config = planted_config(tmp_path / "run")
    config.coldstart.draft = str(path)
    assert draft_of(config) == skill  # train
    assert skill_of(Source(tmp_path, None, None), str(path)) == skill  # validate and eval
    assert named_skill(str(path)) == first_skill(path) == skill  # editor
    assert lint(skill_file(str(path)))[1] == skill_source(str(path)).skill == skill
    assert import_skill(path, LeakFilter()).skill == skill


@pytest.mark.parametrize("name", SHAPES)
def test_what_was_read_comes_back_from_its_own_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / "notes.md"
    path.write_text(document(SHAPES[name]), newline="")
    skill = read_skill(path)
    path.write_text(skill.to_markdown(), newline="")
    assert read_skill(path) == skill
