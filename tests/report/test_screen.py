"""One door to the terminal, and how texts are quoted for who reads them."""

import ast
import io
import json
from pathlib import Path

import pytest

from intraskill.config.overrides import compose
from intraskill.config.quoting import assignment, shown
from intraskill.report.screen import Screen, fitting
from intraskill.report.sheet import Cell, Column, as_csv, as_latex, sheet

SOURCES = Path(__file__).parents[2] / "src" / "intraskill"
DOOR, BAR = "report/screen.py", "report/live.py"


def past_the_door(source: str) -> list[str]:
    """Every use of rich, and every write to a standard stream, in a source."""
    uses = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            uses += [alias.name for alias in node.names if alias.name.split(".")[0] == "rich"]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rich":
            uses += [f"{node.module}.{alias.name}" for alias in node.names]
        if isinstance(node, ast.Call):
            words = ast.unparse(node.func)
            safe = node.args and ast.unparse(node.args[0]).startswith("shown(")
            if words == "print" or (words in ("sys.stdout.write", "sys.stderr.write") and not safe):
                uses.append(ast.unparse(node))
    return uses


def test_nothing_is_printed_past_the_door():
    passing = {}
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        uses = past_the_door(path.read_text(encoding="utf-8"))
        if name == BAR:
            uses = [use for use in uses if not use.startswith("rich.progress.")]
        uses = [use for use in uses if use not in ("rich.text.Text", "sys.stdout.write('\\n')")]
        if uses and name != DOOR:
            passing[name] = uses
    assert passing == {}


def test_the_door_and_the_bar_know_no_markup():
    door, bar = ((SOURCES / name).read_text(encoding="utf-8") for name in (DOOR, BAR))
    consoles = [node for node in ast.walk(ast.parse(door)) if isinstance(node, ast.Call)]
    made = [node for node in consoles if ast.unparse(node.func) == "Console"]
    assert made and all("markup=False" in ast.unparse(node) for node in made)
    columns = [node for node in ast.walk(ast.parse(bar)) if isinstance(node, ast.Call)]
    texts = [ast.unparse(node) for node in columns if ast.unparse(node.func) == "TextColumn"]
    assert len(texts) == 3 and all("markup=False" in text for text in texts)


@pytest.mark.parametrize(
    "line",
    [
        "from rich.console import Console",
        "import rich.table",
        "print(title)",
        "sys.stdout.write(f'{title}')",
        "sys.stderr.write(message)",
    ],
)
def test_the_rule_sees_what_goes_past_the_door(line):
    assert past_the_door(line)


def test_what_would_move_a_terminal_is_shown():
    said = shown("a\x1b[2J\x9b\u202e\u2066\ufeff\x7f\r b\n\tc")
    assert said == r"a\u001b[2J\u009b\u202e\u2066\ufeff\u007f\u000d b" + "\n\tc"
    assert json.loads(f'"{shown(chr(0xE0041))}"') == chr(0xE0041) and shown("Zürich 中文 👍🏽") == "Zürich 中文 👍🏽"
    stream = io.StringIO()
    Screen(stream).write("page \x1b]0;title\x07\n")
    assert stream.getvalue() == "page \\u001b]0;title\\u0007\n"


@pytest.mark.parametrize(
    "path",
    ["runs/a", "a b", "[x]/run", "{x}", "hy/[x]", "a,b", "it's", 'say "x"', "a\\", "a\\'b", "C:\\x\\y z", "${seed}",
     "\\${seed}", "中/文", "$(id)", "12", "null", "true", "a=b", "1e3", " a ", "~", "*", "(x)"],
)  # fmt: skip
def test_an_override_comes_back_as_it_was_meant(path):
    assert compose([assignment("run_dir", path)]).run_dir == path


def test_columns_fall_by_priority_and_what_is_fixed_stays():
    columns = [Column("name"), Column("a", 1), Column("b", 2), Column("c", 3), Column("key")]
    widths = [(10, 30), (10, 10), (20, 20), (5, 5), (6, 6)]
    assert fitting(columns, widths, 80) == [0, 1, 2, 3, 4]
    assert fitting(columns, widths, 50) == [0, 1, 3, 4]
    assert fitting(columns, widths, 36) == [0, 1, 4]
    assert fitting(columns, widths, 10) == [0, 4]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", " =1", "＝1"])
def test_no_text_is_a_formula_in_a_spreadsheet(text):
    table = sheet("", [Column("name"), Column("x", parts=("x",))], [[text, Cell("-1.5", (-1.5,))]])
    line = as_csv(table).splitlines()[1]
    assert line.startswith("'") and line.endswith(",-1.5")


def test_latex_sets_every_special_sign():
    table = sheet("two\nlines", [Column("name")], [["[x] \\ { } $ & # % _ ~ ^ < > |"]])
    row = as_latex(table).splitlines()[5]
    assert row == (
        r"{}[x] \textbackslash{} \{ \} \$ \& \# \% \_ \textasciitilde{} \textasciicircum{} \textless{} "
        r"\textgreater{} \textbar{} \\"
    )
