"""No public name without a caller: what nothing in src or scripts uses, and no document shows, is dead code."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "intraskill"
CALLED_BY_OTHERS = {
    *("do_GET", "do_POST", "log_message", "send_error"),  # http.server
    *("update_conv_state", "update_recurrent_state"),  # transformers' cache layers
    *("connect_tcp", "start_tls", "get_extra_info"),  # httpcore's network streams
}
"""Methods that a library calls by name."""


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Public functions, classes, constants and methods of a module."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        if isinstance(node, ast.ClassDef):
            yield from ((method.name, method) for method in node.body if isinstance(method, ast.FunctionDef))


def mentions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a module uses, with its line; a text such as ``package.module:name`` uses its last word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, 0) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+:\w+", node.value):
            yield node.value.rpartition(":")[2], node.lineno


def without_caller(sources: Mapping[str, str], documents: str = "") -> list[str]:
    """Return ``module: name`` of every public name that neither the sources nor the code in the documents use."""
    trees = {module: ast.parse(source) for module, source in sources.items()}
    used: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for module, tree in trees.items():
        for name, line in mentions(tree):
            used[name].append((module, line))
    shown = {
        word for code in re.findall(r"```.*?```|`[^`]+`", documents, re.DOTALL) for word in re.findall(r"\w+", code)
    }
    return [
        f"{module}: {name}"
        for module, tree in trees.items()
        for name, node in definitions(tree)
        if not name.startswith("_") and name not in CALLED_BY_OTHERS and name not in shown
        if not any(
            other != module or not node.lineno <= line <= (node.end_lineno or node.lineno) for other, line in used[name]
        )
    ]


def test_every_public_name_has_a_caller_or_a_document() -> None:
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    documents = [path.read_text() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))]
    examples = [path.read_text() for path in (*ROOT.glob("scripts/*.py"), *ROOT.glob("docs/examples/*.py"))]
    assert without_caller(sources, "\n".join([*documents, *(f"```{example}```" for example in examples)])) == []


def test_a_function_that_only_calls_itself_has_no_caller() -> None:
    source = (
        "def lonely(n):\n    return lonely(n - 1)\n\ndef called():\n    return 1\n\nTOTAL = called()\nprint(TOTAL)\n"
    )
    assert without_caller({"one.py": source}) == ["one.py: lonely"]
    assert without_caller({"one.py": source}, "call `lonely` so") == []
    assert without_caller({"one.py": source, "two.py": "from one import lonely\n"}) == []
