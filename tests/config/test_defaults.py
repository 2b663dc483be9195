"""One table of defaults: what the config declares has no default anywhere in rl or recipes."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

from intraskill.config.config import Config
from intraskill.config.option import options

PACKAGE = Path(__file__).parents[2] / "src" / "intraskill"
OPTIONS = {name.rpartition(".")[2] for name, _, _ in options(Config())}
OTHER_MEANINGS = {
    "recipes/fitting.py: Fit.batch": "examples per step",
    "recipes/fitting.py: Fit.seed": "of a recipe's weights and demonstrations",
    "recipes/fitting.py: Fit.steps": "optimizer steps of a recipe",
    "recipes/fitting.py: Fit.threads": "replicas that share a step",
    "recipes/sft.py: SftSettings.batch": "demonstrations per step",
    "rl/policy.py: load_policy.device": "a policy that nobody trains, on a CPU",
}
"""Defaults of something else under an option's name."""


def defaults_in(source: str) -> Iterator[str]:
    """Names with a value by default (None is no value), as ``Class.field`` or ``function.parameter``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            declared = (item for item in node.body if isinstance(item, ast.AnnAssign) and _value(item.value))
            yield from (f"{node.name}.{item.target.id}" for item in declared if isinstance(item.target, ast.Name))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            placed = [*arguments.posonlyargs, *arguments.args]
            late = placed[len(placed) - len(arguments.defaults) :]
            pairs = zip([*late, *arguments.kwonlyargs], [*arguments.defaults, *arguments.kw_defaults], strict=True)
            yield from (f"{node.name}.{argument.arg}" for argument, default in pairs if _value(default))


def _value(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def test_no_option_has_a_second_default() -> None:
    second = {
        f"{path.relative_to(PACKAGE).as_posix()}: {name}"
        for package in ("rl", "recipes")
        for path in (PACKAGE / package).rglob("*.py")
        for name in defaults_in(path.read_text())
        if name.rpartition(".")[2] in OPTIONS
    }
    assert second == set(OTHER_MEANINGS)


def test_the_rule_sees_fields_and_both_kinds_of_parameters() -> None:
    source = "class A:\n    lr: float = 0.1\n    b: int\ndef f(a, seed=0, *, c, engine=None, batch=1): ...\n"
    assert list(defaults_in(source)) == ["A.lr", "f.seed", "f.batch"]


def test_every_option_is_declared_once() -> None:
    declaring = {p.parent.name for p in PACKAGE.rglob("*.py") if "= option(" in p.read_text()}
    # The method imports no config, and an environment's own options are its own business.
    assert declaring == {"config", "leakage", "remote"}

    def sections(section: object) -> Iterator[type]:
        yield type(section)
        for item in fields(section):  # type: ignore[arg-type]
            if is_dataclass(value := getattr(section, item.name)):
                yield from sections(value)

    counted = Counter(sections(Config()))
    assert set(counted.values()) == {1} and len(counted) > 10
