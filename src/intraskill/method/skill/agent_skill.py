"""A skill as an Agent Skills folder: rules of the front matter, budget of the body, and the way back.

The body of ``SKILL.md`` is the skill document itself, so that reading it gives the same skill. A body past its budget
keeps a stub per moved chunk; the chunk's text then stands in ``references/<chunk id>.md``.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence

from intraskill.method.errors import SkillFormatError, offenders
from intraskill.method.skill.skill import Chunk, ChunkId, Skill, parse_skill

SKILL_FILE = "SKILL.md"
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500
MAX_LINES, MAX_TOKENS = 500, 5000
"""A body stays under both."""
MAX_CONDITION = 200
"""Characters of a moved chunk's condition that its stub repeats; a longer one is left to the reference."""
KEYS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PIECES = re.compile(r"[A-Za-z]+|[^A-Za-z]")
_LETTERS_PER_TOKEN = 3
_APPLIES = re.compile(
    r"^[^\w\n]*(?:applies when\W+(?:when\s+)?|适用(?:于|时|场景|情形|条件|情况)?\s*[:：]\s*)(.+)$",
    re.IGNORECASE | re.MULTILINE,
)


def front_matter_problems(fields: Mapping[str, object], folder: str) -> tuple[str, ...]:
    """Return every rule of the front matter that ``fields`` breaks, one sentence each; empty when it is right.

    Args:
        fields: top-level keys and their values.
        folder: name of the folder that holds ``SKILL.md``.

    Source: the Agent Skills specification, and what its reference validator splits the file at (``---``).
    """
    found = [f"there is no key {key!r}; choose among {', '.join(KEYS)}" for key in fields if key not in KEYS]
    name, description, compatibility = fields.get("name"), fields.get("description"), fields.get("compatibility")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        found.append(f"name {name!r}: 1 to {MAX_NAME} lower-case ASCII letters, digits and single hyphens between them")
    elif name != folder:
        found.append(f"name {name!r} is not the folder's name {folder!r}")
    if not isinstance(description, str) or not 1 <= len(description.strip()) <= len(description) <= MAX_DESCRIPTION:
        found.append(f"description: a text of 1 to {MAX_DESCRIPTION} characters")
    elif not re.search(r"\bUse when\b", description):
        found.append("description: it has to say when to use the skill, as 'Use when …'")
    if compatibility is not None and not (isinstance(compatibility, str) and len(compatibility) <= MAX_COMPATIBILITY):
        found.append(f"compatibility: a text of at most {MAX_COMPATIBILITY} characters")
    for key in ("name", "description", "license", "compatibility", "allowed-tools"):
        found += [f"{key}: {problem}" for problem in _text_problems(fields.get(key))]
    return (*found, *_metadata_problems(fields.get("metadata", {})))


def _metadata_problems(metadata: object) -> list[str]:
    if not isinstance(metadata, Mapping):
        return ["metadata: a mapping of texts to texts"]
    found = []
    for key, value in metadata.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            found.append(f"metadata {key!r}: key and value must be texts")
        elif not _NAME.fullmatch(key):
            found.append(f"metadata {key!r}: a key is written like a name")
        else:
            found += [f"metadata {key!r}: {problem}" for problem in _text_problems(value)]
    return found


def _text_problems(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, str):
        return ["must be a text"]
    found = [] if value.isprintable() else ["one line of printable characters only"]
    return found + [f"holds {mark!r}" for mark in ("<", ">", "---") if mark in value]


def estimate_tokens(text: str) -> int:
    """Return more tokens than a usual tokenizer needs: no tokenizer is asked, so the estimate errs upwards.

    One per three letters of an ASCII word begun, one per digit, mark and line break, and one per UTF-8 byte of any
    other character; blanks go with the word that follows them.
    """
    return sum(
        -(-len(piece) // _LETTERS_PER_TOKEN) if piece.isascii() and piece.isalpha() else len(piece.encode())
        for piece in _PIECES.findall(text)
        if piece != " "
    )


def fits(body: str) -> bool:
    """Return whether a body stays under both limits."""
    return body.count("\n") + 1 < MAX_LINES and estimate_tokens(body) < MAX_TOKENS


def one_line(text: str) -> str:
    """Return text as one line that a front matter may hold: printable, without ``<``, ``>`` and ``---``."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(re.sub(r"-{3,}", "-", re.sub(r"[<>]", "", shown)).split())


def skill_name(text: str) -> str:
    """Return the nearest legal name to ``text``, such as ``shopping-skill``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MAX_NAME].strip("-") or "skill"


def describe(family: str, skill: Skill) -> str:
    """Write the description: what the skill holds, by its chunks' titles, and when to use it, by their conditions.

    Args:
        family: task family of the environment.
        skill: the skill.

    Returns:
        One line of at most `MAX_DESCRIPTION` characters.
    """
    about = one_line(family) or "one"
    titles = [one_line(chunk.title).rstrip(".;:") for chunk in skill.chunks]
    found = [_APPLIES.search(chunk.body) for chunk in skill.chunks]
    conditions = list(dict.fromkeys(one_line(match[1]).rstrip(".;: ") for match in found if match))
    start, use = f"Procedures for {about} tasks, each kept for its measured contribution: ", "Use when "
    room = (MAX_DESCRIPTION - len(start) - len(use) - len("; and 000 more. .")) // 2
    what = _within([title for title in titles if title], room, "; ")
    when = _within([text for text in conditions if text], room, "; or when ")
    default = f"working on {about} tasks"
    return one_line(f"{start}{what or 'none'}. {use}{when or default}.")[:MAX_DESCRIPTION]


def _within(items: Sequence[str], room: int, between: str) -> str:
    """Join as many whole items as fit into ``room`` characters, and count the rest."""
    kept: list[str] = []
    for item in items:
        if len(between.join([*kept, item])) > room:
            break
        kept.append(item)
    rest = len(items) - len(kept)
    return between.join(kept) + (f"; and {rest} more" if rest and kept else "") or (items[0][:room] if items else "")


def render_front_matter(fields: Mapping[str, str], metadata: Mapping[str, str]) -> str:
    """Return the front matter: every value double-quoted but the name, metadata in block style."""
    lines = [f"{key}: {value if key == 'name' else _quoted(value)}" for key, value in fields.items()]
    if metadata:
        lines += ["metadata:", *(f"  {_key(key)}: {_quoted(value)}" for key, value in metadata.items())]
    return "\n".join(["---", *lines, "---", ""])


def _key(name: str) -> str:
    """Return a name as a key; YAML 1.1 takes these words for truth values or nothing, unless they are quoted."""
    words = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    return _quoted(name) if name.lower() in words else name


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # every JSON string is a double-quoted YAML scalar


def render_body(skill: Skill) -> tuple[str, dict[ChunkId, str]]:
    """Return the body of ``SKILL.md``, and path → text of the chunks that had to move, largest first.

    Returns:
        The body, and ``{"references/<chunk id>.md": text}``.

    Raises:
        SkillFormatError: when the body is too long even with every chunk moved.
    """
    moved: dict[str, str] = {}
    while not fits(body := _body(skill, moved)):
        left = [chunk for chunk in skill.chunks if reference(chunk.id) not in moved]
        if not left:
            raise SkillFormatError(
                f"the preamble and the titles of {len(skill.chunks)} chunks alone need {body.count(chr(10)) + 1} lines "
                f"and about {estimate_tokens(body)} tokens, over {MAX_LINES} and {MAX_TOKENS}; shorten the preamble"
            )
        largest = max(left, key=lambda chunk: estimate_tokens(chunk.body))
        moved[reference(largest.id)] = largest.render() + "\n"
    return body, moved


def reference(chunk_id: ChunkId) -> str:
    """Return where a moved chunk stands, relative to ``SKILL.md``."""
    return f"references/{chunk_id}.md"


def _body(skill: Skill, moved: Collection[str]) -> str:
    shown = tuple(_stub(chunk) if reference(chunk.id) in moved else chunk for chunk in skill.chunks)
    return Skill(skill.preamble, shown).to_markdown()


def _stub(chunk: Chunk) -> Chunk:
    condition = _APPLIES.search(chunk.body)
    lines = [f"Applies when: {condition[1]}".strip()] if condition and len(condition[1]) <= MAX_CONDITION else []
    return Chunk(chunk.title, "\n\n".join([*lines, _link(chunk.id)]))


def _link(chunk_id: ChunkId) -> str:
    return f"Read [{reference(chunk_id)}]({reference(chunk_id)}) before acting on this."


def read_body(body: str, references: Mapping[str, str], moved: Collection[ChunkId]) -> Skill:
    """Read the skill back from a body and the texts of the chunks that moved.

    Args:
        body: of ``SKILL.md``, after the front matter.
        references: path → text, as `render_body` gave them.
        moved: ids of the chunks that moved.

    Raises:
        SkillFormatError: when a moved chunk's text is missing or is not one chunk.
    """
    shown = parse_skill(body)
    if missing := [reference(chunk_id) for chunk_id in moved if reference(chunk_id) not in references]:
        raise SkillFormatError(f"files that the skill refers to are missing, {offenders(missing)}; export it again")
    texts = {_link(chunk_id): parse_skill(references[reference(chunk_id)]).chunks for chunk_id in moved}
    if odd := [link for link, chunks in texts.items() if len(chunks) != 1]:
        raise SkillFormatError(f"files that should hold one chunk each do not, {offenders(odd)}; export it again")
    chunks = (texts.get(chunk.body.split("\n")[-1], (chunk,))[0] for chunk in shown.chunks)
    return Skill(shown.preamble, tuple(chunks))
