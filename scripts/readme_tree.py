"""Rewrite the file tree of README.md from the first docstring line of every module.

python scripts/readme_tree.py
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "intraskill"
COLUMN, WIDTH = 32, 120
FOLDERS = {
    "configs": "YAML: deltas only",
    "exp": "experiments",
    "skills": "draft skills",
    "policies": "shipped weights",
    "tiny": "the tiny policy: weights, tokenizer, recipe, training log",
}
CLOSED = ("exp", "skills", "tiny")
TREE = re.compile(r"(^```\n)src/intraskill/\n.*?(^```$)", re.MULTILINE | re.DOTALL)


def purpose(module: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(module.read_text())) or "").split("\n")[0].rstrip(".")


def entry(indent: int, name: str, text: str) -> str:
    """Return one line, cut at a word where it is too long."""
    line = f"{' ' * indent}{name:<{COLUMN - indent}} {text}".rstrip()
    return line if len(line) <= WIDTH else line[: WIDTH - 2].rsplit(" ", 1)[0] + " …"


def tree(folder: Path, indent: int = 2) -> list[str]:
    """Return the lines of a folder: its files, then its folders."""
    lines = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.is_dir() and path.name != "__pycache__":
            start = path / "__init__.py"
            text = purpose(start) if start.exists() else FOLDERS.get(path.name, "")
            lines.append(entry(indent, path.name + "/", text))
            lines += [] if path.name in CLOSED else tree(path, indent + 2)
        elif path.suffix == ".py" and path.name != "__init__.py":
            lines.append(entry(indent, path.name, purpose(path)))
    return lines


def main() -> None:
    """Write the tree."""
    readme = ROOT / "README.md"
    lines = "\n".join(["src/intraskill/", *tree(PACKAGE)])
    text, count = TREE.subn(lambda found: f"{found[1]}{lines}\n{found[2]}", readme.read_text())
    assert count == 1, "README.md has no tree to rewrite"
    readme.write_text(text)


if __name__ == "__main__":
    main()
