"""`intraskill editor` from the command line, on planted worlds with a tiny random model."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from editor.editing import planted_editing
from editor.scripted import SKILL, CountedWorker, WrittenDomain, unit

from intraskill.cli import main
from intraskill.config.config import Config, flatten
from intraskill.editor.domain import Stream, Workbench
from intraskill.editor.domains.planted import PlantedDomain, RewardVerifier
from intraskill.editor.warm_start import read_traces
from intraskill.method.errors import counted
from intraskill.method.skill.skill import parse_skill
from intraskill.store.metrics import Metrics
from intraskill.store.run_directory import read_json, read_jsonl, seal

PROBED = Stream("held", (unit(0),), SKILL, ("p",))
DOMAINS = {
    "untrained": WrittenDomain(held=(PROBED, replace(PROBED, id="held-2"))),
    "unqueried": WrittenDomain((Stream("a", (unit(0), unit(1)), SKILL),), (PROBED, replace(PROBED, id="held-2"))),
    "one_held": WrittenDomain((Stream("a", (unit(0, "q"),), SKILL),), (PROBED,)),
    "unprobed": WrittenDomain((Stream("a", (unit(0, "q"),), SKILL),), (PROBED, replace(PROBED, id="b", probes=()))),
    "none_held": WrittenDomain((Stream("a", (unit(0, "q"),), SKILL),)),
    "broken": WrittenDomain((Stream("a", (unit(0, "q"),), SKILL),), (PROBED, replace(PROBED, id="held-2"))),
}


def written(config, root):
    """The factory of the domains above; `editor.options.which` says which."""
    which = config.editor.options["which"]
    worker = CountedWorker(lambda job: None) if which == "broken" else CountedWorker()
    return Workbench(DOMAINS[which], worker, RewardVerifier())


def said(capsys, *words):
    status = main(list(words))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def overrides(config: Config) -> list[str]:
    """Return the words that make the default config this one."""
    default = flatten(Config())
    changed = {name: value for name, value in flatten(config).items() if value != default[name]}
    for name, value in changed.pop("editor.options").items():
        more = value if isinstance(value, dict) else {"": value}
        changed |= {f"editor.options.{name}.{key}".rstrip("."): one for key, one in more.items()}
    return [f"{name}={json.dumps(value) if isinstance(value, list) else value}" for name, value in changed.items()]


def small(place, name, **changes):
    config = planted_editing(place, name)
    for key, value in changes.items():
        setattr(config.editor, key, value)
    return overrides(config)


def of_domain(place, name, which):
    config = planted_editing(place, name)
    config.editor.domain, config.editor.options = "editor.test_commands:written", {"which": which}
    return overrides(config)


@pytest.fixture(scope="module")
def trained(editing_place, tmp_path_factory):
    """A finished `editor train`, and what it printed."""
    import contextlib
    import io

    place, out = tmp_path_factory.mktemp("commands"), io.StringIO()
    config = planted_editing(editing_place, "unused")
    config.run_dir, config.editor.batch = str(place / "run"), 1
    with contextlib.redirect_stdout(out):
        assert main(["editor", "train", *overrides(config)]) == 0
    return place / "run", overrides(config), out.getvalue()


def cells(text, title):
    """Return the rows of the table under a title, as lists of cells."""
    rows, found = [], False
    for line in text.splitlines():
        found = found or title in line
        if found and line.startswith("│"):
            rows.append([cell.strip() for cell in line.strip("│").split("│")])
        elif found and line.startswith("└"):
            return rows
    raise AssertionError(f"no table {title!r} in:\n{text}")


def test_train_ends_with_the_shares_of_answers_and_the_held_out_score(trained):
    root, _, out = trained
    answers = [(line["step"], row) for line in read_jsonl(root / "editor/train.jsonl") for row in line["answers"]]
    assert len(answers) == 4 * 2 * 6
    *shares, earned = cells(out, "Shares of all answers")
    rows = [row for row in Metrics(root / "metrics.jsonl").rows() if row["stage"] == "editor"]
    assert earned == ["mean reward", *(f"{rows[step]['editor/reward']:.3f}" for step in (0, 3))]
    for column, step in ((1, 0), (2, 3)):
        own = [row for at, row in answers if at == step]
        counted = Counter(f"invalid: {row['invalid']}" if row["invalid"] else row["answer"].split()[0] for row in own)
        assert {name for name, *_ in shares} >= set(counted)
        for name, *numbers in shares:
            assert float(numbers[column - 1]) == pytest.approx(counted[name] / len(own), abs=5e-4), name
        assert sum(float(row[column]) for row in shares) == pytest.approx(1.0, abs=0.01)
    found, score = read_json(root / "final/summary.json"), dict(cells(out, "Held-out score (2 streams)"))
    assert list(score) == ["before, z_0", "after, z_T", "gain"]
    for name, text in zip(("before", "after", "gain"), score.values(), strict=True):
        numbers = [float(number) for number in text.replace("[", "").replace(",", "").replace("]", "").split()]
        assert numbers == pytest.approx([found[name][key] for key in ("mean", "low", "high")], abs=5e-4)
    assert score["gain"][0] in "+-"
    assert f"Next: intraskill editor run --ckpt {root} --out skills/\n" in out


def test_one_of_a_kind_is_no_plural(trained, editing_place, tmp_path, capsys):
    root, words, out = trained
    assert "first step " in out and "last step " in out and "1 steps" not in out, "a quarter of four steps is one"
    status, out, _ = said(capsys, "editor", "traces", "--out", str(tmp_path / "t"), "--number", "1", *words)
    assert (status, out) == (0, f"1 trace in {tmp_path / 't'}\n")
    (tmp_path / "notes.md").write_text("One paragraph.\n")
    command = ["editor", "run", "--ckpt", str(root), str(tmp_path / "notes.md"), "--out", str(tmp_path / "s.md")]
    assert "files: 1 step, " in said(capsys, *command)[1]
    status, out, _ = said(capsys, "editor", "train", "--dry-run", *words, "editor.anchors=1")
    assert status == 0 and "≤ 1 piece of" in " ".join(out.split()) and "1 pieces" not in out and "1 anchors" not in out


def test_train_says_how_many_trials_it_paid_and_the_same_command_pays_none(trained, capsys):
    root, words, out = trained
    paid = len(read_jsonl(root / "trials.partial.jsonl"))
    assert f"Trials: {paid} asked of the worker, " in out
    status, again, _ = said(capsys, "editor", "train", *words)
    assert status == 0
    assert "Trials: 0 asked of the worker, 0 known already" in again
    assert again.split("Trials:")[0] == out.split("Trials:")[0]


def test_train_says_how_many_edit_states_named_no_query(trained):
    root, _, out = trained
    rows = [row for row in Metrics(root / "metrics.jsonl").rows() if row["stage"] == "editor"]
    free = sum(row["editor/unanchored"] for row in rows)
    assert free == sum(not line["anchors"] for line in read_jsonl(root / "editor/train.jsonl")) > 0
    assert dict(map(tuple, cells(out, "Edit states"))) == {
        "read": "8",
        "without a query to try an edit on": str(free),
        "with rewards that differ, learnt from": str(used := sum(row["editor/groups_used"] for row in rows)),
        "with equal rewards, or none for faults": str(8 - free - used),
        "answers without a reward for faults": "0",
    }


def test_report_prints_the_tables_of_an_editor_again(trained, capsys):
    root, _, out = trained
    status, again, err = said(capsys, "report", str(root))
    assert (status, err) == (0, "") and again == out.split("Trials:")[0]


def test_run_refuses_a_run_without_a_finished_editor(trained, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    shutil.copy(trained[0] / "plan.json", tmp_path / "other")
    status, _, err = said(capsys, "editor", "run", "--ckpt", str(tmp_path / "other"), "--out", str(tmp_path / "skills"))
    assert status == 2 and "is no finished run of editor train" in err
    assert not (tmp_path / "skills").exists()


def test_traces_are_written_as_asked_and_the_same_each_time(editing_place, tmp_path, capsys):
    words = ["--number", "7", *small(editing_place, "unused")]
    for name in ("a", "b"):
        status, out, _ = said(capsys, "editor", "traces", "--out", str(tmp_path / name), *words)
        assert (status, out) == (0, f"7 traces in {tmp_path / name}\n")
    assert len(read_traces(tmp_path / "a")) == 7
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert said(capsys, "editor", "traces", "--out", str(tmp_path / "c"), "--careless", "1", *words)[0] == 0
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def test_sft_learns_the_traces_of_a_file_or_synthetic_ones_and_train_starts_there(editing_place, tmp_path, capsys):
    words = small(editing_place, "unused", steps=1, eval_streams=0)
    assert said(capsys, "editor", "traces", "--out", str(tmp_path / "t.jsonl"), "--number", "6", *words)[0] == 0
    sft = ["editor", "sft", "--batch", "3", "--epochs", "2", "--lr", "1e-3", "--max-tokens", "900", *words]
    texts = []
    for name, source in (("file", ["--traces", str(tmp_path / "t.jsonl")]), ("own", ["--number", "6"])):
        status, out, _ = said(capsys, *sft, *source, "--out", str(tmp_path / name))
        assert status == 0
        assert out.startswith("6 traces, ")
        assert f"policy.path={tmp_path / name}" in out
        texts.append((tmp_path / name / "model.safetensors").read_bytes())
    assert texts[0] == texts[1], "the synthetic traces are those that `traces` writes"
    status, _, err = said(capsys, *sft, "--out", str(tmp_path / "own"))
    assert status == 2 and err.count("\n") == 1 and "own exists already" in err
    words = [word for word in words if not word.startswith(("policy.path", "run_dir"))]
    more = [f"policy.path={tmp_path / 'own'}", f"run_dir={tmp_path / 'run'}"]
    assert said(capsys, "editor", "train", *words, *more)[0] == 0
    assert not (tmp_path / "run" / "final").exists()


def test_run_compiles_files_and_held_out_streams_and_says_what_it_did(trained, tmp_path, capsys):
    root, _, _ = trained
    (tmp_path / "notes.md").write_text("First paragraph.\n\nSecond paragraph.\n")
    (tmp_path / "z0.md").write_text("Rules.\n\n### One\n\nBe brief.\n\n### Two\n\nBe kind.\n")
    files = ["editor", "run", "--ckpt", str(root), "--skill", str(tmp_path / "z0.md"), str(tmp_path / "notes.md")]
    out_file = tmp_path / "made" / "skill.md"
    status, out, err = said(capsys, *files, "--out", str(out_file))
    assert status == 0, err
    log = read_jsonl(out_file.with_name("skill.edits.jsonl"))
    assert [row["evidence"] for row in log] == [["notes.md#1"], ["notes.md#2"]]
    skill = parse_skill(out_file.read_text())
    assert skill.hash == log[-1]["skill"]
    invalid = sum(bool(row["invalid"]) for row in log)
    taken = sum(not row["invalid"] and row["action"] != "NOOP" for row in log)
    reasons = Counter(row["invalid"] for row in log if row["invalid"])
    why = f" ({', '.join(f'{number} {reason}' for reason, number in reasons.most_common())})" if reasons else ""
    made = f"files: 2 steps, {counted(taken, 'edit')}, {invalid} invalid{why}, {counted(len(skill.chunks), 'chunk')}\n"
    assert made in out
    status, _, err = said(capsys, *files, "--out", str(out_file))
    assert status == 2 and err.count("\n") == 1 and "exists already" in err

    held = ["editor", "run", "--ckpt", str(root), "--out", str(tmp_path / "skills")]
    status, out, err = said(capsys, *held)
    assert status == 0, err
    names = [stream.id for stream in PlantedDomain(worlds=3, held_out=2).streams("held_out")]
    assert sorted(path.name for path in (tmp_path / "skills").glob("*.md")) == [f"{name}.md" for name in names]
    for name in names:
        assert (tmp_path / "skills" / f"{name}.md").read_bytes() == (root / "final" / f"{name}.md").read_bytes()
    status, _, err = said(capsys, *held)
    assert status == 2 and err.count("\n") == 1 and "holds a finished pass already" in err


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("untrained", "SplitError: editor.domain=editor.test_commands:written has no train streams; give it more"),
        ("unqueried", "SplitError: none of 2 pieces of evidence in 1 train stream of"),
        ("none_held", "SplitError: editor.domain=editor.test_commands:written has no held_out streams"),
        ("one_held", "TooFewTasksError: held-out streams with probes: 1 of 1, and an interval needs two"),
        ("unprobed", "TooFewTasksError: held-out streams with probes: 1 of 2, and"),
        ("broken", "NothingToLearnError: none of 12 edits of step 0 could be scored, first: worker: down"),
    ],
)
def test_a_domain_that_cannot_be_trained_on_is_one_error_before_any_answer_is_paid(
    editing_place, capsys, which, message
):
    status, out, err = said(capsys, "editor", "train", *of_domain(editing_place, f"domain-{which}", which))
    last = [line for line in err.splitlines() if "Error" in line]
    assert status == 2
    assert len(last) == 1 and message in last[0]
    assert out == ""
    assert (editing_place / f"domain-{which}").exists() == (which == "broken"), "a refused run leaves nothing behind"
    assert not (editing_place / f"domain-{which}" / "editor" / "train.partial.jsonl").exists()


def test_a_refused_run_goes_on_in_the_same_directory_once_it_is_mended(editing_place, tmp_path, capsys):
    words = [word for word in of_domain(editing_place, "unused", "one_held") if not word.startswith("run_dir=")]
    command = ["editor", "train", *words, f"run_dir={tmp_path / 'runs' / 'one'}", "editor.steps=1"]
    status, _, err = said(capsys, *command)
    assert status == 2 and "or set it to 0 for no comparison" in err
    assert list(tmp_path.iterdir()) == []
    status, _, err = said(capsys, *command, "editor.eval_streams=0")
    assert status == 0, err
    status, _, err = said(capsys, *command)
    assert status == 2 and "was started with another plan; it differs in 1: editor.eval_streams" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["editor.actions=[CREATE,ERASE]"], "editor.actions has 'ERASE'; choose from CREATE, UPDATE, MERGE, PRUNE"),
        (["editor.actions=[]"], "editor.actions is empty"),
        (
            ["editor.options={worlds:3}"],
            "worlds:3}: give each option a word of its own, editor.options.NAME=VALUE",
        ),
        (["editor.options={worlds: 3"], "such as editor.options.seed=3"),
        (["editor.options=3"], "such as editor.options.seed=3"),
        (["editor.options.world=3"], "did you mean 'worlds'?"),
        (["editor.options.worlds=many"], "editor.options.worlds='many' is a str; give an int"),
        (["editor.options.worlds=0"], "must be at least 1"),
        (["editor.domain=nowhere:world"], "editor.domain=nowhere:world cannot be imported"),
        (["editor.domain=plantd"], "editor.domain=plantd is no domain, did you mean 'planted'? There are: planted, "),
        (["editor.reward=sparse"], "editor.reward"),
    ],
)
def test_wrong_options_of_an_editor_are_one_sentence(editing_place, tmp_path, capsys, words, message):
    command = ["editor", "traces", "--out", str(tmp_path / "t.jsonl"), *small(editing_place, "unused"), *words]
    status, out, err = said(capsys, *command)
    assert status == 2 and out == ""
    assert message in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"prompt": "p", "answer": "NOOP"}', '{"prompt": "p"}'], "lines that are no traces, 1: line 2: it must be {"),
        (['{"prompt": "p", "answer": ""}', "[1]"], "2: line 1: it must be"),
        (["{"], "1: line 1: Expecting property name"),
        ([], "holds no trace; give at least one"),
    ],
)
def test_a_file_that_holds_no_traces_is_refused(editing_place, tmp_path, capsys, lines, message):
    (tmp_path / "t.jsonl").write_text("".join(line + "\n" for line in lines))
    words = ["--traces", str(tmp_path / "t.jsonl"), "--out", str(tmp_path / "w"), *small(editing_place, "unused")]
    status, _, err = said(capsys, "editor", "sft", *words)
    assert status == 2 and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ckpt", "RUN/absent"], "is not a directory"),
        (["--ckpt", "RUN", "--skill", "README.md"], "--skill goes with EVIDENCE"),
        (["--ckpt", "RUN", "absent.md"], "absent.md is no evidence"),
        (["--ckpt", "RUN", "notes.pdf"], "notes.pdf is no evidence"),
        (["--ckpt", "RUN", "empty.md"], "no evidence in 1 file: "),
    ],
)
def test_a_pass_that_cannot_begin_is_one_sentence(trained, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    for name in ("notes.pdf", "empty.md", "README.md"):
        (tmp_path / name).write_text("")
    words = [word.replace("RUN", str(trained[0])) for word in words]
    status, out, err = said(capsys, "editor", "run", "--out", str(tmp_path / "out"), *words)
    assert status == 2 and message in err and err.count("\n") == 1 and out == ""


def test_a_run_that_is_not_finished_has_no_editor_to_compile_with(editing_place, tmp_path, capsys):
    words = of_domain(editing_place, "unfinished", "broken")
    assert said(capsys, "editor", "train", *words)[0] == 2
    (tmp_path / "notes.md").write_text("One.\n")
    command = ["--ckpt", str(editing_place / "unfinished"), str(tmp_path / "notes.md"), "--out", str(tmp_path / "s.md")]
    status, _, err = said(capsys, "editor", "run", *command)
    assert status == 2 and "finish the editor's training first" in err
    assert not (tmp_path / "s.md").exists()


@pytest.mark.parametrize("record", ["{}", "[]", '{"plan": 5}'])
def test_a_plan_that_is_none_is_one_sentence(trained, tmp_path, capsys, record):
    (tmp_path / "run" / "editor").mkdir(parents=True)
    (tmp_path / "run" / "plan.json").write_text(record)
    seal(tmp_path / "run" / "editor")
    (tmp_path / "notes.md").write_text("Look first.")
    words = [
        "editor",
        "run",
        "--ckpt",
        str(tmp_path / "run"),
        "--out",
        str(tmp_path / "s.md"),
        str(tmp_path / "notes.md"),
    ]
    status, _, err = said(capsys, *words)
    assert status == 2 and "run/plan.json does not hold the plan of a run" in err


def test_a_skill_that_is_no_text_and_an_out_that_is_no_file_are_one_sentence(trained, tmp_path, capsys):
    (tmp_path / "notes.md").write_text("Look first.")
    (tmp_path / "z0.md").write_bytes(b"\x98\x00")
    run = ["editor", "run", "--ckpt", str(trained[0]), str(tmp_path / "notes.md")]
    status, _, err = said(capsys, *run, "--out", str(tmp_path / "s.md"), "--skill", str(tmp_path / "z0.md"))
    assert status == 2 and "z0.md cannot be read" in err
    status, _, err = said(capsys, *run, "--out", str(tmp_path / "notes.md" / "s.md"))
    assert status == 2 and "notes.md cannot be written" in err
    status, _, err = said(capsys, *run, "--out", "")
    assert status == 2 and "names no file" in err
