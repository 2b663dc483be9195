"""The engine of servers on a real vLLM server: what our own test server claims about it is true."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from vllm_engine.conftest import LORA
from vllm_engine.real import VllmServer, need_vllm, play, reference, worst_difference
from vllm_engine.toy_steps import step

from intraskill.config.learning import RolloutConfig, VllmConfig
from intraskill.method.errors import ConfigError, EngineError
from intraskill.rl.engines.stateless import ActionRequest
from intraskill.rl.engines.vllm_server import ForgottenModel, VllmClient, VllmServerEngine
from intraskill.rl.engines.weight_sync import ServedVersion
from intraskill.rl.policy import LoraSettings, Policy, load_policy

pytestmark = pytest.mark.vllm
need_vllm()

LOGPROB_TOLERANCE = 1e-4
ROLLOUT = RolloutConfig(temperature=1.3, max_new_tokens=12, max_context=600)
SIZE = 0.02


def rollout_at(*urls: str) -> RolloutConfig:
    return replace(ROLLOUT, vllm=VllmConfig(urls=list(urls), patience_s=900.0))


@pytest.fixture(scope="module")
def server(wide_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    running = VllmServer(wide_model, tmp_path_factory.mktemp("server") / "log.txt")
    running.start()
    try:
        yield running.wait()
    finally:
        running.kill()


@pytest.fixture(scope="module")
def student(wide_model: Path) -> Policy:
    return load_policy(wide_model, lora=LORA)


def test_tokens_equal_those_of_torch_after_every_swap(student: Policy, server: VllmServer) -> None:
    engine = VllmServerEngine(student, rollout_at(server.url))
    first = []
    for version in range(3):
        engine.serve(step(student, version, SIZE))
        found = play(engine, 2)
        assert worst_difference(found, reference(student, ROLLOUT, found)) < LOGPROB_TOLERANCE
        first.append([g.token_ids for g in found[0].values()])
    assert first[0] != first[1] != first[2]
    engine.close()


def test_two_lanes_on_one_server_give_the_same_tokens(student: Policy, server: VllmServer) -> None:
    checkpoint = step(student, 3, SIZE)
    histories = []
    for urls in ([server.url], [server.url, server.url + "/v1"]):
        engine = VllmServerEngine(student, rollout_at(*urls))
        engine.serve(checkpoint)
        histories.append(play(engine, 2))
    assert worst_difference(histories[0], histories[1]) < LOGPROB_TOLERANCE


def test_every_refusal_is_understood(student: Policy, server: VllmServer, tmp_path: Path, wide_model: Path) -> None:
    client = VllmClient(server.url, ROLLOUT)
    nowhere = ServedVersion(9, "policy-v9-none", tmp_path / "nowhere")
    with pytest.raises(ForgottenModel):
        client.complete("policy-v9-none", ActionRequest((5, 6), 1, "salt", 12, 2))
    with pytest.raises(ConfigError, match=r"no room for 595 \+ 12 tokens"):
        client.complete("start", ActionRequest((5,) * 595, 1, "salt", 12, 2))
    with pytest.raises(EngineError, match=r"cannot load .*nowhere.*rollout\.vllm\.adapter_dir"):
        client.load(nowhere)
    client.unload(nowhere)
    with pytest.raises(ConfigError, match="exceeds the 600 tokens"):
        VllmClient(server.url, replace(ROLLOUT, max_context=700)).admit()
    large = load_policy(wide_model, lora=LoraSettings(64, 32, "all-linear"))
    with pytest.raises(EngineError, match=r"rank 64 is greater.*--max-lora-rank at least policy\.lora_rank"):
        VllmServerEngine(large, rollout_at(server.url)).serve("c1")


def test_a_server_killed_in_the_middle_of_a_batch_gives_the_same_rollouts(student: Policy, server: VllmServer) -> None:
    engine = VllmServerEngine(student, rollout_at(server.url))
    engine.serve(step(student, 4, SIZE))
    undisturbed = play(engine, 2)
    conversations = engine.open([(5, 6, 7, 8), (9, 10), (5, 6, 7, 8), tuple(range(10, 90))])
    seeds = [{row: 2**62 + 10 * row + turn for row in range(4)} for turn in range(2)]
    found = [conversations.generate(dict.fromkeys(range(4), ()), seeds[0])]
    server.kill()
    threading.Timer(1.0, server.start).start()
    found.append(conversations.generate({row: (100 + row, 101) for row in range(4)}, seeds[1]))
    assert worst_difference(found, undisturbed) < LOGPROB_TOLERANCE
