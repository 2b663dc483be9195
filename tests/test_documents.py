"""What the documents say is true: examples run; links, paths, modules, commands and experiments exist."""

import doctest
import re
from pathlib import Path

import pytest
import yaml
from test_architecture import ORDER

from intraskill import __version__
from intraskill.cli import main
from intraskill.config.config import Config, flatten
from intraskill.config.overrides import MAPPINGS

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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_option_that_a_document_names_exists(path: Path) -> None:
    assert unknown_options(path.read_text(encoding="utf-8")) == []


def test_the_rule_on_options_sees_a_misspelt_one() -> None:
    assert unknown_options("Set `grpo.lrr`, or\n    intraskill train gate.takss=3\n") == ["gate.takss", "grpo.lrr"]
    fine = "`grpo.lr=1`, `env.options.x`, `rollout.vllm.…`, `gate.py`, `intraskill.method.gate.pairs`, the gate.So"
    assert unknown_options(fine) == []


def test_the_plan_of_the_rooms_has_every_package_from_the_ground_up() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    packages = {path.parent.name for path in ROOT.glob("src/intraskill/*/__init__.py")}
    assert set(rooms) == packages and rooms == [name for name in ORDER if name in packages]


def test_the_citation_names_the_version_of_the_code() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation) and citation["type"] == "software"
    assert str(citation["version"]) == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def unknown_options(text: str) -> list[str]:
    """Names such as ``grpo.lr``, in backticks or before ``=``, that are no option and no section of options."""
    names = flatten(Config())
    sections = {name.rpartition(".")[0] for name in names if "." in name}
    dotted = rf"(?<![\w./-])((?:{'|'.join(sections)})(?:\.\w+)+)"
    quoted = " ".join(re.findall(r"`[^`\n]*`", text))
    named = {*re.findall(dotted, quoted), *re.findall(dotted + "=", text)}
    return sorted(
        name
        for name in named - set(names) - sections
        if not name.endswith((".py", ".md", ".yaml")) and not name.startswith(tuple(f"{free}." for free in MAPPINGS))
    )


def _member(path: Path) -> bool:
    module = path.parent.with_suffix(".py")
    return module.exists() and re.search(rf"\b{path.name}\b", module.read_text()) is not None


def _anchors(path: Path) -> set[str]:
    """The names that GitHub gives to the headings of a document."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
