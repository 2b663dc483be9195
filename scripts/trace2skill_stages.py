"""How many proposals survive each stage of Trace2Skill, and why the others fell; docs/results/trace2skill_stages.csv.

python scripts/trace2skill_stages.py [--seeds 3] [--tasks 64] [--base-url URL --model NAME] [--draft FILE] [--work DIR]
                                     [key=value …]

The tiny policy plays the plain ShopWorld; each pass is repeated on shuffled rollouts, and the skill's hash must not
change. Rows of other proposers or settings in the file are kept. A key is read from OPENAI_API_KEY. With --work the
compiled skills stay there, as seed_0/skill_cold_start.md and so on. With --draft the online pass shows that skill
instead of the drafts of the cold start: with it the tiny policy succeeds more often, so that successes are read too.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from csv_rows import with_others, write_csv

from intraskill.config.overrides import compose
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.edits import pool
from intraskill.method.skill.skill import BARE, Skill, parse_skill
from intraskill.proposers.llm import full_success
from intraskill.proposers.proposal_filter import Memory
from intraskill.proposers.trace2skill import ProposalBatch, propose_batch
from intraskill.rounds.arms import plan_arm, run_arm
from intraskill.rounds.run import Run
from intraskill.rounds.setup import bench

OUT = Path(__file__).parents[1] / "docs" / "results" / "trace2skill_stages.csv"
SHUFFLES = 5
ANSWERS = ("answered", "truncated", "not_json", "wrong_shape", "too_long", "refused")
"""What came of a model's answers, re-asked ones included; the rules proposer asks nobody."""
READ = ("parsed", "bad_answer", "fix_failed", "no_trial", "no_action", "no_proposal")
STAGES = ("mapped", "not_at_start", "merged", "blocked_by_ledger", "misfit", "rejected_by_firewall")
LLM = tuple(f"merged_level_{level}" for level in range(1, 6)) + ("reduce_bad_answer", "reduce_refused")
LAST = ("rival", "over_limit")
COLUMNS = ("analyst", "settings", "seed", "pass", "shown", "rollouts", "successes", *ANSWERS, *READ, *STAGES, *LLM)
COLUMNS += (*LAST, "to_gate", "shuffles_equal", "skill")


def main() -> None:
    """Run both passes for every seed and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=64, help="rollouts per pass")
    parser.add_argument("--base-url", help="OpenAI-compatible endpoint; without it the rules proposer reads")
    parser.add_argument("--model", help="model name at the endpoint")
    parser.add_argument(
        "--work", help="directory of rollouts and answers, kept for a resume (default: a temporary one)"
    )
    parser.add_argument("--draft", type=Path, help="skill to show in the online pass")
    arguments, words = parser.parse_known_args()
    settings = " ".join(words)
    words += [f"coldstart.tasks={arguments.tasks}"]
    if arguments.base_url:
        words += [
            "proposer.name=openai",
            f"proposer.base_url={arguments.base_url}",
            f"proposer.model={arguments.model}",
        ]
    with tempfile.TemporaryDirectory() as temporary:
        rows = []
        for seed in range(arguments.seeds):
            root = Path(arguments.work or temporary) / f"seed_{seed}"
            root.mkdir(parents=True, exist_ok=True)
            shown = None if arguments.draft is None else parse_skill(arguments.draft.read_text(encoding="utf-8"))
            rows += passes(bench(compose([*words, f"seed={seed}"]), root), seed, shown)
    write([row | {"settings": settings} for row in rows])


def passes(run: Run, seed: int, shown: Skill | None) -> list[dict[str, object]]:
    """One cold start without a skill, and one online pass with ``shown`` or the drafts; each on as many rollouts."""
    tasks = run.tasks("train", run.config.coldstart.tasks)
    empty = Skill("")
    first = play(run, "cold_start", empty)
    row, drafted = stages(run, first, empty, Memory(), run_name(seed, "cold start"), limit=16)
    shown = shown or drafted
    again = play(run, "online", shown)
    following, compiled = stages(run, again, shown, Memory(round_index=1), run_name(seed, "online"), limit=6)
    for name, skill in (("cold_start", drafted), ("online", compiled)):
        (run.root / f"skill_{name}.md").write_text(skill.to_markdown(), encoding="utf-8")
    assert len(first) == len(again) == len(tasks)
    return [row, following]


def run_name(seed: int, name: str) -> dict[str, object]:
    """Return the columns that name a pass."""
    return {"seed": seed, "pass": name}


def play(run: Run, name: str, skill: Skill) -> tuple[Rollout, ...]:
    """Sample one rollout per task with the whole skill shown."""
    tasks, visible = run.tasks("train", run.config.coldstart.tasks), frozenset(skill.ids) or BARE
    return run_arm(
        run, run.root / f"{name}.jsonl", 0, plan_arm(run.config.seed, tasks, skill, visible, address=(name,))
    )


def stages(
    run: Run, rollouts: tuple[Rollout, ...], skill: Skill, memory: Memory, named: dict[str, object], *, limit: int
) -> tuple[dict[str, object], Skill]:
    """Propose once, and again on shuffled rollouts; return the counts and the compiled skill."""

    def propose(read: list[Rollout]) -> ProposalBatch:
        assert run.proposer is not None
        return propose_batch(read, skill, run.proposer, run.leak_filter, limit=limit, memory=memory)

    before = outcomes(run)
    batch = propose(list(rollouts))
    answers = outcomes(run) - before
    compiled = pool(skill, batch.edits)
    hashes = {
        pool(skill, propose(random.Random(draw).sample(rollouts, len(rollouts))).edits).hash for draw in range(SHUFFLES)
    }
    counts = {name: batch.counts.get(name, 0) for name in (*READ, *STAGES, *LLM, *LAST)}
    row: dict[str, object] = {"analyst": batch.analyst, **named, "shown": skill.hash if skill.chunks else ""}
    row["rollouts"] = len(rollouts)
    row["successes"] = sum(full_success(rollout.parts, rollout.reward) for rollout in rollouts)
    row |= {name: answers[name] for name in ANSWERS} | counts
    row |= {"to_gate": len(batch.proposals), "shuffles_equal": hashes == {compiled.hash}, "skill": compiled.hash}
    print(", ".join(f"{name} {value}" for name, value in row.items() if value not in (0, "")))
    for refusal in batch.refused:
        print(f"  refused: {refusal.reason}")
    for proposal in batch.proposals:
        texts = " / ".join(chunk.title for chunk in proposal.chunks) or ", ".join(proposal.targets)
        print(f"  {proposal.op} {texts}: {len(proposal.support)} rollouts")
    return row, compiled


def outcomes(run: Run) -> Counter[str]:
    """Return what has come of the model's answers so far."""
    usage = run.proposer.usage if run.proposer is not None else None
    return Counter() if usage is None else Counter(usage.outcomes)


def write(rows: list[dict[str, object]]) -> None:
    """Write the rows and keep those of other proposers and settings."""
    write_csv(OUT, with_others(OUT, rows, "analyst", "settings"), COLUMNS)
    if not all(row["shuffles_equal"] for row in rows):
        sys.exit("the order of the rollouts changed a skill")


if __name__ == "__main__":
    main()
