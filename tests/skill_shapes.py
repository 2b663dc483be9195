"""Skills in the shapes in which people publish and keep them, and the ways in which such a file reaches us.

Each shape is a document, the titles of the chunks that it has, and words that must be in a note. The forms are those
that public SKILL.md files have; the texts are our own.
"""

import io
import zipfile
from pathlib import Path
from typing import NamedTuple


class Shape(NamedTuple):
    """A document.

    Attributes:
        titles: of its chunks, in order.
        text: the body.
        front: lines of its front matter, without the marks.
        said: words that the notes hold.
    """

    titles: list[str]
    text: str
    front: str = ""
    said: tuple[str, ...] = ()


FRONT = "name: parcels\ndescription: Handles parcels. Use when one is late.\n"
SHAPES = {
    "own form": Shape(
        ["Search", "Price"], "# Shop\n\nBuy well.\n\n### Search\n\nFew words.\n\n### Price\n\nStay low.\n"
    ),
    "own form without a title": Shape(["Search", "Price"], "### Search\n\nFew words.\n\n### Price\n\nStay low.\n"),
    "standard": Shape(
        ["When to use", "Steps", "Examples"],
        "# Parcels\n\nOne line about it.\n\n## When to use\n\nA parcel is late.\n\n## Steps\n\n1. Look.\n2. Ask.\n\n"
        "## Examples\n\n- one\n  - two\n    - three\n",
        FRONT,
    ),
    "front matter with a colon": Shape(
        ["A", "B"], "## A\na text\n## B\nb text\n", "name: x\ndescription: Handles this: and that # both\n"
    ),
    "front matter with lists and long values": Shape(
        ["A"],
        "# T\n\n## A\n\na text\n",
        "name: x\ndescription: >\n  Folded over\n  two lines\nallowed-tools:\n  - Read\n  - Bash(git:*)\n"
        "metadata:\n  version: '1.0'\n  note: |\n    a block\n\n    with a gap\n",
    ),
    "front matter that is no YAML": Shape(
        ["A"], "## A\na text\n", "name: [x\ndescription: y\n", ("not YAML", "no policy sees them")
    ),
    "front matter with odd keys": Shape(
        ["A"], "## A\na text\n", "when_to_use: now\nversion: 2025-13-45\n2: three\n", ("were not read",)
    ),
    "lines across the page": Shape(
        ["A", "B"], "Before all.\n\n---\n\n## A\n\na text\n\n---\n\n## B\n\nb text\n\n***\n\nlast text\n"
    ),
    "begins with a line across the page": Shape(["A"], "---\n\nA motto of ours.\n\n---\n\n## A\n\na text\n"),
    "level one alone": Shape(["First", "Second"], "# First\n\na text\n\n# Second\n\nb text\n"),
    "level two and three": Shape(
        ["Prices", "Discounts", "Fees"], "# T\n\n## Prices\n\np text\n\n### Discounts\n\nd text\n\n### Fees\n\nf text\n"
    ),
    "levels four to six inside": Shape(
        ["A", "B"],
        "## A\n\na text\n\n#### Rare\n\nr text\n\n##### Rarer\n\ns text\n\n###### Rarest\n\nt text\n\n## B\n\nb text\n",
    ),
    "level four splits best": Shape(["One", "Two"], "# T\n\nintro\n\n#### One\n\no text\n\n#### Two\n\nw text\n"),
    "level five splits best": Shape(
        ["Method", "One", "Two"], "# T\n\n## Method\n\nm text\n\n##### One\n\no text\n\n##### Two\n\nw text\n"
    ),
    "level six splits best": Shape(["One", "Two"], "###### One\n\no text\n\n###### Two\n\nw text\n"),
    "levels skipped": Shape(["A", "B"], "# T\n\n### A\n\na text\n\n## B\n\nb text\n"),
    "groups": Shape(
        ["Search: By name", "Search: By kind", "Pay"],
        "# T\n\n## Search\n\n### By name\n\nn text\n\n### By kind\n\nk text\n\n## Pay\n\np text\n",
    ),
    "groups of groups": Shape(["T", "A: B: C"], "# T\n\nx\n\n# A\n\n## B\n\n### C\n\nc text\n\n# T2\n", said=("T2",)),
    "headings without text": Shape(["B"], "# T\n\n## TODO\n\n## B\n\nb text\n\n## Later\n", said=("TODO", "Later")),
    "the same title twice": Shape(
        ["A: Steps", "B: Steps"], "## A\n\n### Steps\n\none text\n\n## B\n\n### Steps\n\ntwo text\n"
    ),
    "the same title twice side by side": Shape(["Steps", "Steps"], "## Steps\n\none text\n\n## Steps\n\ntwo text\n"),
    "long preamble": Shape(
        ["A"],
        "Before the title.\n\n# T\n\nOne.\n\nTwo.\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## A\n\na text\n",
    ),
    "fences": Shape(
        ["A", "B"],
        "## A\n\n```bash\n# no heading\n## nor this\ncd x\n```\n\n~~~\n### none\n~~~\n\n"
        "````md\n```\n# inner\n```\n````\n\n"
        "## B\n\n"
        "   ```\n   # set in\n   ```\n",
    ),
    "fences in lists": Shape(
        ["A", "B"],
        "## A\n\n1. Step:\n   ```bash\n   # comment\n   ```\n2. ```bash\n   # first line\n   ```\n\n- Deep:\n    ```\n"
        "    # deeper\n    ```\n\n## B\n\nb text\n",
    ),
    "a fence with tildes inside ticks": Shape(["A", "B"], "## A\n\n```\n~~~\n# x\n```\n\n## B\n\nb text\n"),
    "a fence never closed": Shape(
        ["A", "B"], "## A\n\na text\n\n## B\n\n```\n## C\nstill code\n", said=("never closed",)
    ),
    "code set in": Shape(["A"], "## A\n\nRun:\n\n    # a comment\n    run it\n\nDone.\n"),
    "comments": Shape(
        ["A", "B"], "<!-- one line -->\n\n## A\n\na text\n\n<!--\n## hidden\n\n### hidden too\n-->\n\n## B\n\nb text\n"
    ),
    "html": Shape(
        ["A", "B"], "## A\n\n<details>\n<summary>More</summary>\n\nm text\n\n</details>\n\n## B\n\n<b>b</b> text\n"
    ),
    "underlined headings": Shape(
        ["First", "Second"], "Title\n=====\n\nFirst\n-----\n\none text\n\nSecond\n---\n\ntwo text\n"
    ),
    "tables": Shape(
        ["A", "B"], "## A\n\n| limit | rule |\n|:--|--:|\n| 40 | # below |\n\n## B\n\na | b\n--- | ---\n1 | 2\n"
    ),
    "headings in quotes and lists": Shape(["A"], "## A\n\n> ## quoted\n> text\n\n- ## listed\n\n  more\n"),
    "closed and wrapped headings": Shape(
        ["A", "B", "C", "Use `git` and *care*"],
        "## A ##\n\na text\n\n## **B**\n\nb text\n\n## `C` ##\n\nc text\n\n## Use `git` and *care*\n\nd text\n",
    ),
    "Chinese": Shape(
        ["搜索", "价格：比较", "何时使用"],
        "# 购物技能\n\n仔细购买。\n\n## 搜索\n\n使用简短的词。\n\n## 价格：比较\n\n1. 先看总价。\n\n"
        "## 何时使用\n\n用户要买东西时。\n",
        "name: gouwu\ndescription: 购物：先比较，再购买\n",
    ),
    "emoji and marks": Shape(
        ["⚠️ Warning", "1. First", "Q: why?"],
        "# 🚀 T\n\n## ⚠️ Warning\n\nw text\n\n## 1. First\n\nf text\n\n## Q: why?\n\n- [ ] open\n- [x] done\n",
    ),
    "a very long section": Shape(
        ["A", "B"],
        "## A\n\n" + "\n".join(f"{n}. Step number {n} of a long way." for n in range(3000)) + "\n\n## B\n\nb text\n",
    ),
    "many sections": Shape(
        [f"Part {n}" for n in range(120)], "# T\n\n" + "\n".join(f"## Part {n}\n\nDo part {n}.\n" for n in range(120))
    ),
    "no blank lines": Shape(["A", "B"], "# T\nintro\n## A\na text\n- item\n## B\nb text\n```\n# c\n```\n"),
    "no line end at the end": Shape(["A"], "# T\n\n## A\n\na text"),
    "no heading mark without a blank": Shape(["A"], "## A\n\n#hashtag and ##this are text\n\n\\## nor this\n"),
    "JSON in a fence": Shape(["A"], '## A\n\nAnswer as\n\n```json\n{"name": "x", "steps": [1, 2]}\n```\n\nand stop.\n'),
}


def _zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


SAVED = ("file", "byte-order mark", "CRLF", "folder", "zip", "skill archive")
BESIDE = {"references/more.txt": b"x", "scripts/run.sh": b"exit 0\n"}


def document(shape: Shape) -> str:
    """Return the whole document of a shape."""
    return f"---\n{shape.front}---\n\n{shape.text}" if shape.front else shape.text


def save(shape: Shape, how: str, folder: Path) -> Path:
    """Write a shape in one of the ways of `SAVED`, and return the path that a person gives."""
    data = document(shape).encode()
    if how == "folder":
        for name, content in {"skill.md": data, **BESIDE}.items():
            (folder / "kept" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "kept" / name).write_bytes(content)
        return folder / "kept"
    content = {
        "file": data,
        "byte-order mark": b"\xef\xbb\xbf" + data,
        "CRLF": b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        "zip": _zipped({"SKILL.md": data, **BESIDE}),
        "skill archive": _zipped({"kept/SKILL.md": data, **{f"kept/{name}": one for name, one in BESIDE.items()}}),
    }[how]
    path = folder / {"zip": "kept.zip", "skill archive": "kept.skill"}.get(how, "notes.md")
    path.write_bytes(content)
    return path
