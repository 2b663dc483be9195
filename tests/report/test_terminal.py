"""What people see, end to end: hostile names in a real run, narrow terminals, old encodings, closed outputs."""

import csv
import io
import os
import re
import shlex
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from planted_runs import planted_config

from intraskill.rounds.loop import run

TITLES = (
    "Use [/] keys",
    "=SUM(A1)|x",
    "点击搜索按钮之前先检查商品标题和价格是否符合要求",
    "A title that is too long for a narrow table, with 50% & $5 in it_",
)
ESCAPES = "esc \x1b[31mred\u202e"
COPIED = ("Run directory: ", "  intraskill ", "  git diff ", "Saved in ")
"""Lines that are there to be copied, and never wrapped."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    place = tmp_path_factory.mktemp("hostile") / "hy [x] 'q' \"z\" 中 $(id)" / "[bold]"
    titles = (*TITLES, ESCAPES)
    config = planted_config(
        place, chunks=[{"title": title, "effect": 0.3 - 0.1 * at} for at, title in enumerate(titles)]
    )
    config.rounds = 1
    return run(config)


def ran(*words, columns=80, encoding="utf-8", **variables):
    env = os.environ | {"COLUMNS": str(columns), "PYTHONIOENCODING": encoding} | variables
    command = [sys.executable, "-m", "intraskill", *map(str, words)]
    done = subprocess.run(command, capture_output=True, env=env, check=False)
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


def cells(text):
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def names(out, heading):
    """The first column of a table, its lines joined and without blanks."""
    table = out.partition(heading)[2].partition("chunk")[2].splitlines()[2:]
    joined = []
    for line in table:
        if not (match := re.match(r"^[│|] (.*?) +[│|] (.*)$", line)):
            break
        joined.append(match[1].replace(" ", ""))
    return "".join(joined)


def as_carried(text, encoding):
    """A title as an encoding can show it."""
    letters = text.replace(" ", "")
    return "".join(letter if letter.encode(encoding, "ignore") else f"\\u{ord(letter):04x}" for letter in letters)


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "cp1252", "gbk"])
def test_a_report_fits_and_every_name_is_there(hostile, columns, encoding):
    status, out, errors = ran("report", hostile, columns=columns, encoding=encoding)
    assert status == 0 and errors == ""
    for line in out.splitlines():
        assert cells(line) <= columns or line.startswith(COPIED), line
    written = names(out, "relative")
    for title in TITLES:
        assert as_carried(title, encoding) in written
    assert "--wide" in out and f"{columns} columns are too few for" in out.replace("\n", " ")


@pytest.mark.parametrize("columns", [80, 40])
def test_a_gate_fits_and_prefers_the_interval_that_covers_together(hostile, tmp_path, columns):
    words = ("validate", "--ckpt", hostile / "round_000", "--out", tmp_path)
    status, out, errors = ran(*words, columns=columns)
    assert status == 0 and "Traceback" not in errors
    for line in out.splitlines():
        assert cells(line) <= columns or line.startswith((*COPIED, "The bare")), line
    document = (hostile / "round_000" / "skill.md").read_text(encoding="utf-8")
    kept = [title for title in TITLES if f"### {title}\n" in document]
    assert len(kept) > 2 and all(title.replace(" ", "") in names(out, "relative") for title in kept)
    table = out.partition("What was measured")[0].partition("columns are too few")[0]
    assert ("95 % together" in table) == (columns == 80) and "95 % interval" not in table
    status, out, _ = ran(*words, "--wide", columns=columns)
    assert status == 0 and "95 % together" in out and "95 % interval" in out and "too few for:" not in out


def test_csv_keeps_numbers_and_disarms_formulas(hostile):
    status, out, errors = ran("report", hostile, "--format", "csv")
    assert status == 0 and "Run directory" in errors
    tables = [list(csv.DictReader(io.StringIO(text))) for text in out.split("\n\n")]
    chunks = {row["chunk"]: row for row in tables[1]}
    assert {"Use [/] keys", "'=SUM(A1)|x"} < set(chunks)
    betas = [float(row["round 0"]) for row in chunks.values()]
    assert min(betas) < 0 < max(betas) or all(betas)
    assert all(float(row["round 0 SE"]) > 0 for row in chunks.values())
    assert float(tables[0][0]["R_free low"]) < float(tables[0][0]["R_free"])


def test_markdown_and_latex_are_escaped(hostile):
    out = ran("report", hostile, "--format", "md")[1]
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    widths = {len(re.findall(r"(?<!\\)\|", row)) for row in rows if "SUM" in row or "Use " in row}
    assert r"=SUM(A1)\|x" in out and r"Use \[/\] keys" in out and len(widths) == 2  # two tables of chunks
    out = ran("report", hostile, "--format", "latex")[1]
    assert r"50\% \& \$5 in it\_" in out and r"=SUM(A1)\textbar{}x" in out and out.count(r"\begin{tabular}") == 4


@pytest.mark.parametrize("form", ["table", "md", "csv", "latex"])
@pytest.mark.parametrize("words", [("gate", "plan"), ("skill", "log"), ("eval", "--ckpt")])
def test_every_command_of_tables_takes_a_format(hostile, tmp_path, words, form):
    run_words = () if words[0] == "gate" else (hostile,)
    out = ("--out", tmp_path) if words[0] == "eval" else ()
    status, printed, errors = ran(*words, *run_words, *out, "--format", form)
    assert status == 0 and "Traceback" not in errors
    mark = {"table": "┏━", "md": "\n|---", "csv": ",", "latex": r"\begin{tabular}"}[form]
    assert mark in printed


@pytest.mark.parametrize("words", [(), ("--format", "table"), ("--format", "md"), ("--format", "csv"), ("--json",)])
def test_escapes_of_a_title_are_shown_and_not_sent(hostile, words):
    status, out, _ = ran("skill", "log", hostile, *words, columns=400)
    assert status == 0 and "\x1b" not in out and "\u202e" not in out
    assert "31mred" in out and "u202e" in out


def test_a_skill_in_a_pipe_is_the_text_itself_and_on_a_terminal_it_is_shown(tmp_path):
    path = tmp_path / "skill.md"
    path.write_text("### A\n\nplain \x1b[31mred\n", encoding="utf-8")
    assert ran("skill", "show", path)[1] == path.read_text(encoding="utf-8")
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    subprocess.run([sys.executable, "-m", "intraskill", "skill", "show", str(path)], stdout=writer, check=True)
    os.close(writer)
    said = os.read(reader, 65536)
    os.close(reader)
    assert b"plain \\u001b[31mred" in said and b"\x1b" not in said


def test_an_error_quotes_what_it_was_given_without_its_powers(tmp_path):
    status, out, errors = ran("report", tmp_path / "[/] \x1b[31m\u202e[bold]")
    assert status == 2 and out == "" and "\x1b" not in errors and "\u202e" not in errors
    assert r"[/] \u001b[31m\u202e[bold]" in errors and errors.count("\n") == 1


def test_the_commands_that_a_report_suggests_can_be_pasted(hostile):
    out = ran("report", hostile)[1]
    python = f"{shlex.quote(sys.executable)} -m intraskill"
    for line in [line for line in out.splitlines() if line.startswith(("  intraskill skill", "  intraskill report"))]:
        script = f'intraskill() {{ {python} "$@"; }}\n{line}'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stderr == "", line
    assert "  intraskill report " in out and "  intraskill skill show " in out
    status, _, errors = ran("skill", "blame", hostile, "--chunk", ESCAPES)
    assert status == 2 and shlex.quote(str(hostile)) in errors


@pytest.mark.parametrize("output, status", [(">&-", 0), (">/dev/full", 2), (">/dev/null 2>&-", 0)])
def test_a_closed_or_full_output_is_no_traceback(hostile, output, status):
    script = f"{shlex.quote(sys.executable)} -m intraskill report {shlex.quote(str(hostile))} {output}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == status and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == (1 if status else 0)


@pytest.mark.parametrize("variables, coloured", [({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False), ({}, True)])
def test_colours_are_only_for_a_terminal_that_wants_them(hostile, variables, coloured):
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    quiet = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CI", "COLUMNS")}
    env = quiet | {"TERM": "xterm-256color", "COLUMNS": "80"} | variables
    command = [sys.executable, "-m", "intraskill", "report", str(hostile), "--wide"]
    with subprocess.Popen(command, stdout=writer, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(writer)
        said = b""
        try:
            while part := os.read(reader, 65536):
                said += part
        except OSError:
            pass
    os.close(reader)
    assert process.returncode == 0 and b"Use [/] keys" in said
    assert (re.search(rb"\x1b\[[0-9;]*3[0-9]m", said) is not None) == coloured


def test_the_run_directory_of_a_flag_is_taken_as_it_is(tmp_path):
    for name in ("a,b", "[x]", "it's ${oc.env:HOME}", "中 文\\"):
        place = Path(tmp_path, name)
        words = ("train", "+exp=planted", "rounds=0", "final.tasks=0", "--run-dir", place)
        status, _, errors = ran(*words)
        assert status == 0 and (place / "plan.json").is_file(), errors
