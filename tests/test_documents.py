"""What the documents say is true: examples run; links, paths, modules, commands and experiments exist."""

import doctest
import re
from pathlib import Path

import pytest

from intraskill.cli import main

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MOST_LINES = 150
EACH = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_examples_of_the_paired_validation_contract_run() -> None:
    failed, tried = doctest.testfile(str(ROOT / "paired_validation.md"), module_relative=False, optionflags=FLAGS)
    assert tried > 20 and failed == 0


@EACH
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@EACH
def test_every_anchor_leads_to_a_heading(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)]+)\)", path.read_text(encoding="utf-8"))
    assert [anchor for file, anchor in targets if anchor not in _anchors(path.parent / file if file else path)] == []


@EACH
def test_every_path_that_a_document_names_exists(path: Path) -> None:
    named = re.findall(r"`((?:src|scripts|tests|docs|configs)/[\w./-]+)`", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


@EACH
def test_every_experiment_that_a_document_names_exists(path: Path) -> None:
    named = re.findall(r"\+exp=([a-z_]+)", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / "configs" / "exp" / f"{name}.yaml").exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@EACH
def test_every_module_that_a_document_names_exists(path: Path) -> None:
    named = re.findall(r"`intraskill\.([a-z_0-9.]+)`", path.read_text(encoding="utf-8"))
    files = [ROOT / "src" / "intraskill" / name.replace(".", "/") for name in named]
    assert [str(f) for f in files if not (f.with_suffix(".py").exists() or f.is_dir() or _member(f))] == []


@EACH
def test_every_command_that_a_document_names_exists(path: Path, capsys) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    verbs = re.findall(r"^ {4}([a-z]+)", capsys.readouterr().out, re.MULTILINE)
    assert "train" in verbs
    named = re.findall(r"(?:`|^\s*\$? ?)intraskill ([a-z]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(set(named) - set(verbs)) == []


def _member(path: Path) -> bool:
    module = path.parent.with_suffix(".py")
    return module.exists() and re.search(rf"\b{path.name}\b", module.read_text()) is not None


def _anchors(path: Path) -> set[str]:
    """The names that GitHub gives to the headings of a document."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
