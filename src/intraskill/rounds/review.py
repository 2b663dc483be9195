"""From a round's failures to candidate edits: frontier, triage, proposals (method §6)."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from intraskill.environments.protocol import is_solvable
from intraskill.method.curriculum.frontier import Review, TriageRule, Verdict, find_frontier, triage
from intraskill.method.errors import counted
from intraskill.method.gate.decision import Decision
from intraskill.method.gate.rules import Fate
from intraskill.method.randomness import shuffled
from intraskill.method.rollouts import GroupResult, Rollout
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import BARE, Skill
from intraskill.proposers.analysis_records import without_edits
from intraskill.proposers.proposal_filter import Memory
from intraskill.proposers.trace2skill import ProposalBatch, propose_batch
from intraskill.rounds.arms import plan_arm, run_arm
from intraskill.rounds.run import Run
from intraskill.rounds.training import frontier_rule
from intraskill.store.artifacts import ANALYSES, EDITS, FRONTIER, REVIEW_BARE, REVIEW_FULL, REVIEWS
from intraskill.store.contents import FrontierCounts
from intraskill.store.metrics import log_spending
from intraskill.store.records import to_json

_WITHOUT_PROPOSAL = ("no_proposal", "bad_answer", "fix_failed", "no_trial", "no_action", "faults", "over_budget")
"""Counts of rollouts that gave an LLM's proposer nothing (`intraskill.proposers.analysis_records`)."""


def review_frontier(
    run: Run, directory: Path, round_index: int, results: Sequence[GroupResult], skill: Skill
) -> tuple[FrontierCounts, tuple[Rollout, ...]]:
    """Re-run every frontier task at the frozen checkpoint, with the full skill and bare, and judge it (method §6.2).

    Without re-runs (``triage.reruns=0``, a control) every frontier task counts as a skill deficit.

    Returns:
        The frontier counts, and the rollouts that speak for proposals: those of skill-deficit tasks only.
    """
    seed = run.config.seed
    found = find_frontier(results, frontier_rule(run.config.frontier))
    rows = [
        {"task_id": result.group.task.id, "group": result.group.id, "rewards": list(result.rewards)} for result in found
    ]
    FRONTIER.write(directory, rows)
    by_id = {result.group.task.id: result for result in found}
    chosen = shuffled(by_id, seed, "review", round_index)[: run.config.frontier.max_tasks]
    tasks, again = [by_id[task_id].group.task for task_id in chosen], run.config.triage.reruns
    whole = frozenset(skill.ids)
    address = ("review_full", round_index)
    full = run_arm(
        run,
        REVIEW_FULL.path(directory),
        round_index,
        plan_arm(seed, tasks, skill, whole, address=address, repeats=again),
    )
    address = ("review_bare", round_index)
    bare = run_arm(
        run,
        REVIEW_BARE.path(directory),
        round_index,
        plan_arm(seed, tasks, skill, BARE, address=address, repeats=again),
    )
    rule = TriageRule(run.config.triage.solved, run.config.triage.min_valid)
    verdicts: dict[str, Verdict] = {}
    judged = []
    for task_id in chosen:
        solvable = is_solvable(run.environment, task_id)
        review = Review(task_id, _rewards(full, task_id), _rewards(bare, task_id), solvable)
        verdicts[task_id] = triage(review, rule) if again else Verdict.SKILL_DEFICIT
        judged.append(to_json(review) | {"verdict": verdicts[task_id].value})
    REVIEWS.write(directory, judged)
    deficits = {task_id for task_id, verdict in verdicts.items() if verdict is Verdict.SKILL_DEFICIT}
    first = [rollout for result in found if result.group.task.id in deficits for rollout in result.rollouts]
    second = [rollout for rollout in full if rollout.task_id in deficits]
    return _counts(len(found), verdicts.values()), (*first, *second)


def _counts(groups: int, verdicts: Collection[Verdict]) -> FrontierCounts:
    of = Counter(verdicts)
    return FrontierCounts(
        groups=groups,
        reviewed=len(verdicts),
        model_deficit=of[Verdict.MODEL_DEFICIT],
        skill_deficit=of[Verdict.SKILL_DEFICIT],
        environment=of[Verdict.ENVIRONMENT],
        undecided=of[Verdict.UNDECIDED],
    )


def _rewards(rollouts: Sequence[Rollout], task_id: str) -> tuple[float | None, ...]:
    return tuple(rollout.reward for rollout in rollouts if rollout.task_id == task_id)


def propose(
    run: Run,
    directory: Path,
    evidence: Sequence[Rollout],
    skill: Skill,
    memory: Memory,
    groups: Sequence[GroupResult] = (),
) -> tuple[tuple[Proposal, ...], Ledger]:
    """Run Trace2Skill on the evidence and write its records and ``edits.json`` (method §4, §6.3).

    Args:
        run: the run.
        directory: the round's directory.
        evidence: rollouts of skill deficits, or of the cold start.
        skill: S_t.
        memory: every proposal so far, and the round; round 0 only adds drafts.
        groups: the round's training groups.

    Returns:
        The proposals for the gate, and the ledger with what was turned away before it.
    """
    if not EDITS.exists(directory):
        try:
            batch = _batch(run, evidence, skill, memory, groups)
        finally:
            usage = run.proposer.usage if run.proposer is not None else None
            log_spending(run.metrics, run.monitor, usage, memory.round_index, "proposals")
        if batch.counts.get("unreadable"):
            run.monitor.say(f"round {memory.round_index}: {unreadable_line(batch, len(evidence))}")
        if "asked" in batch.counts:
            run.monitor.say(f"round {memory.round_index}: {answers_line(batch)}")
        elif "parsed" in batch.counts:
            run.monitor.say(f"round {memory.round_index}: {analyses_line(batch)}")
        ANALYSES.write(directory, [to_json(record) for record in batch.records])
        EDITS.write(directory, replace(batch, records=()))  # the records hold notes that nobody else may read
    proposed, ledger = EDITS.read(directory), memory.ledger
    for refusal in proposed.refused:
        ledger = ledger.record(memory.round_index, refusal.proposal, Fate.LEAK_FILTER, refusal.reason)
    for blocked in proposed.blocked:
        ledger = ledger.record(memory.round_index, blocked.proposal, Fate.BLOCKED, blocked.reason)
    if not proposed.proposals and evidence and run.proposer is not None:
        ledger = ledger.record(memory.round_index, None, Fate.NO_PROPOSAL, f"{len(evidence)} rollouts read")
    return proposed.proposals, ledger


def unreadable_line(batch: ProposalBatch, rollouts: int) -> str:
    """Say that the analyst could not read trajectories, which looks like one that finds nothing otherwise."""
    return (
        f"{batch.analyst}: this analyst cannot read {batch.counts['unreadable']:,} of these {rollouts:,} trajectories, "
        "whose pages are of no shop that it knows, and offers nothing on them; proposer.name=openai reads any pages"
    )


def answers_line(batch: ProposalBatch) -> str:
    """Return what became of an editor's answers: one that says nothing valid looks like one without ideas otherwise."""
    counts = batch.counts
    edits = counts["asked"] - counts["noop"] - counts["invalid"]
    reasons = [f"{n} {name.removeprefix('invalid/')}" for name, n in counts.items() if name.startswith("invalid/")]
    wrong = f"{counts['invalid']} invalid" + (f" ({', '.join(reasons)})" if reasons else "")
    no_room = counted(counts["no_room"], "rollout")
    unread = f"; no prompt beside the skill has room for {no_room}" if counts["no_room"] else ""
    given, valid = counted(counts["asked"], "answer"), f"{counted(edits, 'edit')}, {counts['noop']} NOOP"
    return f"{batch.analyst} gave {given}: {valid}, {wrong}{unread}"


def analyses_line(batch: ProposalBatch) -> str:
    """Return what an LLM's analyses came to, and why rollouts gave nothing; the report shows candidates only."""
    counts = batch.counts
    fell = [f"{counts[name]} {name}" for name in _WITHOUT_PROPOSAL if counts.get(name)]
    lost = f"; rollouts without one: {', '.join(fell)}" if fell else ""
    return f"{batch.analyst} made {counted(counts['mapped'], 'proposal')}{lost}"


def _batch(
    run: Run, evidence: Sequence[Rollout], skill: Skill, memory: Memory, groups: Sequence[GroupResult]
) -> ProposalBatch:
    if run.proposer is None or not (evidence or groups):
        return ProposalBatch((), (), {}, "")
    first = memory.round_index == 0
    room = max(0, run.config.coldstart.max_drafts - len(skill.chunks)) if first else run.config.proposer.max_candidates
    batch = propose_batch(evidence, skill, run.proposer, run.leak_filter, limit=room, memory=memory, groups=groups)
    return adding_at_most(room, batch)


def adding_at_most(chunks: int, batch: ProposalBatch) -> ProposalBatch:
    """Leave out what would add more than ``chunks`` chunks in all: a SPLIT adds several, and a pool has its limit."""
    kept: list[Proposal] = []
    for proposal in batch.proposals:
        if sum(len(other.chunks) for other in (*kept, proposal)) <= chunks:
            kept.append(proposal)
    gone = {proposal.to_edit().id for proposal in batch.proposals} - {proposal.to_edit().id for proposal in kept}
    counts = {**batch.counts, "too_large": len(batch.proposals) - len(kept)}
    return replace(batch, proposals=tuple(kept), counts=counts, records=without_edits(batch.records, gone))


def record_fates(memory: Memory, proposals: Sequence[Proposal], decision: Decision, skill: Skill) -> Ledger:
    """Enter what the gate decided on each proposal of ``skill``; at the cold start one is judged by its chunk."""
    ledger = memory.ledger
    for proposal in proposals:
        edit = proposal.to_edit()
        key = edit.id if edit.id in decision.fates else edit.added_ids[0]
        taken = decision.fates[key] is Fate.SELECTED
        replaced = [chunk for chunk in skill.chunks if taken and chunk.id in proposal.targets]
        ledger = ledger.record(memory.round_index, proposal, decision.fates[key], decision.reasons[key], replaced)
    return ledger
