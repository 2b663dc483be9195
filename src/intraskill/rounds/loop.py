"""The loop (method §9): cold start, then rounds of training, review, proposals, validation and curriculum.

A round directory is the whole state. Every stage writes one readable artifact and skips itself when it is there, so
the same command continues a killed run to the same bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from intraskill.config.config import Config, CurriculumConfig, check
from intraskill.method.curriculum.contexts import Curriculum, bare_probability, visible_probability
from intraskill.method.curriculum.exposure import ExposureRule, allocate_exposure, fixed_q, gap_q, linear_q
from intraskill.method.curriculum.visibility import signal_of, signal_q
from intraskill.method.errors import counted
from intraskill.method.rollouts import GroupResult
from intraskill.method.skill.edits import pool
from intraskill.method.skill.proposals import Ledger
from intraskill.method.skill.skill import ChunkId, Skill
from intraskill.proposers.proposal_filter import Memory
from intraskill.rl.learner import Learner
from intraskill.rounds.coldstart import draft_skill, first_rollouts, screened_draft
from intraskill.rounds.final import compare_start_and_final
from intraskill.rounds.gate.assess import Validation
from intraskill.rounds.gate.findings import chunk_rows
from intraskill.rounds.gate.run import round_facts, validate_skill
from intraskill.rounds.human_review import reviewed, say_unread, verify_round, with_persons_edits
from intraskill.rounds.review import propose, record_fates, review_frontier
from intraskill.rounds.run import Run
from intraskill.rounds.setup import assemble
from intraskill.rounds.training import plan_training, rescored, train
from intraskill.store.artifacts import CURRICULUM, LEDGER, ROUND, SKILL
from intraskill.store.contents import EditCounts, FrontierCounts, RoundRow
from intraskill.store.metrics import Monitor
from intraskill.store.records import to_json
from intraskill.store.run_directory import directory_written_whole, is_sealed, locked, seal

_NO_FRONTIER = FrontierCounts(groups=0, reviewed=0, model_deficit=0, skill_deficit=0, environment=0, undecided=0)


@dataclass(frozen=True, slots=True)
class State:
    """(θ_t, S_t, α_t, q_t, ρ_t), versioned together (method §12.1).

    Attributes:
        round_index: t.
        checkpoint: hash of θ_t.
        skill: S_t.
        curriculum: q_t and ρ_t.
        ledger: every proposal so far and its fate.
    """

    round_index: int
    checkpoint: str
    skill: Skill
    curriculum: Curriculum
    ledger: Ledger = field(default_factory=Ledger)


def run(config: Config, monitor: Monitor | None = None, *, remarks: Sequence[str] = ()) -> Path:
    """Run the whole loop, or what is left of it, and return the run directory.

    Args:
        config: checked.
        monitor: who watches.
        remarks: said first, once all is built.

    Raises:
        IntraSkillError: with one clear sentence; what was committed stays, the same command continues.
    """
    with locked(Path(check(config).run_dir)):  # before the plan, which a second process must not change
        current = assemble(config, monitor, lengthens=True)
        codec = getattr(current.learner, "codec", None)
        try:
            state = last_state(current)
            if state is None:
                screened_draft(current)  # of a draft that is refused, nothing else is said
            for remark in (*remarks, *([codec.account] if codec else [])):
                current.monitor.say(remark)
            state = state or cold_start(current)
            for round_index in range(state.round_index + 1, config.rounds + 1):
                state = run_round(current, state, round_index)
            say_unread(current)
            compare_start_and_final(current, state.round_index)
        finally:
            current.metrics.close()
    return current.root


def cold_start(run: Run) -> State:
    """Sample the initial policy, write the first skill, calibrate it by the gate without edits (method §4)."""
    draft = screened_draft(run)
    directory = _open_round(run, 0)
    _save_checkpoint(run.learner, directory)
    drafted, proposals, ledger = draft_skill(run, directory, draft, first_rollouts(run, directory, draft))
    validation = validate_skill(run, directory, round_facts(run, 0, drafted, ()))
    ledger = record_fates(Memory(ledger), proposals, validation.decision, drafted)
    curriculum = Curriculum(
        fixed_q(run.config.curriculum.skill_free_prob), _exposure(run.config.curriculum, validation, {})
    )
    state = State(0, run.learner.checkpoint, validation.decision.skill, curriculum, ledger)
    taken = sum(chunk.id in state.skill.ids for proposal in proposals for chunk in proposal.chunks)
    edits: EditCounts = {"proposed": len(proposals), "taken": taken, "refused": len(proposals) - taken}
    return commit(run, directory, state, _round_row(run, state, validation, drafted, _NO_FRONTIER, edits))


def run_round(run: Run, state: State, round_index: int) -> State:
    """Run one round: θ_t, S_t, q_t, ρ_t → θ_{t+1}, S_{t+1}, q_{t+1}, ρ_{t+1} (method §9)."""
    directory = _open_round(run, round_index)
    groups = plan_training(run, directory, round_index, state.curriculum)
    results = train(run, directory, round_index, groups, state.skill)
    frontier, evidence = review_frontier(run, directory, round_index, results, state.skill)
    memory = Memory(state.ledger, round_index, run.config.proposer.stay_away_rounds)
    proposals, ledger = propose(run, directory, evidence, state.skill, memory, results)
    proposals, ledger = with_persons_edits(run, directory, state.skill, proposals, ledger)
    proposals, ledger = reviewed(run, directory, state.skill, proposals, ledger)
    edits = [proposal.to_edit() for proposal in proposals]
    validation = validate_skill(run, directory, round_facts(run, round_index, state.skill, edits))
    decision = validation.decision
    ledger = record_fates(Memory(ledger, round_index), proposals, decision, state.skill)
    curriculum = Curriculum(
        _next_q(run, state, round_index, validation, results),
        _exposure(run.config.curriculum, validation, state.curriculum.exposure),
    )
    refused = 0 if validation.assessment.no_information else len(decision.refused)
    counts: EditCounts = {"proposed": len(edits), "taken": len(decision.taken), "refused": refused}
    following = State(round_index, run.learner.checkpoint, decision.skill, curriculum, ledger)
    row = _round_row(run, following, validation, pool(state.skill, edits), frontier, counts)
    return commit(run, directory, following, row)


def commit(run: Run, directory: Path, state: State, row: RoundRow) -> State:
    """Write the state of the round; ``DONE`` with every hash comes last."""
    visible, bare = _context_chances(state.curriculum, assisted=run.config.curriculum.assisted)
    chances = {"visible_probability": visible, "bare_probability": bare}
    CURRICULUM.write(directory, state.curriculum, chances)
    LEDGER.write(directory, state.ledger)
    ROUND.write(directory, row)
    seal(directory)
    run.metrics.finish_round(row, SKILL.path(directory))
    run.monitor.say(_round_line(row))
    return state


def _context_chances(curriculum: Curriculum, *, assisted: bool) -> tuple[dict[ChunkId, float], float]:
    """Return P(visible_j) of every active chunk and P(∅) of a group of the next round (method §5.1)."""
    if not assisted:
        return dict.fromkeys(curriculum.exposure, 0.0), 1.0
    visible = {chunk_id: visible_probability(curriculum, chunk_id) for chunk_id in curriculum.exposure}
    return visible, bare_probability(curriculum)


def last_state(run: Run) -> State | None:
    """Return the state of the last sealed round, after checking every sealed file, or ``None`` for a new run.

    Raises:
        ArtifactError: naming the first files that changed.
    """
    found = None
    for round_index in range(run.config.rounds + 1):
        directory = run.round_directory(round_index)
        if not is_sealed(directory):
            break
        verify_round(directory)
        found = read_state(directory)
    if found is not None:
        run.learner.load(run.round_directory(found.round_index) / "checkpoint")
    return found


def read_state(directory: Path) -> State:
    """Read the state that a round committed.

    Raises:
        ArtifactError: for a missing or corrupt artifact.
    """
    row, curriculum, ledger = ROUND.read(directory), CURRICULUM.read(directory), LEDGER.read(directory)
    return State(row["round"], row["checkpoint"], SKILL.read(directory), curriculum, ledger)


def _round_row(
    run: Run, state: State, validation: Validation, everything: Skill, frontier: FrontierCounts, edits: EditCounts
) -> RoundRow:
    """Return the round's line of ``summary.json``."""
    visible, bare = _context_chances(state.curriculum, assisted=run.config.curriculum.assisted)
    row: RoundRow = {
        "round": state.round_index,
        "checkpoint": state.checkpoint,
        "skill": state.skill.hash,
        "skill_free_prob": state.curriculum.skill_free_prob,
        "bare_probability": bare,
        "r_free": validation.r_free.mean,
        "r_pair": validation.r_pair.mean if validation.r_pair else None,
        "gap": to_json(validation.gap),
        "r_free_interval": to_json(validation.r_free),
        "r_pair_interval": to_json(validation.r_pair),
        "frontier": frontier,
        "edits": edits,
        "chunks": chunk_rows(validation, everything, state.curriculum.exposure, visible, state.round_index),
    }
    if validation.stopped:
        row["stopped"] = validation.stopped
    if validation.assessment.no_information:
        row["no_information"] = validation.assessment.no_information
    return row


def _round_line(row: RoundRow) -> str:
    """Return one line on a finished round, every reward with its 95 % interval."""
    free, gap = row["r_free_interval"], row["gap"]
    text = f"round {row['round']}: R_free {free['mean']:.3f} [{free['low']:.3f}, {free['high']:.3f}]"
    if gap is not None:
        text += f", gap {gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]"
    active = sum(chunk["status"] == "active" for chunk in row["chunks"])
    taken = f"{row['edits']['taken']} of {row['edits']['proposed']} edits taken"
    text = f"{text}, {counted(active, 'active chunk')}, {taken}"
    return f"{text}; no information: {row['no_information']}" if "no_information" in row else text


def _open_round(run: Run, round_index: int) -> Path:
    directory = run.round_directory(round_index)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _save_checkpoint(learner: Learner, directory: Path) -> None:
    """Keep the start weights; a resumed cold start goes on from exactly these."""
    if (directory / "checkpoint").exists():
        learner.load(directory / "checkpoint")
        return
    with directory_written_whole(directory / "checkpoint") as aside:
        learner.save(aside)


def _exposure(rule: CurriculumConfig, validation: Validation, previous: Mapping[ChunkId, float]) -> dict[str, float]:
    """Return ρ_{t+1}; a chunk that the gate holds for want of evidence gets ρ_min, whatever its β̂.

    After a gate without information ρ stays: silence says nothing against what earlier gates measured. A chunk that no
    gate has measured yet gets ρ_min.
    """
    if validation.assessment.no_information:
        return {chunk_id: previous.get(chunk_id, rule.rho_min) for chunk_id in validation.decision.kept}
    exposure_rule = ExposureRule(rule.rho_min, rule.rho_max, rule.saturation)
    exposure = allocate_exposure(validation.decision.skill, validation.contributions, exposure_rule)
    return exposure | dict.fromkeys(validation.decision.held, rule.rho_min)


def _next_q(
    run: Run, previous: State, round_index: int, validation: Validation, results: Sequence[GroupResult]
) -> float:
    rule, q = run.config.curriculum, previous.curriculum.skill_free_prob
    bounds = {"floor": rule.q_floor, "ceiling": rule.q_ceiling, "max_change": rule.q_max_change}
    if rule.controller == "signal":
        learned = [rescored(result, run.config.grpo.part) for result in results]
        bare, assisted = signal_of(learned, bare=True), signal_of(learned, bare=False)
        return signal_q(q, bare, assisted, enough=rule.q_enough, **bounds)
    if rule.controller == "linear":
        return linear_q(rule.skill_free_prob, rule.q_ceiling, round_index=round_index, rounds=run.config.rounds)
    if rule.controller == "fixed" or validation.gap is None:
        return fixed_q(rule.skill_free_prob)
    return gap_q(q, validation.r_free.mean, validation.gap.mean, **bounds)
