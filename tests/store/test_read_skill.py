"""Skills as people keep them: every shape is read whole, and one that would show nothing is refused."""

from pathlib import Path

import pytest
from planted_runs import planted_config

from intraskill.cli import main
from intraskill.method.errors import ArtifactError, SkillFormatError
from intraskill.store.agent_skill import read_skill
from intraskill.store.provenance import draft_of

OURS = "# Shopping\n\nBuy well.\n\n### Search\n\nUse few words.\n\n### Price\n\nKeep the budget.\n"
STANDARD = """---
name: shopping
description: Shop well: compare, then buy
---
# Shopping

Buy well.

## Search

Use few words:

```
# not a heading
search[mug]
```

## Price

| limit | rule |
|---|---|
| 40 | stay below |

### Discounts

A price of today counts.
"""


def titles(path: Path) -> list[str]:
    return [chunk.title for chunk in read_skill(path).chunks]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain", OURS.encode()),
        ("byte-order mark", OURS.removeprefix("# Shopping\n\nBuy well.\n\n").encode("utf-8-sig")),
        ("CRLF", OURS.replace("\n", "\r\n").encode()),
        ("front matter", f"---\nname: x\ndescription: a: b\n---\n{OURS}".encode()),
        ("mark, CRLF and front matter", f"---\r\nname: x\r\n---\r\n{OURS}".encode("utf-8-sig")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_our_form_is_read_whole_however_it_was_saved(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "skill.md"
    path.write_bytes(data)
    skill = read_skill(path)
    assert [(chunk.title, chunk.body) for chunk in skill.chunks] == [
        ("Search", "Use few words."),
        ("Price", "Keep the budget."),
    ]
    assert "name: x" not in skill.preamble


def test_a_standard_skill_is_read_by_its_sections(tmp_path: Path) -> None:
    path = tmp_path / "SKILL.md"
    path.write_text(STANDARD)
    skill = read_skill(path)
    assert titles(path) == ["Search", "Price", "Discounts"]
    assert "search[mug]" in skill.chunks[0].body and "# not a heading" in skill.chunks[0].body
    assert "| 40 | stay below |" in skill.chunks[1].body
    assert skill.preamble == "# Shopping\n\nBuy well."


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md", "Skill.MD"])
def test_a_folder_is_read_by_its_skill_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(STANDARD)
    (tmp_path / "LICENSE").write_text("free")
    assert len(read_skill(tmp_path).chunks) == 3


def test_headings_of_level_one_alone_are_sections(tmp_path: Path) -> None:
    path = tmp_path / "skill.md"
    path.write_text("# First\n\na\n\n# Second\n\nb\n")
    assert titles(path) == ["First", "Second"]


@pytest.mark.parametrize(
    "text", ["", "Buy the cheapest.\n", "# Only a title\n\nand text\n", "```\n## in a fence\n```\n"]
)
def test_a_document_that_would_show_nothing_is_refused_with_what_a_chunk_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "skill.md"
    path.write_text(text)
    with pytest.raises(SkillFormatError, match=r"skill\.md holds no chunk, .* A chunk is a section with a heading"):
        read_skill(path)


def test_a_file_that_is_no_utf_8_says_how_to_save_it(tmp_path: Path) -> None:
    path = tmp_path / "skill.md"
    path.write_bytes(OURS.encode("utf-16"))
    with pytest.raises(ArtifactError, match="UTF-16; save it as UTF-8"):
        read_skill(path)
    path.write_bytes("### Preis\n\nGrüße".encode("latin-1"))
    with pytest.raises(ArtifactError, match="not UTF-8"):
        read_skill(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match=r"holds no SKILL\.md"):
        read_skill(tmp_path / "empty")


def test_no_command_takes_an_empty_treatment_for_a_treatment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.md"
    path.write_text("Buy the cheapest.\n")
    words = ["train", "+exp=planted", f"run_dir={tmp_path / 'run'}", f"coldstart.draft={path}"]
    assert main(words) == 2
    assert "notes.md holds no chunk" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_draft_may_be_a_standard_skill(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(STANDARD)
    config = planted_config(tmp_path / "run")
    config.coldstart.draft = str(tmp_path)
    assert [chunk.title for chunk in draft_of(config).chunks] == ["Search", "Price", "Discounts"]
