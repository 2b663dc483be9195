"""What a proposer may answer: the JSON schemas of chunks and proposals, and strict readers that name what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import Template
from typing import Any, cast, get_args

from intraskill.config.option import fits
from intraskill.environments.protocol import Environment, language_of
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash
from intraskill.method.skill.edits import Op
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, Skill

LANGUAGES = ("en", "zh")
NAMES = (
    "chunk_rules",
    "evidence",
    "success_analyst",
    "failure_analyst",
    "failure_trial",
    "trial_page",
    "failure_lesson",
    "reduce",
)


@dataclass(frozen=True)
class Prompts:
    """The prompts of one language.

    Attributes:
        language: ``en`` or ``zh``.
        texts: name → text with ``$placeholders``; ``$chunk_rules`` stands for the prompt of that name.
    """

    language: str
    texts: Mapping[str, str]

    @property
    def hash(self) -> str:
        """Hash of every text; a run is bound to it."""
        return content_hash(self.language, dict(self.texts))

    def fill(self, name: str, **values: object) -> str:
        """Return a prompt with its placeholders filled; ``$`` in a value stays as it is.

        Raises:
            KeyError: when a placeholder has no value.
        """
        filled = Template(self.texts[name]).substitute(values, chunk_rules=self.texts["chunk_rules"].strip())
        return filled.strip()


@lru_cache
def load_prompts(language: str) -> Prompts:
    """Read the prompts of a language from the package.

    Raises:
        ConfigError: for a language without prompts.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"there are no prompts in {language!r}; choose proposer.language from {', '.join(LANGUAGES)}")
    return Prompts(language, {name: prompt_text(name, language) for name in NAMES})


@lru_cache
def prompt_text(name: str, language: str) -> str:
    """Return one prompt file of the package, placeholders and all."""
    return (files("intraskill") / "prompts" / language / f"{name}.md").read_text(encoding="utf-8")


def prompt_language(environment: Environment, wanted: str = "auto") -> str:
    """Return ``wanted``, or for ``auto`` Chinese where the environment's pages are, else English."""
    if wanted != "auto":
        return wanted
    return "zh" if language_of(environment) == "zh" else "en"


OPS: tuple[str, ...] = get_args(Op)
TEXT: dict[str, Any] = {"type": "string"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
INTEGER: dict[str, Any] = {"type": "integer"}
INTEGERS: dict[str, Any] = {"type": "array", "items": INTEGER}
_KINDS: Mapping[str, type] = {"string": str, "array": list, "integer": int, "object": dict}


def record(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object that has exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def array(items: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


CHUNK = record(title=TEXT, applies_when=TEXT, procedure=TEXTS, verify=TEXT, avoid=TEXT)
PROPOSAL = record(
    op={"type": "string", "enum": list(OPS)},
    targets=TEXTS,
    chunks=array(CHUNK),
    root_cause=TEXT,
    expected_effect=TEXT,
)


def checked(data: Any, schema: Mapping[str, Any], where: str = "the answer") -> Any:
    """Return ``data`` when it is exactly what ``schema`` describes.

    Raises:
        ValueError: naming the first place that differs.
    """
    kind = schema["type"]
    if not fits(data, _KINDS[kind]):
        raise ValueError(f"{where} must be a JSON {kind}, got {type(data).__name__}")
    value: Any = data
    if kind == "object":
        properties = schema["properties"]
        if set(value) != set(properties):
            raise ValueError(f"{where} has the keys {sorted(value)}, it needs exactly {sorted(properties)}")
        for name, inner in properties.items():
            checked(value[name], inner, name if where == "the answer" else f"{where}.{name}")
    elif kind == "array":
        for index, item in enumerate(value):
            checked(item, schema["items"], f"{where}[{index}]")
    elif value not in schema.get("enum", [value]):
        raise ValueError(f"{where} is {value!r}, it must be one of {', '.join(schema['enum'])}")
    return value


def read_proposal(data: Mapping[str, Any], where: str, skill: Skill) -> Proposal:
    """Build a proposal, still without support, from a part of an answer that has the form of `PROPOSAL`.

    Raises:
        ValueError: for a target that the skill lacks, or chunks that do not fit the operation.
    """
    if unknown := sorted(set(data["targets"]) - set(skill.ids)):
        raise ValueError(f"{where}.targets names {unknown[0]!r}; the skill's chunk ids are {list(skill.ids)}")
    try:
        chunks = tuple(_chunk(item) for item in data["chunks"])
        made = Proposal(cast(Op, data["op"]), tuple(data["targets"]), chunks, data["root_cause"].strip())
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return Proposal(made.op, made.targets, made.chunks, made.root_cause, (), data["expected_effect"].strip())


def check_action(action: int, actions: int, where: str) -> int:
    """Return the number of a logged action.

    Raises:
        ValueError: when the log has no such line.
    """
    if not 1 <= action <= actions:
        raise ValueError(f"{where} is {action}, but the log has the actions 1 to {actions}")
    return action


def _chunk(data: Mapping[str, Any]) -> Chunk:
    steps = "\n".join(f"{i}. {_line(step)}" for i, step in enumerate(data["procedure"], 1) if step.strip())
    parts = [("Applies when: ", _line(data["applies_when"])), ("Procedure:\n", steps)]
    parts += [("Verify: ", _line(data["verify"])), ("Avoid: ", _line(data["avoid"]))]
    body = "\n".join(label + text for label, text in parts if text)
    if not body:
        raise ValueError(f"the chunk {data['title']!r} says nothing")
    return Chunk(_line(data["title"]), body)


def _line(text: str) -> str:
    return " ".join(text.split())
