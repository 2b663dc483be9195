"""What the documents say is true: examples run, links lead somewhere."""

import doctest
import re
from pathlib import Path

import pytest

from intraskill.cli import main

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_examples_of_the_paired_validation_contract_run() -> None:
    failed, tried = doctest.testfile(str(ROOT / "paired_validation.md"), module_relative=False, optionflags=FLAGS)
    assert tried > 20 and failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_module_that_a_document_names_exists(path: Path) -> None:
    named = re.findall(r"`intraskill\.([a-z_0-9.]+)`", path.read_text(encoding="utf-8"))
    files = [ROOT / "src" / "intraskill" / name.replace(".", "/") for name in named]
    assert [str(f) for f in files if not (f.with_suffix(".py").exists() or f.is_dir() or _member(f))] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
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
