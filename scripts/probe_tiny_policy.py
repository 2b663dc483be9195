"""Ask whether the tiny policy reads the skill; write docs/results/tiny_policy_probes.csv.

python scripts/probe_tiny_policy.py [--policy DIR] [--episodes N]
"""

import argparse
import csv
from pathlib import Path

import torch

from intraskill.config.config import Config
from intraskill.config.learning import RolloutConfig
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL, USELESS
from intraskill.recipes.tiny_policy import Probe, ask
from intraskill.rl.policy import load_policy
from intraskill.rl.trainer import TorchLearner

ROOT = Path(__file__).parents[1]
PROBES = (
    Probe("no chunk", (), ()),
    *(Probe(f"only {rule}", (rule,), (rule,)) for rule in (*USEFUL, "open_last")),
    *(Probe(f"only {rule}, training phrasings", (rule,), (rule,), "train") for rule in USEFUL),
    *(Probe(f"{rule} negated", (rule,), (), "negated") for rule in USEFUL),
    *(Probe(f"{rule} shuffled", (rule,), (), "shuffled") for rule in USEFUL),
    Probe("useless chunks", USELESS, ()),
    Probe("all useful", USEFUL, USEFUL),
    Probe("all useful and the harmful one", (*USEFUL, "open_last"), (*USEFUL, "open_last")),
)


def main() -> None:
    """Run every probe and print one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, default=ROOT / "src" / "intraskill" / "policies" / "tiny")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "tiny_policy_probes.csv")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    world = ShopWorld("small", 0, page_size=4, language="plain")
    rollout = RolloutConfig(temperature=0.001, max_turns=8, max_new_tokens=16, max_context=640)
    learner = TorchLearner(load_policy(arguments.policy), world, Config(rollout=rollout))
    tasks = world.tasks("train")[: arguments.episodes]
    with arguments.out.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["probe", "same_episode", "same_search", "reward", "shopper_reward", "episodes"])
        for probe in PROBES:
            answer = ask(learner, world, probe, tasks)
            row = [answer.same_episode, answer.same_search, answer.reward, answer.shopper_reward]
            rows.writerow([probe.name, *(f"{value:.3f}" for value in row), answer.episodes])
            print(f"{probe.name:40s}", *(f"{value:.3f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
