"""Every number of every command has a range, and what lies outside is refused before anything is done."""

import argparse

import pytest

from intraskill.cli import COMMANDS, main
from intraskill.commands.numbers import real, whole


def number_arguments() -> list[tuple[str, argparse.Action]]:
    """Return every argument with a number as default or type, of every command."""
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers()

    def verb(name: str, text: str, command: object) -> argparse.ArgumentParser:
        return verbs.add_parser(name)

    for module in COMMANDS:
        module.add(verb)  # type: ignore[arg-type]
    return [(name, action) for name, sub in verbs.choices.items() for action in all_actions(sub)]


def all_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    actions: list[argparse.Action] = []
    for action in parser._actions:
        inner = action.choices if isinstance(action, argparse._SubParsersAction) else None
        actions += [one for sub in (inner or {}).values() for one in all_actions(sub)] if inner else [action]
    return actions


def test_no_number_is_taken_without_a_range() -> None:
    arguments = number_arguments()
    assert not [(name, action.dest) for name, action in arguments if action.type in (int, float)]
    ranged = [action for _, action in arguments if action.type is not None]
    assert len(ranged) > 20
    for action in ranged:
        if type(action.default) in (int, float):
            assert action.type(str(action.default)) == action.default  # type: ignore[operator]


@pytest.mark.parametrize(
    "words",
    [
        ["--rollouts-per-second", "0"],
        ["--tokens-per-rollout", "-1"],
        ["--useless", "-3"],
        ["--estimator", "ancova", "--correlation", "2"],
        ["--replicates", "0"],
        ["--sigma", "nan"],
        ["--effect", "inf"],
        ["--inclusion", "1"],
        ["--top-k", "0"],
        ["--chunks", "1e3"],
        ["--tasks", "400", "0"],
    ],
)
def test_a_plan_of_impossible_numbers_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["gate", "plan", *words])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {words[-2] if words[0] != '--tasks' else '--tasks'}: must" in said and words[-1] in said


@pytest.mark.parametrize("words", [["--number", "0"], ["--careless", "1.5"]])
def test_amounts_of_synthetic_traces_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["editor", "traces", "--out", "t.jsonl", *words])
    assert f"argument {words[0]}: must lie in" in capsys.readouterr().err


def test_ranges_are_intervals() -> None:
    assert whole("[0, 5]")("5") == 5 and real("(0, 1]")("1") == 1.0
    for kind, text in ((whole(), "0"), (real(), "0"), (real("[0, 1)"), "1"), (whole(), "1.5"), (real(), "x")):
        with pytest.raises(argparse.ArgumentTypeError, match="must"):
            kind(text)
