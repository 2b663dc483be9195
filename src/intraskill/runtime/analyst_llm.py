"""The analyst that asks an LLM: one call per rollout, one strict schema (`proposer.name=openai`).

It is given what the policy could see, and the reward parts; it never sees a goal. What it answers is a candidate
like any other: ledger, firewall and gate come after it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from intraskill.method.edits import Op
from intraskill.method.proposals import Proposal
from intraskill.method.rollouts import Rollout
from intraskill.method.skill import Chunk, Skill
from intraskill.runtime.llm import BadAnswerError, JsonClient
from intraskill.runtime.trace2skill import Analysis, rollout_id

OPS: tuple[str, ...] = get_args(Op)
MAX_PROPOSALS = 3
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


def _record(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


CHUNK = _record(title=_TEXT, applies_when=_TEXT, procedure=_TEXTS, verify=_TEXT, avoid=_TEXT)
PROPOSAL = _record(
    op={"type": "string", "enum": list(OPS)},
    targets=_TEXTS,
    chunks={"type": "array", "items": CHUNK},
    root_cause=_TEXT,
    expected_effect=_TEXT,
)
SCHEMA = _record(proposals={"type": "array", "items": PROPOSAL})

SYSTEM = f"""You improve a short written skill that an agent reads before it acts.
You get the current skill (each chunk with its id), and the log of one episode with its reward components.
Find the earliest decision that settled the outcome. Propose the smallest change of the skill that would lead to a
better decision there in other episodes too, or nothing: most episodes need no change.

Operations: ADD (no targets, one chunk), REWRITE (one target, one chunk), DELETE (one target, no chunk),
MERGE (several targets, one chunk), SPLIT (one target, several chunks).
At most {MAX_PROPOSALS} proposals; each target once.
A chunk is a procedure that transfers. Never write a product, an identifier, a price, a name of a user, or words of this
very request. Write plain sentences, no markup.

Reply with one JSON object:
{{"proposals": [{{"op": "ADD", "targets": [], "chunks": [{{"title": "…", "applies_when": "…", "procedure": ["…"],
"verify": "…", "avoid": "…"}}], "root_cause": "…", "expected_effect": "…"}}]}}
or {{"proposals": []}}."""


@dataclass(frozen=True, slots=True)
class LlmAnalyst:
    """Asks about each rollout on its own; see `intraskill.runtime.trace2skill.Analyst`.

    Attributes:
        client: endpoint and cache.
        max_calls: most rollouts read per pass; failures come first.
    """

    client: JsonClient
    max_calls: int = 100

    @property
    def name(self) -> str:
        """The model's name."""
        return f"llm:{self.client.endpoint.model}"

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Ask about each rollout; a wrong answer is re-asked once, then dropped and counted.

        Raises:
            EndpointError: when the endpoint gives no answer.
        """
        scored = sorted((r for r in rollouts if r.fault is None), key=lambda r: (r.reward or 0.0, rollout_id(r)))
        asked = scored[: self.max_calls]
        counts = Counter(faults=len(rollouts) - len(scored), over_budget=len(scored) - len(asked))
        proposals: list[Proposal] = []
        for rollout in asked:
            try:
                made = self._ask(rollout, skill)
            except BadAnswerError:
                counts["bad_answer"] += 1
                continue
            counts["no_proposal"] += not made
            proposals += made
        return Analysis(tuple(proposals), dict(counts))

    def _ask(self, rollout: Rollout, skill: Skill) -> tuple[Proposal, ...]:
        def read(data: Any) -> tuple[Proposal, ...]:
            return read_proposals(data, skill, (rollout_id(rollout),))

        return self.client.ask(SYSTEM, describe(rollout, skill), SCHEMA, read)


def describe(rollout: Rollout, skill: Skill) -> str:
    """Return the question about one rollout: the skill, what was shown of it, the request, the log, the rewards."""
    chunks = [f"[{c.id}]{' (shown)' if c.id in rollout.visible else ''} {c.title}\n{c.body}" for c in skill.chunks]
    turns = [
        f"{i}. on {turn.page}: {turn.tool or 'no tool'}({turn.argument!r}) → {turn.feedback}"
        for i, turn in enumerate(rollout.turns, 1)
    ]
    parts = ", ".join(f"{name}={value:g}" for name, value in sorted(rollout.parts.items()))
    sections = {
        "Current skill": "\n\n".join(chunks) or "(empty)",
        "Request": rollout.request,
        "Log": "\n".join(turns) or "(no action)",
        "Outcome": f"reward {rollout.reward:g}; {parts}" + ("; cut off by a limit" if rollout.truncated else ""),
    }
    return "\n\n".join(f"## {title}\n{text}" for title, text in sections.items())


def read_proposals(data: Any, skill: Skill, support: tuple[str, ...]) -> tuple[Proposal, ...]:
    """Build proposals from an answer.

    Raises:
        ValueError: saying exactly what does not fit the schema or the skill.
    """
    items = _fields(data, SCHEMA, "the answer")["proposals"]
    if len(items) > MAX_PROPOSALS:
        raise ValueError(f"{len(items)} proposals, at most {MAX_PROPOSALS} are allowed")
    return tuple(_proposal(item, f"proposals[{i}]", skill, support) for i, item in enumerate(items))


def _proposal(data: Any, where: str, skill: Skill, support: tuple[str, ...]) -> Proposal:
    fields = _fields(data, PROPOSAL, where)
    if unknown := sorted(set(fields["targets"]) - set(skill.ids)):
        raise ValueError(f"{where}.targets names {unknown[0]!r}; the skill's chunk ids are {list(skill.ids)}")
    chunks = tuple(_chunk(item, f"{where}.chunks[{i}]") for i, item in enumerate(fields["chunks"]))
    targets = tuple(fields["targets"])
    return Proposal(cast(Op, fields["op"]), targets, chunks, fields["root_cause"], support, fields["expected_effect"])


def _chunk(data: Any, where: str) -> Chunk:
    fields = _fields(data, CHUNK, where)
    steps = "\n".join(f"{i}. {_line(step)}" for i, step in enumerate(fields["procedure"], 1))
    parts = [("Applies when: ", _line(fields["applies_when"])), ("Procedure:\n", steps)]
    parts += [("Verify: ", _line(fields["verify"])), ("Avoid: ", _line(fields["avoid"]))]
    return Chunk(_line(fields["title"]), "\n".join(label + text for label, text in parts if text))


def _line(text: str) -> str:
    return " ".join(text.split())


def _fields(data: Any, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check one object of the schema, one level deep."""
    if not isinstance(data, dict):
        raise ValueError(f"{where} must be a JSON object, got {type(data).__name__}")
    if set(data) != set(schema["properties"]):
        raise ValueError(f"{where} has the keys {sorted(data)}, it needs exactly {sorted(schema['properties'])}")
    for name, kind in schema["properties"].items():
        value = data[name]
        if not isinstance(value, str if kind["type"] == "string" else list):
            raise ValueError(f"{where}.{name} must be a JSON {kind['type']}, got {type(value).__name__}")
        if kind.get("items") == _TEXT and not all(isinstance(item, str) for item in value):
            raise ValueError(f"{where}.{name} must hold strings only")
        if value not in kind.get("enum", [value]):
            raise ValueError(f"{where}.{name} is {value!r}, it must be one of {', '.join(kind['enum'])}")
    return data
