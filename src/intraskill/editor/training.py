"""Training an editor: edit states, G answers each, rollback rewards, GRPO; resumable at every saved step.

B passes over streams of evidence run side by side. Every optimizer step reads the next evidence of each, samples G
edits, tries them on the anchors, updates, and goes on with one of the valid edits. A pass that has read everything
gives its place to a new one.
"""

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from intraskill.config.config import Config
from intraskill.editor.domain import Stream
from intraskill.editor.environment import FAMILY
from intraskill.editor.passes import EMPTY, compile_streams, summary, worth
from intraskill.editor.scoring import ScoredState, answer_of, score_answers
from intraskill.editor.setup import EditorRun, assemble_editor
from intraskill.editor.states import Chain, next_state
from intraskill.method.curriculum.frontier import with_signal
from intraskill.method.errors import NothingToLearnError, counted
from intraskill.method.gate.intervals import reward_note
from intraskill.method.randomness import child_seed, shuffled, uniform
from intraskill.method.rollouts import Episode, Group, GroupResult
from intraskill.method.skill.skill import BARE, Skill
from intraskill.method.tasks import Task
from intraskill.rl.learner import SavePoints, load_newest, save_state
from intraskill.store.artifacts import EDIT_LOG, EDITOR_SUMMARY, EDITOR_TRAINING, WORTH
from intraskill.store.metrics import Monitor, log_spending
from intraskill.store.records import from_json, to_json
from intraskill.store.run_directory import (
    PartialLog,
    directory_written_whole,
    is_sealed,
    locked,
    seal,
    verify,
    write_text,
)

Place = tuple[str, int, Chain]
"""A stream's id, the number of the pass, and the pass."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The B passes under way, and how many were begun."""

    places: tuple[Place, ...]
    begun: int


def train_editor(config: Config, monitor: Monitor | None = None) -> EditorRun:
    """Train an editor, or what is left of it, compare it on held-out streams, and return the run.

    Raises:
        IntraSkillError: with one clear sentence; what was saved stays, the same command continues.
    """
    with locked(Path(config.run_dir)):
        run = assemble_editor(config, monitor, EditorRun.check_streams)
        try:
            held_out = run.held_out  # asked for before anything is paid
            directory = run.root / "editor"
            if is_sealed(directory):
                verify(directory)
                run.learner.load(directory / "checkpoint")
            else:
                _train(run, directory)
            _evaluate(run, held_out)
        finally:
            log_spending(run.metrics, run.monitor, run.usage, 0, "llm")
            run.metrics.close()
    return run


def _train(run: EditorRun, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    log, states, steps = PartialLog(EDITOR_TRAINING.path(directory)), run.root / "train_state", run.config.editor.steps
    if log.path.exists():  # killed between the last step and the seal
        run.learner.load(directory / "checkpoint")
        seal(directory)
        return
    first, lines, passes = _resume(run, states)
    log.keep(lines)
    run.metrics.rewind(0, "editor", first)
    run.monitor.stage(None, "editor", steps)
    points = SavePoints(run.config.grpo.save_every_steps, run.config.grpo.save_every_minutes)
    for step in range(first, steps):
        began = time.perf_counter()
        scored = edit_step(run, passes, step)
        chosen = with_signal(_groups(scored, step), run.config.grpo.groups_per_step)
        updates = run.learner.update(chosen) if chosen else {}
        log.append([_row(one, step) for one in scored])
        metrics = step_metrics(scored, len(chosen)) | updates | {"editor/step_s": round(time.perf_counter() - began, 3)}
        run.metrics.log(0, "editor", step, metrics)
        answers = [rollout for one in scored for rollout in one.rollouts]
        note = reward_note([answer.reward for answer in answers if answer.reward is not None])
        run.monitor.advance(step + 1, tokens=sum(sum(answer.loss_mask) for answer in answers), note=note)
        passes = _follow(run, passes, scored, step)
        if step + 1 < steps and points.due(step + 1):
            save_state(run.learner, states, step + 1, {"lines": log.count(), "passes": _packed(passes)})
    with directory_written_whole(directory / "checkpoint") as aside:
        run.learner.save(aside)
    log.commit()
    seal(directory)


def edit_step(run: EditorRun, passes: Passes, step: int) -> list[ScoredState]:
    """Sample and score G edits of every pass's next state.

    Raises:
        NothingToLearnError: when no answer, or no trial of any skill, could be scored, for faults.
    """
    editor, seed, size = run.config.editor, run.config.seed, run.config.grpo.group_size
    states = [
        next_state(chain, run.workbench.domain, run.limits, run.size, anchors=editor.anchors, seed=seed)
        for _, _, chain in passes.places
    ]
    episodes = [
        Episode(task, EMPTY, BARE, sample, child_seed(seed, "edit", step, task.id, sample))
        for task in run.environment.place(states)
        for sample in range(size)
    ]
    flat = run.learner.run(episodes)
    groups = [flat[i * size : (i + 1) * size] for i in range(len(states))]
    scored = score_answers(states, groups, run.environment, run.trials, kind=editor.reward, seed=seed)
    trials = [score for one in scored for scores in (one.control, *one.edited) for score in scores]
    rewards = [rollout.reward for one in scored for rollout in one.rollouts]
    # Invalid answers have a reward without any trial, so rewards alone would not show that the worker is gone.
    if trials and (set(trials) == {None} or set(rewards) == {None}):
        reasons = [*run.trials.faults[:1], *(fault for one in scored for fault in one.faults)]
        raise NothingToLearnError(
            f"none of {counted(len(flat), 'edit')} of step {step} could be scored, first: {reasons[0]}; mend worker "
            "or verifier and run the same command again"
        )
    return scored


def begin_passes(run: EditorRun, places: Sequence[Place], begun: int) -> Passes:
    """Fill the places of finished passes with new ones; streams come in an order that is drawn anew for every tour.

    Of the first B passes the k-th skips k/B of its evidence. Else all passes would be at their start in one step and at
    their end some steps later, and an editor that is shown nothing but mended skills for a while unlearns to edit.
    """
    streams, width = run.train_streams, run.config.grpo.groups_per_step
    filled: list[Place] = []
    for place in [*places, *[None] * (width - len(places))]:
        if place is not None and place[2].rest:
            filled.append(place)
            continue
        tour, number = divmod(begun, len(streams))
        stream_id = shuffled(streams, run.config.seed, "tour", tour)[number]
        chain = run.begin(streams[stream_id], begun)
        skipped = len(chain.rest) * begun // width if begun < width else 0
        filled.append((stream_id, begun, replace(chain, rest=chain.rest[skipped:])))
        begun += 1
    return Passes(tuple(filled), begun)


def _follow(run: EditorRun, passes: Passes, scored: Sequence[ScoredState], step: int) -> Passes:
    """Go on with one edit of each state."""
    places = []
    for (stream_id, number, chain), one in zip(passes.places, scored, strict=True):
        skill = followed(one, run.config.editor.follow, run.config.seed, step)
        places.append((stream_id, number, chain.after(skill, len(one.state.units))))
    return begin_passes(run, places, passes.begun)


def followed(one: ScoredState, rule: str, seed: int, step: int) -> Skill:
    """Return the skill of any valid edit, or of the best rewarded one; the old skill when no edit is valid."""
    valid = [i for i, made in enumerate(one.attempts) if not made.invalid]
    if not valid:
        return one.state.skill
    draw = {i: uniform(seed, "follow", step, one.state.id, i) for i in valid}
    best = {i: one.rollouts[i].reward or 0.0 for i in valid} if rule == "best" else dict.fromkeys(valid, 0.0)
    return one.attempts[max(valid, key=lambda i: (best[i], draw[i]))].skill


def step_metrics(scored: Sequence[ScoredState], used: int) -> dict[str, Any]:
    """Return what a step showed: rewards, actions, reasons of invalid answers, the control's score, what was lost.

    ``faults`` counts answers that something broken left without a reward, ``unanchored`` edit states whose evidence
    names no query: a solved task, or a document without questions.
    """
    attempts = [made for one in scored for made in one.attempts]
    rewards = [r.reward for one in scored for r in one.rollouts if r.reward is not None]
    control = [score for one in scored for score in one.control if score is not None]
    actions = Counter(made.action.name for made in attempts if made.action and not made.invalid)
    invalid = Counter(made.invalid for made in attempts if made.invalid)
    return {
        "editor/reward": fmean(rewards) if rewards else None,
        "editor/control": fmean(control) if control else None,
        "editor/valid_share": sum(actions.values()) / len(attempts),
        "editor/states": len(scored),
        "editor/groups_used": used,
        "editor/faults": sum(len(one.faults) for one in scored),
        "editor/unanchored": sum(not one.state.anchors for one in scored),
        "editor/chunks": fmean(len(one.state.skill.chunks) for one in scored),
        **{f"editor/action_{name.lower()}": count for name, count in sorted(actions.items())},
        **{f"editor/invalid_{name}": count for name, count in sorted(invalid.items())},
    }


def _groups(scored: Sequence[ScoredState], step: int) -> list[GroupResult]:
    """Return scored states as GRPO groups; an answer that could not be scored is left out, not its whole group."""
    found = []
    for slot, one in enumerate(scored):
        task = Task(one.state.id, FAMILY, "train")
        sound = tuple(rollout for rollout in one.rollouts if rollout.fault is None)
        found.append(GroupResult(Group(one.state.id, 0, step, slot, task, "skill_free", BARE), sound))
    return [result for result in found if result.rollouts]


def _row(one: ScoredState, step: int) -> dict[str, Any]:
    """Return the record of one state: what was read, tried and earned."""
    answers = [
        {
            "answer": answer_of(rollout),
            "invalid": made.invalid,
            "skill": made.skill.hash,
            "scores": to_json(scores),
            "reward": rollout.reward,
            **({"fault": rollout.fault} if rollout.fault in one.faults else {}),
        }
        for rollout, made, scores in zip(one.rollouts, one.attempts, one.edited, strict=True)
    ]
    return {
        "step": step,
        "state": one.state.id,
        "skill": one.state.skill.hash,
        "evidence": [unit.id for unit in one.state.units],
        "anchors": [query.id for query in one.state.anchors],
        "control": to_json(one.control),
        "answers": answers,
    }


def _packed(passes: Passes) -> dict[str, Any]:
    """Return the passes as JSON; evidence is named by how much of it is left."""
    places = [
        {"stream": stream, "number": number, "step": chain.step, "left": len(chain.rest), "skill": to_json(chain.skill)}
        for stream, number, chain in passes.places
    ]
    return {"begun": passes.begun, "places": places}


def _resume(run: EditorRun, states: Path) -> tuple[int, int, Passes]:
    """Return the next step, the lines of the log to keep, and the passes: of the newest state, or of the start."""
    facts = load_newest(run.learner, states)
    if facts is None:
        return 0, 0, begin_passes(run, (), 0)
    places: list[Place] = []
    for packed in facts["passes"]["places"]:
        stream_id, number = packed["stream"], int(packed["number"])
        whole = run.begin(run.train_streams[stream_id], number)
        rest = whole.rest[len(whole.rest) - packed["left"] :]
        chain = Chain(whole.id, from_json(Skill, packed["skill"], states), rest, int(packed["step"]))
        places.append((stream_id, number, chain))
    return int(facts["step"]), int(facts["lines"]), Passes(tuple(places), int(facts["passes"]["begun"]))


def _evaluate(run: EditorRun, streams: Sequence[Stream]) -> None:
    """Compile every held-out stream once and write ``final/``: the skills, and what they add on the probes."""
    directory = run.root / "final"
    if is_sealed(directory) or not streams:
        return
    directory.mkdir(exist_ok=True)
    run.monitor.stage(None, "held-out", 1)
    compiled = compile_streams(run, streams)
    found = worth(run, streams, [one.skill for one in compiled])
    run.monitor.advance(1)
    for one in compiled:
        write_text(directory / f"{slug(one.stream)}.md", one.skill.to_markdown())
    EDIT_LOG.write(directory, [row for one in compiled for row in one.log])
    WORTH.write(directory, [to_json(one) for one in found])
    paid = None if run.usage is None else run.usage.spending
    means = to_json(summary(found))
    EDITOR_SUMMARY.write(
        directory,
        {"streams": len(found), "before": means["before"], "after": means["after"], "gain": means["gain"], "llm": paid},
    )
    seal(directory)


def slug(name: str) -> str:
    """Return a file name for a stream."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)
