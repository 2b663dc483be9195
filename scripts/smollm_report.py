"""What SmolLM2-135M-Instruct reaches on the shop, stage by stage; rows in docs/results/smollm.csv as each stage ends.

python scripts/smollm_report.py [--demonstrations 320] [--steps 20] [--episodes 24] [--turns 8]

Stages: the model as it is; warm-started on scripted demonstrations; after GRPO steps with LoRA and a shared prefix in
masked contexts. Each is asked freely and with constrained decoding (the same tasks, one episode each), without a skill.
``cpu_s`` is processor time of the stage's own work, conversion and loading left out.
"""

import argparse
import csv
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import torch

from intraskill.config.config import Config
from intraskill.config.overrides import compose
from intraskill.environments.shopworld.lessons import USEFUL, lesson_chunk
from intraskill.method.curriculum.contexts import Curriculum, plan_groups
from intraskill.method.errors import NothingToLearnError
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode, GroupResult, Rollout
from intraskill.method.skill.skill import BARE, Skill
from intraskill.recipes.sft import SftSettings, fine_tune
from intraskill.recipes.shop_demonstrations import shop_examples
from intraskill.recipes.smollm import smollm_directory
from intraskill.rl.policy import LoraSettings, load_policy
from intraskill.rl.start import trainer_settings
from intraskill.rl.trainer import TorchLearner
from intraskill.rounds.setup import environment_of
from intraskill.rounds.training import rescored

ROOT = Path(__file__).parents[1]
COLUMNS = (
    *("stage", "decoding", "trained_on", "episodes", "actions", "valid_actions", "bought", "r_success"),
    *("r_loose", "r_loose_se", "cpu_s", "wall_s", "note"),
)


@dataclass
class Report:
    """The file, and what all stages share."""

    path: Path
    config: Config
    episodes: int

    def row(self, **values: object) -> None:
        """Append and print one row."""
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            rows = csv.DictWriter(file, COLUMNS, restval="")
            if new:
                rows.writeheader()
            rows.writerow(values)
        print(values, flush=True)

    def learner(self, directory: Path, *, constrained: bool) -> TorchLearner:
        """Return a policy with the experiment's adapter."""
        self.config.rollout.constrained = constrained
        lora = LoraSettings(self.config.policy.lora_rank, self.config.policy.lora_alpha)
        settings = trainer_settings(self.config)
        return TorchLearner(load_policy(directory, lora=lora), environment_of(self.config), settings)

    def ask(self, learner: TorchLearner, stage: str, trained_on: str) -> None:
        """Play the validation tasks once, without a skill."""
        tasks = learner.env.tasks("model_dev")[: self.episodes]
        cpu, wall = time.process_time(), time.monotonic()
        found = learner.run([Episode(task, Skill(""), BARE, 0, child_seed(0, task.id)) for task in tasks])
        spent = {"cpu_s": round(time.process_time() - cpu, 1), "wall_s": round(time.monotonic() - wall, 1)}
        decoding = "constrained" if learner.settings.constrained else "free"
        self.row(stage=stage, decoding=decoding, trained_on=trained_on, **_measures(found), **spent)


def _measures(rollouts: tuple[Rollout, ...]) -> dict[str, object]:
    turns = [turn for rollout in rollouts for turn in rollout.turns]
    loose = [rollout.parts["r_loose"] for rollout in rollouts]
    bought = [any(t.argument == "buy now" and t.feedback == "executed" for t in r.turns) for r in rollouts]
    return {
        "episodes": len(rollouts),
        "actions": len(turns),
        "valid_actions": round(fmean(bool(t.tool) and t.feedback == "executed" for t in turns), 3),
        "bought": round(fmean(bought), 3),
        "r_success": round(fmean(rollout.parts["r_success"] for rollout in rollouts), 3),
        "r_loose": round(fmean(loose), 4),
        "r_loose_se": round(stdev(loose) / len(loose) ** 0.5, 4) if len(loose) > 1 else "",
    }


def train(report: Report, learner: TorchLearner, steps: int, skill: Skill) -> None:
    """Take GRPO steps, each on groups with one masked context per group; one row per step."""
    grpo, curriculum = report.config.grpo, Curriculum(0.2, {chunk.id: 0.6 for chunk in skill.chunks})
    groups = plan_groups(
        learner.env.tasks("train"),
        curriculum,
        seed=0,
        round_index=0,
        steps=steps,
        groups_per_step=grpo.groups_per_step,
    )
    for step in range(steps):
        cpu, wall = time.process_time(), time.monotonic()
        chosen = [group for group in groups if group.step == step]
        episodes = [
            Episode(group.task, skill, group.visible, sample, child_seed(0, group.id, sample))
            for group in chosen
            for sample in range(grpo.group_size)
        ]
        rollouts = learner.run(episodes)
        size = grpo.group_size
        results = [GroupResult(g, rollouts[i * size : (i + 1) * size]) for i, g in enumerate(chosen)]
        note = "no group carried signal"
        rolled = time.process_time() - cpu
        try:
            found = learner.update([rescored(result, grpo.part) for result in results])
            note = f"loss {found['train/loss']:.3g}, gradient {found['train/grad_norm']:.3g}, "
            note += f"gap {found['train/logprob_gap']:.1e}, tokens {found['train/tokens']:.0f}, rollouts {rolled:.0f} s"
        except NothingToLearnError:
            pass
        spent = {"cpu_s": round(time.process_time() - cpu, 1), "wall_s": round(time.monotonic() - wall, 1)}
        decoding = "constrained" if learner.settings.constrained else "free"
        report.row(stage=f"GRPO step {step + 1}", decoding=decoding, **_measures(rollouts), note=note, **spent)


def main() -> None:
    """Run every stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demonstrations", type=int, default=320)
    parser.add_argument("--steps", type=int, default=20, help="GRPO steps")
    parser.add_argument("--episodes", type=int, default=24, help="episodes of each evaluation")
    parser.add_argument("--turns", type=int, default=8, help="actions per episode")
    parser.add_argument("--free", action=argparse.BooleanOptionalAction, default=True, help="also ask freely")
    parser.add_argument("--start", default="smollm2", help="smollm2 or a model directory")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "smollm.csv")
    arguments, overrides = parser.parse_known_args()
    torch.set_num_threads(1)
    config = compose(["+exp=smollm", f"rollout.max_turns={arguments.turns}", "workers=1", *overrides])
    arguments.out.unlink(missing_ok=True)
    report = Report(arguments.out, config, arguments.episodes)
    start = smollm_directory() if arguments.start == "smollm2" else Path(arguments.start)
    kinds = (False, True) if arguments.free else (True,)
    for constrained in kinds:
        report.ask(report.learner(start, constrained=constrained), "as it is", "nothing")
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm"
        examples = shop_examples(start, config.env.preset, config.env.options, arguments.demonstrations)
        cpu, wall = time.process_time(), time.monotonic()
        rows = fine_tune(start, examples, warm, SftSettings(), lambda row: print(row, flush=True))
        tokens = sum(len(ids) for ids, _ in examples)
        spent = {"cpu_s": round(time.process_time() - cpu, 1), "wall_s": round(time.monotonic() - wall, 1)}
        note = f"{tokens} tokens, loss {rows[0]['loss']:.3f} to {rows[-1]['loss']:.3f} in {len(rows)} steps"
        shown = f"{len(examples)} demonstrations"
        report.row(stage="SFT", trained_on=shown, note=note, **spent)
        for constrained in kinds:
            learner = report.learner(warm, constrained=constrained)
            report.ask(learner, "warm start", shown)
        train(report, learner, arguments.steps, Skill("# Shopping", tuple(map(lesson_chunk, USEFUL))))
        if arguments.steps:
            report.ask(learner, "after GRPO", f"{shown}, {arguments.steps} steps")


if __name__ == "__main__":
    main()
