"""The shape of the code: modules and lines per package, dependencies between packages, and what one round reads.

python scripts/code_shape.py [--root DIR] [--round]

`--root` measures another checkout. `--round` lists what a reader needs for one round of the loop.
"""

import argparse
import ast
from collections import Counter
from pathlib import Path

ROUND = (
    *("rounds/loop", "rounds/run", "rounds/training", "rounds/review", "rounds/gate/run", "rounds/gate/plan"),
    *("rounds/gate/assess", "rounds/arms", "method/curriculum/contexts", "method/curriculum/exposure"),
    *("method/curriculum/frontier", "method/gate/decision"),
)
"""The stages of one round, in the order in which they are called, and what they decide by."""


def packages(root: Path) -> dict[str, list[Path]]:
    """Return the modules of every package; a module in the package root counts as a package of its own."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*.py")):
        if path.parent == root and path.name == "__init__.py":
            continue
        found.setdefault(path.relative_to(root).parts[0].removesuffix(".py"), []).append(path)
    return found


def dependencies(root: Path) -> set[tuple[str, str]]:
    """Return which package imports which, wherever the statement stands."""
    pairs = set()
    for package, paths in packages(root).items():
        for path in paths:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = []
                if isinstance(node, ast.ImportFrom) and node.module:
                    names = (
                        [node.module] if node.module != "intraskill" else [f"intraskill.{a.name}" for a in node.names]
                    )
                elif isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                others = {name.split(".")[1] for name in names if name.startswith("intraskill.")}
                pairs |= {(package, other) for other in others - {package} if not other.startswith("__")}
    return pairs


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--round", action="store_true")
    arguments = parser.parse_args()
    root = arguments.root / "src" / "intraskill"
    lines = {path: path.read_text(encoding="utf-8").count("\n") for paths in packages(root).values() for path in paths}
    if arguments.round:
        files = [root / f"{name}.py" for name in ROUND]
        for path in files:
            print(f"{lines[path]:6,}  {path.relative_to(root)}")
        print(f"{sum(lines[path] for path in files):6,}  in {len(files)} files")
        return
    shape = packages(root)
    pairs = dependencies(root)
    uses = Counter(package for package, _ in pairs)
    print(f"{'package':<14}{'modules':>8}{'lines':>8}{'imports from':>14}")
    for package, paths in shape.items():
        print(f"{package:<14}{len(paths):>8}{sum(lines[path] for path in paths):>8,}{uses[package]:>14}")
    print(f"{'all':<14}{len(lines):>8}{sum(lines.values()):>8,}{len(pairs):>14}")


if __name__ == "__main__":
    main()
