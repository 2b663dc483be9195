"""``RUN/summary.json``: the final table as data. Documented and stable.

    rounds   [{round, r_free, r_pair, bare_probability, gap: {mean, se, low, high, n},
               frontier: {groups, model_deficit, skill_deficit, environment, undecided},
               edits: {proposed, taken, refused},
               chunks: [{id, title, beta, se, exposure, visible_probability, status}]}]
    final    the closing comparison, or null: arms, success, comparisons with paired 95 % intervals and task counts
    queries  {decisions, rewards, tasks, most_per_task, words}    how often gates have read the validation split
    remeasured   {chunks, means, words}: incumbents in the gate that kept them and in the next one; chunks is [{title,
             chunk_id, selected_in, at_selection, se_at_selection, shrunk, sd_shrunk, remeasured, se_remeasured}]
    named    {gates, helps, hurts}: chunks with their rounds, as [{round, title}], that gates name with 5 % error over
             all gates of the run together
    timing   {total_s, stages: {stage: seconds}}                the only wall-clock times
    tokens   {sampled, prompt, rollouts}
    steps_without_signal     {count, of}: training steps in which no group's rewards differed, so that the weights
             stayed; only when there was one
    answers  {stage: {rollouts, truncated, actions, invalid, refused}}    counts over all rounds; stages that acted
    llm      {calls, tokens_in, tokens_out, cost}    paid to a proposer's endpoint until its last proposals, or null

Each round also carries ``checkpoint``, ``skill``, ``skill_free_prob`` and the intervals of R_free and R_pair, and
``stopped`` when its gate was sequential, and ``no_information`` when nothing varied in it: then its chunks lack
``beta`` to ``high``, a candidate's ``status`` is waiting, and exposures stay. A chunk also carries ``low`` and ``high``
and, under the policy ``probability``, ``shrunk``, ``shrunk_sd`` and ``probability``. Its ``status`` is active,
retired or refused. ``visible_probability``
is P(visible_j) = (1 − q) ρ_j and ``bare_probability`` P(∅) = q + (1 − q) Π_j (1 − ρ_j), both for a training group of
the next round.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from intraskill.config.config import GateConfig
from intraskill.method.answers import Answers, answers_in
from intraskill.method.errors import ArtifactError
from intraskill.method.gate.diagnostics.remeasure import MeasuredRound, remeasurements, winners_curse
from intraskill.method.gate.regression import CONFIDENCE
from intraskill.method.gate.simultaneous import sides
from intraskill.method.skill.skill import ChunkId
from intraskill.rounds.earlier_rounds import measured_rounds, query_count
from intraskill.store.artifacts import FINAL, METRICS, PLAN, ROUND, SUMMARY
from intraskill.store.metrics import Metrics
from intraskill.store.records import to_json
from intraskill.store.run_directory import finished_rounds, is_sealed
from intraskill.store.usage import SPENDING


def summarise(root: Path) -> dict[str, Any]:
    """Collect the summary of a run, finished or not, from its artifacts.

    Raises:
        ArtifactError: when ``root`` is no run, or an artifact is corrupt or changed.
    """
    if not PLAN.exists(root):
        raise ArtifactError(f"{root} is no run directory: it holds no plan.json")
    plan = PLAN.read(root)
    rounds = [ROUND.sealed(path) for path in finished_rounds(root)]
    final = FINAL.sealed(root / "final") if is_sealed(root / "final") else None
    closed = final is not None or plan["plan"]["final.tasks"] == 0
    rows = Metrics(METRICS.path(root)).rows()
    queries, gates = query_count(root), [gate for gate in measured_rounds(root) if gate.contributions.chunk_ids]
    again = remeasurements(gates)
    curse, titles = (
        winners_curse(again, gates),
        {chunk["id"]: chunk["title"] for row in rounds for chunk in row["chunks"]},
    )
    return {
        "version": 1,
        "seed": plan["plan"]["seed"],
        "environment": plan["plan"]["env.name"],
        "finished": len(rounds) == plan["plan"]["rounds"] + 1 and closed,
        "rounds": rounds,
        "final": final,
        "queries": {
            "decisions": queries.decisions,
            "rewards": queries.rewards,
            "tasks": len(queries.by_task),
            "most_per_task": queries.most,
            "words": queries.words(),
        },
        "remeasured": {
            "chunks": [{"title": titles[row.chunk_id], **to_json(row)} for row in again],
            "means": to_json(curse),
            "words": curse.words() if curse else "",
        },
        "named": named_over_a_run(gates, titles, plan["plan"].get("gate.negligible", GateConfig().negligible)),
        "timing": _timing(rows),
        "tokens": {
            "sampled": _total(rows, "sampled_tokens"),
            "prompt": _total(rows, "prompt_tokens"),
            "rollouts": _total(rows, "rollouts") + _total(rows, "rollouts_run"),
        },
        "llm": spending(rows),
        "answers": {stage: to_json(answers) for stage, answers in answers_by_stage(rows).items()},
        **_idle_steps(rows),
    }


def named_over_a_run(
    gates: Sequence[MeasuredRound], titles: Mapping[ChunkId, str], negligible: float
) -> dict[str, Any]:
    """Return the chunks that gates of a run name, with 5 % error over all of its gates together (Bonferroni).

    A chunk of a gate is called helping or hurting with 5 % / k error where the run has k gates: what one gate may say
    alone, five gates may not all say.
    """
    found: dict[str, Any] = {"gates": len(gates), "helps": [], "hurts": []}
    for gate in gates:
        by_side = sides(gate.contributions, negligible, 1.0 - (1.0 - CONFIDENCE) / len(gates))
        for side in ("helps", "hurts"):
            found[side] += [{"round": gate.index, "title": titles.get(i, i)} for i in by_side[side]]
    return found


def answers_by_stage(rows: Iterable[Mapping[str, Any]]) -> dict[str, Answers]:
    """Return what the answers came to by stage of a run, over all rounds; stages that counted none are absent."""
    stages: dict[str, Answers] = {}
    for row in rows:
        area = "train" if row["stage"] == "train" else "eval"
        counted = answers_in(row, area, int(row.get("train/rollouts_run") or row.get("eval/rollouts") or 0))
        if counted is not None and counted.actions:
            stages[row["stage"]] = stages.get(row["stage"], Answers()) + counted
    return stages


def _idle_steps(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many training steps had no group with signal, of how many; nothing when every step had one."""
    used = [row["train/groups_used"] for row in rows if "train/groups_used" in row]
    return {"steps_without_signal": {"count": used.count(0), "of": len(used)}} if 0 in used else {}


def write_summary(root: Path) -> dict[str, Any]:
    """Write ``summary.json`` and return it."""
    summary = summarise(root)
    SUMMARY.write(root, summary)
    return summary


def _total(rows: list[dict[str, Any]], name: str) -> int:
    keys = (f"eval/{name}", f"train/{name}") if name != "rollouts" else ("eval/rollouts",)
    return int(sum(row.get(key) or 0 for row in rows for key in keys))


def spending(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the last row of what an LLM has cost: each counts from the start of the run."""
    found = [row for row in rows if "llm/calls" in row]
    return {name: found[-1][f"llm/{name}"] for name in SPENDING} if found else None


def _timing(rows: list[dict[str, Any]]) -> dict[str, Any]:
    stages: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        seconds = row.get("eval/time_s", row.get("train/step_time_s"))
        if seconds is not None:
            stages[row["stage"]] += seconds
    return {"total_s": round(sum(stages.values()), 1), "stages": {k: round(v, 1) for k, v in stages.items()}}
