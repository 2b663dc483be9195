"""The shape of the code: a total order of packages, no circles, sizes, names, and what `intraskill --help` loads."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "intraskill"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the ground up. A module imports from its own package and from those before it, whether at the top, inside a
# function or for type checkers only.
ORDER = (
    *("method", "config", "store", "net", "llm", "environments", "proposers", "rl", "recipes", "editor", "rounds"),
    *("history", "report", "commands", "cli", "__main__"),
)
HEAVY = [
    *("torch", "transformers", "peft", "trl", "accelerate", "tokenizers"),
    *("statsmodels", "scipy", "pandas", "wandb", "tensorboardX", "matplotlib", "httpx"),
]
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "misc", "core", "manager"}
MAX_ROOT_MODULES = 6
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 7


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(source: str, known: set[str]) -> Iterator[str]:
    """Every module of ours that a source imports, wherever the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "intraskill")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole module name"
            module = node.module or ""
            if module.split(".")[0] == "intraskill":
                names = [f"{module}.{alias.name}" for alias in node.names]
                yield from (name if name in known else module for name in names)


def dependencies(sources: Mapping[str, str]) -> dict[str, set[str]]:
    known = set(sources)
    return {name: set(imported_modules(source, known)) - {name} for name, source in sources.items()}


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def upward_imports(graph: Mapping[str, set[str]]) -> list[str]:
    return sorted(
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if package_of(name) and package_of(other)
        if ORDER.index(package_of(other)) > ORDER.index(package_of(name))
    )


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def oversized_functions(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            parameters = len([a for a in arguments if a.arg not in ("self", "cls")])
            if lines > MAX_FUNCTION_LINES or parameters > MAX_PARAMETERS:
                found.append(f"{node.name} has {lines} lines and {parameters} parameters")
    return found


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return dependencies({module_of(path): path.read_text() for path in MODULES})


def test_a_package_imports_only_from_packages_below_it(graph: dict[str, set[str]]) -> None:
    assert {package_of(name) for name in graph} - {""} == set(ORDER)
    assert upward_imports(graph) == []


def test_no_modules_import_each_other_in_a_circle(graph: dict[str, set[str]]) -> None:
    assert circle(graph) == []


def test_the_rules_see_imports_inside_functions_and_for_type_checkers() -> None:
    late = "def late():\n    from intraskill.rounds import loop\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from intraskill.method.skill import Skill\n"
    seen = dependencies({"intraskill.method.skill": late, "intraskill.rounds.loop": typed})
    assert upward_imports(seen) == ["intraskill.method.skill imports intraskill.rounds.loop"]
    assert len(circle(seen)) == 3


def test_few_modules_stand_in_the_package_root() -> None:
    root = [path.name for path in PACKAGE.glob("*.py")]
    assert len(root) <= MAX_ROOT_MODULES, root


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_and_functions_stay_small(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= MAX_MODULE_LINES
    assert oversized_functions(source) == []


def test_the_size_rule_sees_a_long_function_and_a_wide_one() -> None:
    long = "def long():\n" + "    x = 1\n" * MAX_FUNCTION_LINES
    wide = "def wide(a, b, c, d, e, f, *, g, h): ...\n"
    assert len(oversized_functions(long + wide)) == 2
    assert oversized_functions("class A:\n    def fits(self, a, b, c, d, e, f, g): ...\n") == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(PACKAGE).parts}
    assert names & FORBIDDEN_NAMES == set()


def test_every_package_says_what_it_is_for() -> None:
    folders = {path.parent for path in MODULES}
    silent = [
        name_of(folder) for folder in folders if not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))
    ]
    assert silent == []


def test_the_loop_knows_no_shop() -> None:
    shops = tuple(f"intraskill.environments.{name}" for name in ("shopworld", "remote", "shop_files", "serve"))
    code = f"import sys, intraskill.rounds.loop; print([name for name in sys.modules if name.startswith({shops!r})])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_command_line_loads_no_heavy_package() -> None:
    code = f"import sys, intraskill.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
