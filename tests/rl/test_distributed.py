"""Several processes: they learn what one learns, exchange checkpoints with it, and end together."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from editor.editing import write_editor
from rl.toy import SKILL, config_of, episode, write_model

from intraskill.config.config import Config
from intraskill.config.learning import DistributedConfig
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import BARE
from intraskill.rl.distributed.ddp import dealt
from intraskill.rl.distributed.group import device_of
from intraskill.rl.distributed.launch import Launch, launched, strategy_of
from intraskill.rl.distributed.learner import refuse_engine, shared, together_of
from intraskill.rl.micro_batches import micro_batches
from intraskill.rl.policy import load_policy

TESTS = Path(__file__).parents[1]
CHILD = TESTS / "rl" / "two_processes.py"
TOLERANCE = 1e-5
LEARNED = 1e-2
LONGEST_S = 100


def launch(*words: str, size: int = 2) -> list[subprocess.Popen]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared_by_all = os.environ | {
        "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        # As accelerate launch --use_fsdp sets them: transformers would then load the weights on rank 0 only.
        "ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
        "WORLD_SIZE": str(size), "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    return [
        subprocess.Popen(
            [sys.executable, *words],
            env=shared_by_all | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def ended(processes: list[subprocess.Popen]) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of each; all must end by themselves."""
    found = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=LONGEST_S)
            found.append((process.returncode, out, err))
    finally:
        for process in processes:
            process.kill()
    return found


def play(scene: str, place: Path, strategy: str = "ddp", kind: str = "full") -> list[tuple[int, str, str]]:
    write_model(place / "model")
    return ended(launch(str(CHILD), scene, str(place), strategy, kind))


def worst(ours: dict[str, float], theirs: dict[str, float]) -> float:
    names = {name for name in ours if name.startswith("train/")}
    assert names == {name for name in theirs if name.startswith("train/")}
    return max(abs(ours[name] - theirs[name]) / max(1.0, abs(ours[name])) for name in names)


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        ("ddp", "full"),
        pytest.param("fsdp", "full", marks=pytest.mark.slow),
        pytest.param("ddp", "lora", marks=pytest.mark.slow),
        pytest.param("fsdp", "lora", marks=pytest.mark.slow),
        pytest.param("ddp", "dense, three steps", marks=pytest.mark.slow),
        pytest.param("fsdp", "dense, three steps", marks=pytest.mark.slow),
        pytest.param("ddp", "lora, recomputed, KL", marks=pytest.mark.slow),
        pytest.param("fsdp", "lora, recomputed, KL", marks=pytest.mark.slow),
    ],
)
def test_two_processes_learn_what_one_learns_and_exchange_checkpoints(tmp_path: Path, strategy: str, kind: str) -> None:
    (status, out, err), (other, _, err_1) = play("compare", tmp_path, strategy, kind)
    assert (status, other) == (0, 0), err + err_1
    found = json.loads(out)
    for name in ("start", "saved and loaded", "2 to 1", "1 to 2", "resumed"):
        ours, theirs = found[name]
        assert ours == theirs, name
    assert found["start"][0] != found["saved and loaded"][0]
    for alone, together in found["tokens"]:
        assert alone == together
    for alone, together in found["metrics"]:
        assert worst(alone, together) < TOLERANCE
    assert worst(found["metrics"][0][0], found["metrics"][1][1]) > LEARNED, "another step has other numbers"
    assert worst(*found["step after 2 to 1"]) < TOLERANCE
    assert worst(*found["step after 1 to 2"]) < TOLERANCE
    files = {"ddp": "weights.safetensors", "fsdp": "__1_0.distcp"}
    assert files[strategy] in found["files"]


@pytest.mark.parametrize("scene", ["rank 1 fails", pytest.param("rank 1 is killed", marks=pytest.mark.slow)])
def test_a_rank_that_ends_is_named_and_nobody_hangs(tmp_path: Path, scene: str) -> None:
    (status, _, err), (other, _, err_1) = play(scene, tmp_path)
    assert status == 1
    assert other == (-signal.SIGKILL if scene.endswith("killed") else 1), err_1
    reason = "ended without a word" if scene.endswith("killed") else "failed: MemoryError: no room for this batch"
    assert f"RankError: rank 1 of 2 {reason}" in err


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["rank 0 fails", "rank 0 is killed"])
def test_when_rank_0_ends_the_others_end(tmp_path: Path, scene: str) -> None:
    (status, _, _), (other, _, err_1) = play(scene, tmp_path)
    assert (status, other) == (-signal.SIGKILL if scene.endswith("killed") else 1, 1)
    assert "RankError: rank 0 of 2" in err_1


@pytest.mark.slow
def test_a_rank_in_another_world_is_refused_at_the_start(tmp_path: Path) -> None:
    (status, _, err), _ = play("another world", tmp_path)
    assert status == 1
    assert "1 of 2 ranks have other conditions than rank 0" in err
    assert "counting-2" in err


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_more_ranks_than_groups_share_one_group(tmp_path: Path, strategy: str) -> None:
    (status, out, err), _ = play("one group", tmp_path, strategy)
    assert status == 0, err
    assert json.loads(out)["train/rollouts"] == 5.0


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_rank_0_alone_publishes_the_adapter_to_servers(tmp_path: Path, strategy: str) -> None:
    (status, out, err), _ = play("publish", tmp_path, strategy, "lora")
    assert status == 0, err
    before, after = json.loads(out)
    for ours, theirs in (before, after):
        assert theirs == pytest.approx(ours, rel=TOLERANCE) and len(ours) > 20
    assert before[0] != pytest.approx(after[0], rel=TOLERANCE)


RUN = """
import sys
from pathlib import Path
from rounds.test_torch_run import letter_config
from intraskill.rounds.setup import environment_of
from intraskill.rounds.loop import run
from intraskill.rounds.together import run_together
config = letter_config(Path(sys.argv[1]), sys.argv[2])
config.workers, config.distributed.strategy = 1, sys.argv[3]
config.distributed.timeout_s = config.distributed.patience_s = 60
run_together(config, run, environment_of)
"""


def rounds(place: Path, name: str) -> dict[str, object]:
    """Rewards, contributions and decisions of every round, and the last weights."""
    found: dict[str, object] = {}
    for path in sorted((place / name).glob("round_*/*.json*")):
        if path.name in ("round.json", "curriculum.json", "train.jsonl", "masks.json"):
            found[f"{path.parent.name}/{path.name}"] = path.read_text()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_run_killed_in_two_processes_gives_the_rounds_of_one(tmp_path: Path, strategy: str) -> None:
    write_model(tmp_path / "model")
    (tmp_path / "draft.md").write_text(SKILL.to_markdown())
    assert ended(launch("-c", RUN, str(tmp_path), "one", "auto", size=1))[0][0] == 0
    processes = launch("-c", RUN, str(tmp_path), "two", strategy)
    waited_until = time.monotonic() + LONGEST_S
    while not list((tmp_path / "two").glob("round_001/train_state/step_*/progress.json")):
        assert time.monotonic() < waited_until and processes[0].poll() is None
        time.sleep(0.02)
    processes[0].kill()
    assert [status for status, _, _ in ended(processes)][0] == -signal.SIGKILL
    again = ended(launch("-c", RUN, str(tmp_path), "two", strategy))
    assert [status for status, _, _ in again] == [0, 0], again[0][2]
    one, two = rounds(tmp_path, "one"), rounds(tmp_path, "two")
    assert one.keys() == two.keys()
    differing = [name for name in one if strip(one[name]) != strip(two[name])]
    assert differing == []
    assert one["round_000/round.json"] != one["round_001/round.json"]


EDITOR = """
import sys
from pathlib import Path
from editor.editing import planted_editing
from intraskill.editor.setup import environment_of
from intraskill.editor.training import train_editor
from intraskill.rounds.together import run_together
config = planted_editing(Path(sys.argv[1]), sys.argv[2])
config.distributed.strategy = sys.argv[3]
config.distributed.timeout_s = config.distributed.patience_s = 60
run = run_together(config, train_editor, environment_of)
if run:
    print(run.size.around, run.size.tokens("read first"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_an_editor_in_two_processes_reads_tries_and_compiles_what_one_does(tmp_path: Path, strategy: str) -> None:
    write_editor(tmp_path / "model")
    (status, size, err), *_ = ended(launch("-c", EDITOR, str(tmp_path), "one", "auto", size=1))
    assert status == 0, err
    both = ended(launch("-c", EDITOR, str(tmp_path), "two", strategy))
    assert [status for status, _, _ in both] == [0, 0], both[0][2] + both[1][2]
    assert both[0][1] == size
    one, two = (
        {
            str(path.relative_to(tmp_path / name)): path.read_text()
            for pattern in ("editor/train.jsonl", "final/*.md", "final/edits.jsonl", "final/worth.jsonl")
            for path in (tmp_path / name).glob(pattern)
        }
        for name in ("one", "two")
    )
    assert len(one) == 5
    assert one == two
    answers = {
        answer["answer"] for line in one["editor/train.jsonl"].splitlines() for answer in json.loads(line)["answers"]
    }
    assert len(answers) > 1


def strip(text: object) -> str:
    """Weights may differ in their last bits: leave out their hash."""
    import re

    return re.sub(r'"checkpoint": "[0-9a-f]+"', "", str(text))


def test_episodes_are_shared_by_whole_groups_where_there_are_enough() -> None:
    group = [episode("aa", sample) for sample in range(4)]
    other = [episode("bbb", sample, frozenset(SKILL.ids)) for sample in range(4)]
    third = [episode("aa", sample, frozenset(SKILL.ids)) for sample in range(4)]
    assert shared([*group, *other, *third], 2) in ([group, [*other, *third]], [[*group, *other], third])
    assert shared([*group, *other], 2) == [group, other]
    assert [len(share) for share in shared(group, 3)] == [1, 2, 1]
    assert shared([], 2) == [[], []]
    assert [e for share in shared([*group, *other, *third], 5) for e in share] == [*group, *other, *third]


def test_micro_batches_are_dealt_out_evenly_and_each_to_one() -> None:
    assert dealt([5, 1, 4, 2], 2) == [[0, 1], [2, 3]]
    assert dealt([3.0], 3) == [[0], [], []]
    assert sorted(i for share in dealt([1, 2, 3, 4, 5], 3) for i in share) == [0, 1, 2, 3, 4]


def test_a_batch_is_cut_finer_for_more_processes(tmp_path: Path) -> None:
    from rl.toy import CountingWorld

    from intraskill.rl.trainer import TorchLearner

    policy = load_policy(write_model(tmp_path / "model"))
    settings = config_of(max_turns=2, max_new_tokens=8, max_context=600)
    rollouts = TorchLearner(policy, CountingWorld(), settings).run([episode("bbbb", sample) for sample in range(4)])
    for layout in ("dense", "prefix"):
        assert len(micro_batches(rollouts, 10**6, layout=layout)) == 1
        found = micro_batches(rollouts, 10**6, layout=layout, parts=3)
        assert len(found) >= 3 and sorted(i for batch in found for i in batch) == [0, 1, 2, 3]
        assert len(micro_batches(rollouts, 10**6, layout=layout, parts=9)) == 4


def test_the_launcher_is_read_from_the_environment() -> None:
    assert launched({}) == Launch()
    assert launched({"WORLD_SIZE": "1"}) == Launch()
    found = launched({"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1", "ACCELERATE_USE_FSDP": "true"})
    assert found == Launch(3, 4, 1, True)
    assert strategy_of(DistributedConfig(), found) == "fsdp"
    assert strategy_of(DistributedConfig(strategy="ddp"), found) == "ddp"
    assert strategy_of(DistributedConfig(), Launch(0, 2)) == "ddp"
    assert strategy_of(DistributedConfig(strategy="fsdp"), Launch()) == "none"
    with pytest.raises(ConfigError, match=r"strategy=none, but the launcher started 2 processes"):
        strategy_of(DistributedConfig(strategy="none"), Launch(0, 2))
    for odd in ({"WORLD_SIZE": "2"}, {"WORLD_SIZE": "x", "RANK": "0"}):
        with pytest.raises(ConfigError, match="use accelerate launch or torchrun"):
            launched(odd)
    with pytest.raises(ConfigError, match=r"RANK=2 is not in"):
        launched({"WORLD_SIZE": "2", "RANK": "2"})


class TwoRanks:
    """What a refusal reads of the processes, without starting any."""

    rank, size, strategy = 0, 2, "fsdp"


def test_what_several_processes_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from intraskill.rl.start import learner_of
    from intraskill.rounds.setup import environment_of

    ranks = TwoRanks()
    policy = load_policy(write_model(tmp_path / "model"))
    with pytest.raises(
        ConfigError, match=r"rollout.engine=vllm starts one engine.* there are 2; use rollout.engine=vl"
    ):
        refuse_engine("vllm", ranks)  # type: ignore[arg-type]
    refuse_engine("vllm", None)
    refuse_engine("vllm_server", ranks)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"workers=2 threads cannot share sharded weights"):
        together_of(ranks, policy, config_of(workers=2))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"grpo.kl_beta needs a second copy"):
        together_of(ranks, policy, config_of(kl_beta=0.1))  # type: ignore[arg-type]
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    config = Config()
    config.env.name = "planted"
    with pytest.raises(ConfigError, match="has a learner of its own, for one process"):
        learner_of(config, environment_of(config))
    config = Config()
    config.env.options = {"language": "plain"}
    with pytest.raises(ConfigError, match="only intraskill train and editor train share work"):
        learner_of(config, environment_of(config))


def test_groups_are_told_apart_by_task_and_context() -> None:
    bare, assisted = episode("aa", 0, BARE), episode("aa", 0, frozenset(SKILL.ids))
    assert shared([bare, bare, assisted], 2) == [[bare, bare], [assisted]]


@pytest.mark.parametrize("wanted", ["foo", "mps", "", "cuda:", "cpu:0"])
def test_a_device_that_is_none_is_named_with_those_there_are(wanted):
    with pytest.raises(ConfigError, match=f"policy.device={wanted} is none of auto, cpu, cuda"):
        device_of(wanted, None)
    assert device_of("cpu", None) == "cpu"
