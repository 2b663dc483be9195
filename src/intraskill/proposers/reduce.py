"""REDUCE with an LLM: small batches, few levels; it says which proposals belong together, code unites their supports.

Nothing is lost: an input that no output names goes on unchanged, and so do the inputs of a merge that failed or whose
text the screen refuses. Batches are made from sorted proposals, so the order in which they were found does not matter.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from intraskill.llm.client import BadAnswerError, JsonClient
from intraskill.method.randomness import content_hash
from intraskill.method.skill.proposals import Proposal, unite_equals
from intraskill.method.skill.skill import Skill
from intraskill.proposers.analysis_records import AnalysisRecord, call_id, describe_skill
from intraskill.proposers.schema import INTEGERS, PROPOSAL, Prompts, array, checked, read_proposal, record

BATCH = 5
_MAX_LEVELS = 5
SCHEMA = record(outputs=array(record(inputs=INTEGERS, proposal=PROPOSAL)))
Allows = Callable[[Proposal], bool]
_Output = tuple[tuple[int, ...], Proposal]


@dataclass(frozen=True, slots=True)
class Reduction:
    """What REDUCE made of proposals.

    Attributes:
        proposals: fewer, or the same.
        counts: ``merged_level_1`` and so on: proposals that a level united away; ``reduce_bad_answer``: batches that
            went on unread; ``reduce_refused``: outputs that the screen refused.
        records: one per call.
    """

    proposals: tuple[Proposal, ...]
    counts: dict[str, int]
    records: tuple[AnalysisRecord, ...]


@dataclass(frozen=True, slots=True)
class LlmReducer:
    """Unites proposals level by level, until a level unites nothing.

    Attributes:
        client: endpoint and cache.
        prompts: of one language.
    """

    client: JsonClient
    prompts: Prompts

    def reduce(self, proposals: Sequence[Proposal], skill: Skill, allows: Allows) -> Reduction:
        """Return the united proposals.

        Args:
            proposals: screened, no two of equal meaning.
            skill: the frozen current skill.
            allows: the screen; an output that it refuses is not made.

        Raises:
            EndpointError: when the endpoint gives no answer.
        """
        counts: Counter[str] = Counter()
        records: list[AnalysisRecord] = []
        current = list(proposals)
        for level in range(1, _MAX_LEVELS + 1):
            if len(current) < 2:
                break
            ordered = sorted(current, key=lambda p: _order(p, level))
            batches = [ordered[i : i + BATCH] for i in range(0, len(ordered), BATCH)]
            found = self.client.each(batches, partial(self._ask, skill, level))
            following: list[Proposal] = []
            for batch, answer in zip(batches, found, strict=True):
                united, call = _apply(batch, answer, allows, counts)
                following += united
                records += [] if call is None else [call]
            counts[f"merged_level_{level}"] = len(current) - len(following)
            if len(following) == len(current):
                break
            current = list(unite_equals(following))
        return Reduction(tuple(current), dict(counts), tuple(records))

    def _ask(self, skill: Skill, level: int, batch: Sequence[Proposal]) -> tuple[AnalysisRecord, tuple[_Output, ...]]:
        if len(batch) < 2:
            return AnalysisRecord("", "reduce", self.client.endpoint.model), ()
        messages = [
            {"role": "system", "content": self.prompts.fill("reduce")},
            {"role": "user", "content": _describe_batch(batch, skill)},
        ]
        outputs = self.client.ask(messages, SCHEMA, lambda data: _read_outputs(data, batch, skill))
        inputs = tuple(sorted({call.partition("~")[0] for proposal in batch for call in proposal.calls}))
        name = call_id("reduce", f"level_{level}", messages)
        return AnalysisRecord(name, "reduce", self.client.endpoint.model, inputs=inputs), outputs


def _describe_batch(batch: Sequence[Proposal], skill: Skill) -> str:
    """Return the numbered proposals beside the skill: operation, targets and chunk text, which the screen has read."""
    parts = [f"## Current skill\n\n{describe_skill(skill)}", "## Inputs"]
    for number, proposal in enumerate(batch, 1):
        targets = f" {', '.join(proposal.targets)}" if proposal.targets else ""
        chunks = [f"{chunk.title}\n{chunk.body}" for chunk in proposal.chunks]
        parts.append("\n\n".join([f"{number}. {proposal.op}{targets}", *chunks]))
    return "\n\n".join(parts)


def _read_outputs(data: Any, batch: Sequence[Proposal], skill: Skill) -> tuple[_Output, ...]:
    """Return the places of the inputs of each output, and its proposal with their supports united.

    An output of a single input changes nothing and is left out.

    Raises:
        ValueError: for an input that does not exist or is named twice, or targets that none of the inputs has.
    """
    taken: set[int] = set()
    outputs = []
    for index, item in enumerate(checked(data, SCHEMA)["outputs"]):
        where = f"outputs[{index}]"
        for number in item["inputs"]:
            if not 1 <= number <= len(batch):
                raise ValueError(f"{where}.inputs names {number}, but the inputs are 1 to {len(batch)}")
            if number in taken:
                raise ValueError(f"{where}.inputs names {number}, which an output names already")
            taken.add(number)
        made = read_proposal(item["proposal"], f"{where}.proposal", skill)
        inputs = [batch[number - 1] for number in item["inputs"]]
        if not any(set(made.targets) == set(one.targets) for one in inputs):
            raise ValueError(f"{where}.proposal.targets are {list(made.targets)}, which none of its inputs has")
        if len(inputs) > 1:
            outputs.append((tuple(number - 1 for number in item["inputs"]), _carrying(made, inputs)))
    return tuple(outputs)


def _carrying(made: Proposal, inputs: Sequence[Proposal]) -> Proposal:
    support = tuple(sorted({name for one in inputs for name in one.support}))
    return replace(made, support=support, calls=tuple(sorted({call for one in inputs for call in one.calls})))


def _apply(
    batch: Sequence[Proposal],
    answer: tuple[AnalysisRecord, tuple[_Output, ...]] | BadAnswerError,
    allows: Allows,
    counts: Counter[str],
) -> tuple[list[Proposal], AnalysisRecord | None]:
    if isinstance(answer, BadAnswerError):
        counts["reduce_bad_answer"] += 1
        return list(batch), None
    call, outputs = answer
    allowed = [output for output in outputs if allows(output[1])]
    counts["reduce_refused"] += len(outputs) - len(allowed)
    used = {place for places, _ in allowed for place in places}
    kept = [proposal for place, proposal in enumerate(batch) if place not in used]
    made = call.proposing([proposal for _, proposal in allowed])
    # The text is this call's, the evidence that of its inputs: both stand on the proposal.
    marked = [
        replace(one.proposal, calls=tuple(sorted({*one.proposal.calls, *proposal.calls})))
        for one, (_, proposal) in zip(made.proposals, allowed, strict=True)
    ]
    return kept + marked, made if call.id else None


def _order(proposal: Proposal, level: int) -> tuple[object, ...]:
    """By target and words first, so that what is alike meets; at later levels so that others meet."""
    if level == 1:
        return proposal.targets, tuple(chunk.title.casefold() for chunk in proposal.chunks), proposal.meaning
    return (content_hash("level", level, proposal.meaning),)
