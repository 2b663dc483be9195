"""A rubric judge: an LLM says of every criterion whether an answer meets it; it never sees a skill.

A criterion that is not judged, or judged twice, makes the judgement invalid: it is asked for once more and is then a
fault, never a score of 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from intraskill.editor.domain import Answer, Query
from intraskill.editor.workers import endpoint_hash
from intraskill.editor.workers_options import instruction
from intraskill.llm.client import BadAnswerError, JsonClient, Message
from intraskill.method.errors import ConfigError

Grading = Literal["all", "share"]
GRADINGS: tuple[Grading, ...] = ("all", "share")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["criteria"],
    "properties": {
        "criteria": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["number", "met", "why"],
                "properties": {
                    "number": {"type": "integer"},
                    "met": {"type": "boolean"},
                    "why": {"type": "string"},
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """One requirement on an answer, with a weight above 0."""

    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judge said of one criterion: met or not, and the words of the answer, or the reason."""

    met: bool
    why: str


def read_rubric(rows: Any) -> tuple[Criterion, ...]:
    """Return the criteria of a task's ``rubrics``.

    Args:
        rows: a list of texts, or of objects ``{"criterion": …, "weight": …}``.

    Raises:
        ValueError: for an empty rubric, or a row that is no criterion.
    """
    if not isinstance(rows, list) or not rows:
        raise ValueError("rubrics is empty; give at least one criterion")
    return tuple(_criterion(row, number) for number, row in enumerate(rows, 1))


@dataclass(frozen=True)
class RubricJudge:
    """An LLM as `intraskill.editor.domain.Verifier`; a query's facts hold its ``rubric`` and ``question``.

    Attributes:
        client: asks the judge's endpoint.
        grading: ``all`` = 1 when every criterion is met, else 0; ``share`` = weighted share of those that are met.
        language: of the prompt.

    Raises:
        ConfigError: for an unknown grading.
    """

    client: JsonClient
    grading: Grading = "all"
    language: str = "en"

    def __post_init__(self) -> None:
        if self.grading not in GRADINGS:
            raise ConfigError(f"editor.options.grading={self.grading!r} is unknown; choose {', '.join(GRADINGS)}")

    @property
    def version(self) -> str:
        """Hash of model, settings, prompt and grading."""
        return endpoint_hash(self.client, instruction("editor_judge", self.language), self.grading, SCHEMA)

    def score(self, query: Query, answer: Answer) -> float:
        """Return the grade of an answer; an empty one meets nothing, and nobody is asked.

        Raises:
            BadAnswerError: when the judge gives no valid judgement.
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        rubric: Sequence[Criterion] = query.facts["rubric"]
        if not answer.text.strip():
            return 0.0
        found = self.judge(query.facts["question"], answer.text, rubric)
        if self.grading == "all":
            return float(all(one.met for one in found))
        met = sum(criterion.weight for criterion, one in zip(rubric, found, strict=True) if one.met)
        return met / sum(criterion.weight for criterion in rubric)

    def judge(self, question: str, answer: str, rubric: Sequence[Criterion]) -> tuple[Judgement, ...]:
        """Return one judgement per criterion, in order; all are asked for in one question.

        Raises:
            BadAnswerError: when the judge gives no valid judgement.
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        criteria = "\n".join(f"{number}. {one.text}" for number, one in enumerate(rubric, 1))
        parts = {"question": question, "answer": answer, "criteria": criteria}
        asked = "\n\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in parts.items())
        messages: list[Message] = [
            {"role": "system", "content": instruction("editor_judge", self.language)},
            {"role": "user", "content": asked},
        ]
        return self.client.ask(messages, SCHEMA, lambda value: read_judgements(value, len(rubric)))

    def ahead(self, query: Query, answer: Answer) -> None:
        """Judge now what will be scored later, so that many answers are judged at once; a bad judgement waits.

        Raises:
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        try:
            self.score(query, answer)
        except BadAnswerError:
            return


def read_judgements(value: Any, count: int) -> tuple[Judgement, ...]:
    """Return the judgements of criteria 1 … ``count``.

    Raises:
        ValueError: saying what the judge's JSON lacks.
    """
    rows = value.get("criteria") if isinstance(value, Mapping) else None
    if not isinstance(rows, list):
        raise ValueError('it needs one key "criteria" with a list')
    found: dict[int, Judgement] = {}
    for row in rows:
        if not isinstance(row, Mapping) or set(row) != {"number", "met", "why"}:
            raise ValueError('every criterion needs exactly the keys "number", "met" and "why"')
        number, met, why = row["number"], row["met"], row["why"]
        if type(number) is not int or not 1 <= number <= count or number in found:
            raise ValueError(f"number {number!r} is not one of 1 to {count}, or stands twice")
        if type(met) is not bool or not isinstance(why, str):
            raise ValueError(f'criterion {number}: "met" must be true or false and "why" a text')
        found[number] = Judgement(met, why)
    if missing := [number for number in range(1, count + 1) if number not in found]:
        raise ValueError(f"criteria {', '.join(map(str, missing))} are not judged")
    return tuple(found[number] for number in sorted(found))


def _criterion(row: Any, number: int) -> Criterion:
    if isinstance(row, str) and row.strip():
        return Criterion(row.strip())
    if isinstance(row, Mapping) and set(row) <= {"criterion", "weight"}:
        text, weight = row.get("criterion"), row.get("weight", 1.0)
        sound = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight < float("inf")
        if isinstance(text, str) and text.strip() and sound:
            return Criterion(text.strip(), float(weight))
    raise ValueError(f"rubrics[{number - 1}] is no criterion; give a text, or an object with criterion and weight > 0")
