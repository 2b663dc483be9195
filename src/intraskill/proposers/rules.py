"""The proposer without any LLM (`proposer.name=rules`): what the environment reads in its episodes, tested by counting.

The environment's reader says what each episode teaches, and at how many decisions a lesson was followed or not and what
came out. A lesson is offered only if it came out more often where it was followed than where it was not, by Fisher's
exact test. That needs both sides: failures alone, or successes alone, teach nothing. What the reader cannot read is
counted and left out. The gate decides about the rest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from intraskill.environments.evidence import Finding, Reader, Reading, Sighting
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Skill
from intraskill.proposers.analysis_records import AnalysisRecord, call_id, rollout_id
from intraskill.proposers.llm import full_success
from intraskill.proposers.trace2skill import Analysis

UNREADABLE = "unreadable"
LEVEL = 0.05
"""Largest p of a lesson that is offered; one-sided, each lesson alone: what passes by chance, the gate refuses."""


@dataclass(frozen=True, slots=True)
class Support:
    """How often what a lesson is for came out, at decisions where it was followed and where it was not.

    Attributes:
        followed: number of decisions at which it was.
        worked: of these, those at which it came out.
        otherwise: number of decisions at which it was not followed.
        worked_otherwise: of these, those at which it came out.
    """

    followed: int
    worked: int
    otherwise: int
    worked_otherwise: int

    @property
    def p(self) -> float:
        """One-sided p of Fisher's exact test; 1 where a side is empty."""
        if not (self.followed and self.otherwise):
            return 1.0
        from scipy.stats import fisher_exact

        table = [
            [self.worked, self.followed - self.worked],
            [self.worked_otherwise, self.otherwise - self.worked_otherwise],
        ]
        return float(fisher_exact(table, alternative="greater").pvalue)

    @property
    def words(self) -> str:
        """The counts and the test."""
        return (
            f"followed, it came out {self.worked} of {self.followed} times; not followed, {self.worked_otherwise} of "
            f"{self.otherwise}; Fisher's exact p = {self.p:.2g}"
        )


def support_of(sightings: Iterable[Sighting]) -> dict[str, Support]:
    """Return mechanism → support over all sightings."""
    seen = Counter((one.mechanism, one.followed, one.worked) for one in sightings)

    def sum_of(mechanism: str, followed: bool) -> tuple[int, int]:
        worked = seen[mechanism, followed, True]
        return worked + seen[mechanism, followed, False], worked

    return {name: Support(*sum_of(name, True), *sum_of(name, False)) for name in sorted({key[0] for key in seen})}


@dataclass(frozen=True, slots=True)
class RulesProposer:
    """Reads every rollout against the current skill; see `intraskill.proposers.trace2skill.Proposer`.

    Attributes:
        reader: the environment's, or ``None``, which can read nothing.
    """

    reader: Reader | None = None
    name: str = "rules"
    reducer: None = None
    prompts_hash: str = ""
    usage: None = None

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Return one proposal per finding whose lesson the rollouts together support."""
        scored = sorted((r for r in rollouts if r.fault is None), key=rollout_id)
        read: Sequence[Reading | None] = [None] * len(scored) if self.reader is None else self.reader.read(scored)
        support = support_of(one for reading in read if reading is not None for one in reading.sightings)
        counts: Counter[str] = Counter(faults=len(rollouts) - len(scored))
        if unreadable := sum(reading is None for reading in read):
            counts[UNREADABLE] = unreadable
        records = []
        for rollout, reading in zip(scored, read, strict=True):
            findings = () if reading is None else reading.findings
            counts.update(f"{_outcome(rollout)}/{f.mechanism}" for f in findings)
            backed = [f for f in findings if f.mechanism in support and support[f.mechanism].p <= LEVEL]
            counts["unsupported"] += len(findings) - len(backed)
            made = [(p, f.turn + 1) for f in backed if (p := self._propose(f, rollout, skill, scored, support))]
            counts["no_proposal"] += not made
            record = _record(rollout, findings, support)
            records.append(record.proposing([p for p, _ in made], [turn for _, turn in made]))
        return Analysis(tuple(p for record in records for p in record.proposed), dict(counts), tuple(records))

    def _propose(
        self,
        finding: Finding,
        rollout: Rollout,
        skill: Skill,
        scored: Sequence[Rollout],
        support: Mapping[str, Support],
    ) -> Proposal | None:
        """Write a finding as an ADD, as a REWRITE of a shown chunk that did not help, or not at all."""
        assert self.reader is not None
        wordings = self.reader.lessons(finding.mechanism, scored)
        if not wordings:
            return None
        covering = [chunk for chunk in skill.chunks if self.reader.mechanism_of(chunk) == finding.mechanism]
        source, cause, counted = (rollout_id(rollout),), finding.mechanism, support[finding.mechanism].words
        if not covering:
            return Proposal("ADD", (), wordings[:1], cause, source, f"more decisions like those that worked: {counted}")
        shown = [chunk for chunk in covering if chunk.id in rollout.visible]
        if full_success(rollout.parts, rollout.reward) or not shown:
            return None
        old = shown[0]
        new = next(chunk for chunk in reversed(wordings) if chunk.body != old.body)
        if new.id in skill.ids:
            return None
        return Proposal(
            "REWRITE", (old.id,), (new,), cause, source, f"the new wording is followed more often: {counted}"
        )


def _record(rollout: Rollout, findings: Sequence[Finding], support: Mapping[str, Support]) -> AnalysisRecord:
    kind: Literal["success", "failure"] = "success" if _outcome(rollout) == "success" else "failure"
    said = "; ".join(f"{f.mechanism}: {f.evidence}{_counts(f, support)}" for f in findings)
    responsible = findings[0].turn + 1 if findings and kind == "failure" else 0
    name = rollout_id(rollout)
    return AnalysisRecord(call_id(kind, name), kind, "rules", name, diagnosis=said, responsible_action=responsible)


def _counts(finding: Finding, support: Mapping[str, Support]) -> str:
    return f" ({support[finding.mechanism].words})" if finding.mechanism in support else ""


def _outcome(rollout: Rollout) -> str:
    return "success" if full_success(rollout.parts, rollout.reward) else "failure"
