"""What each of two processes does in test_distributed.py: python two_processes.py SCENE PLACE STRATEGY KIND."""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from rl.toy import SKILL, CountingWorld, config_of, episode, group_of
from safetensors.torch import load_file

from intraskill.config.learning import DistributedConfig
from intraskill.method.skill.skill import BARE
from intraskill.rl.distributed.group import joined
from intraskill.rl.distributed.learner import DistributedLearner, NoEngine, dismiss, serve, together_of
from intraskill.rl.engines.weight_sync import EngineProbe, HotSwap
from intraskill.rl.policy import LoraSettings, load_policy
from intraskill.rl.trainer import TorchLearner

SETTINGS = {"lr": 3e-3, "max_turns": 4, "max_new_tokens": 24, "max_context": 600, "micro_batch_tokens": 1500}
KINDS = {
    "full": (None, {}),
    "lora": (LoraSettings(4, 8, "all-linear"), {}),
    "dense, three steps": (None, {"shared_prefix": False, "updates_per_batch": 3, "self_check": "off"}),
    "lora, recomputed, KL": (
        LoraSettings(4, 8, "all-linear"),
        {"checkpoint_activations": True, "kl_beta": 0.1, "updates_per_batch": 2},
    ),
}


def build(place, kind, ranks=None):
    lora, changes = KINDS[kind]
    policy = load_policy(place / "model", lora=lora)
    config = config_of(**SETTINGS | changes)
    return TorchLearner(policy, CountingWorld(), config, together=together_of(ranks, policy, config))


def episodes(step, size=5):
    contexts = (("bbbb", BARE), ("ccccc", frozenset(SKILL.ids)), ("ddd", BARE))
    return [episode(name, 100 * step + sample, visible) for name, visible in contexts for sample in range(size)]


def groups_of(rollouts, size=5):
    return [group_of(rollouts[i : i + size], i // size) for i in range(0, len(rollouts), size)]


class Publisher:
    """Samples as the torch engine does, and publishes the adapter as the server engine does."""

    def __init__(self, local, root):
        self.torch = local.engine
        nothing = {name: lambda version: None for name in ("load", "unload", "verify")}
        self.swap = HotSwap(local.policy, root, EngineProbe(local.policy, 1.0, 0.0), **nothing)

    def serve(self, checkpoint):
        self.swap.serve(checkpoint)

    def open(self, prompts):
        return self.torch.open(prompts)


def publish(place, kind, learner, local):
    """Publish the adapter before and after a step; rank 0 alone rolls out."""
    alone = build(place, kind)
    alone.engine, local.engine = Publisher(alone, place / "alone"), Publisher(local, place / "published")
    found = []
    for step in range(2):
        ours, theirs = alone.run(episodes(step)), learner.run(episodes(step))
        assert [r.token_ids for r in ours] == [r.token_ids for r in theirs]
        found.append([published(place / "alone"), published(place / "published")])
        alone.update(groups_of(ours)), learner.update(groups_of(theirs))
    sys.stdout.write(json.dumps(found))


def published(root):
    (path,) = root.glob("*/adapter_model.safetensors")
    return {name: tensor.double().norm().item() for name, tensor in load_file(path).items()}


def compare(place, kind, learner):
    """Train two processes beside one; then save, go on, go back, and exchange checkpoints with one process."""
    alone, found = build(place, kind), {"tokens": [], "metrics": [], "start": []}
    found["start"] = [alone.checkpoint, learner.checkpoint]
    for step in range(3):
        ours, theirs = alone.run(episodes(step)), learner.run(episodes(step))
        found["tokens"].append([[r.token_ids for r in ours], [r.token_ids for r in theirs]])
        found["metrics"].append([alone.update(groups_of(ours)), learner.update(groups_of(theirs))])
    (place / "two").mkdir()
    learner.save(place / "two")
    saved = learner.checkpoint
    straight = learner.update(groups_of(theirs)), learner.checkpoint
    learner.load(place / "two")
    found["saved and loaded"] = [saved, learner.checkpoint]
    again = learner.update(groups_of(theirs)), learner.checkpoint
    found["resumed"] = [straight, again]
    alone.load(place / "two")
    found["2 to 1"] = [saved, alone.checkpoint]
    found["step after 2 to 1"] = [straight[0], alone.update(groups_of(theirs))]
    (place / "one").mkdir()
    alone.load(place / "two")
    alone.save(place / "one")
    learner.load(place / "one")
    found["1 to 2"] = [saved, learner.checkpoint]
    found["step after 1 to 2"] = [straight[0], learner.update(groups_of(theirs))]
    found["files"] = sorted(path.name for path in (place / "two").iterdir())
    sys.stdout.write(json.dumps(found))


def main(scene, place, strategy, kind):
    torch.set_num_threads(1)
    place = Path(place)
    with joined(DistributedConfig(strategy=strategy, timeout_s=60, patience_s=60), cuda=False) as ranks:
        local = build(place, kind, ranks)
        victim = {"rank 1 fails": 1, "rank 1 is killed": 1, "rank 0 fails": 0, "rank 0 is killed": 0}.get(scene, -1)
        if ranks.rank == victim:

            def end(groups):
                if scene.endswith("killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
                raise MemoryError("no room for this batch")

            local.update = end
        if scene == "another world" and ranks.rank:
            local.env.version = "counting-2"
        if ranks.rank:
            if scene == "publish":
                local.engine = NoEngine()
            serve(local, ranks)
            return
        learner = DistributedLearner(local, ranks, elsewhere=scene == "publish")
        if scene == "publish":
            publish(place, kind, learner, local)
        elif scene == "compare":
            compare(place, kind, learner)
        elif scene == "one group":
            rollouts = learner.run(episodes(0)[:5])
            sys.stdout.write(json.dumps(learner.update(groups_of(rollouts))))
        else:
            learner.update(groups_of(learner.run(episodes(0))))
        dismiss(ranks)


if __name__ == "__main__":
    main(*sys.argv[1:])
