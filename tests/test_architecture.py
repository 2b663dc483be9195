"""The shape of the code: layers, sizes, names, what `intraskill --help` loads, and the file tree in the README."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "intraskill"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A module may import only from its own rank or from a lower one.
RANKS = {
    "method": 0,
    "environments": 1,
    "runtime": 2,
    "config": 3,
    "loop": 4,
    "evaluate": 4,
    "report": 5,
    "commands": 6,
    "cli": 7,
    "__main__": 7,
}
# The command line only names what stands under it; a module beside `loop` and `evaluate` is a part of one of them.
LOOP_RANK = RANKS["loop"]
HEAVY = [
    *("torch", "transformers", "peft", "trl", "accelerate", "tokenizers"),
    *("statsmodels", "scipy", "pandas", "wandb", "matplotlib", "openai"),
]
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "base", "misc", "core", "manager"}
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 7


def rank_of(layer: str) -> int:
    return RANKS.get(layer, LOOP_RANK)


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imported_layers(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole module name"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "intraskill" else [module]
        for name in names:
            if name.startswith("intraskill.") and not name.startswith("intraskill.__"):
                yield name.split(".")[1]


def rightward_imports(layer: str, source: str) -> list[str]:
    return sorted({other for other in imported_layers(source) if rank_of(other) > rank_of(layer)})


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


def tree_entries(markdown: str) -> set[str]:
    """Paths under ``src/intraskill/`` that the README's fenced tree lists; depth is read from the indentation."""
    block = re.search(r"^```[a-z]*\n(src/intraskill/.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    if not block:
        return set()
    paths: set[str] = set()
    parents: list[tuple[int, str]] = []
    for line in block[1].splitlines()[1:]:
        entry = re.match(r"[\s│├└─|`+-]*", line)
        assert entry
        column, words = entry.end(), line[entry.end() :].split()
        if not words:
            continue
        while parents and parents[-1][0] >= column:
            parents.pop()
        path = "".join(parent for _, parent in parents) + words[0]
        paths.add(path)
        if words[0].endswith("/"):
            parents.append((column, words[0]))
    return paths


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_layers_on_its_left(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if layer == "__init__":
        layer = "method"
    assert rightward_imports(layer, path.read_text()) == []


def test_the_layer_rule_sees_an_import_inside_a_function() -> None:
    source = "def late():\n    from intraskill.runtime.llm import ask\n"
    assert rightward_imports("method", source) == ["runtime"]
    assert rightward_imports("loop", source) == []
    assert rightward_imports("runtime", "from intraskill import cli") == ["cli"]


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


def test_the_command_line_loads_no_heavy_package() -> None:
    code = f"import sys, intraskill.cli; print([name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_file_tree_in_the_readme_lists_every_module_and_nothing_else() -> None:
    listed = {path for path in tree_entries((ROOT / "README.md").read_text()) if path.endswith(".py")}
    present = {name_of(path) for path in MODULES if path.name != "__init__.py"}
    assert sorted(present - listed) == [], "these modules are missing from the tree"
    assert sorted(listed - present - {"__init__.py"}) == [], "the tree lists modules that do not exist"


def test_the_file_tree_is_read_by_indentation() -> None:
    text = "\n".join(
        [
            "```",
            "src/intraskill/      the package",
            "├── method/           the paper",
            "│   ├── gate.py       decides",
            "│   └── sub/",
            "│       └── deep.py",
            "└── cli.py            commands",
            "```",
        ]
    )
    assert {p for p in tree_entries(text) if p.endswith(".py")} == {"method/gate.py", "method/sub/deep.py", "cli.py"}
    assert tree_entries("```\nnothing\n```") == set()
