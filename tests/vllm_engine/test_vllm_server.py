"""The engine of vLLM servers against real HTTP servers on 127.0.0.1: whole, failing, restarted, and wrong ones."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rl.toy import CountingWorld, config_of, episode, group_of, write_model
from vllm_engine.completion_server import CompletionModel, Refusal, RunningServer, sampled, serving
from vllm_engine.conftest import LORA
from vllm_engine.toy_steps import step

from intraskill.config.config import Config
from intraskill.config.learning import RolloutConfig, VllmConfig
from intraskill.method.errors import ConfigError, EngineError
from intraskill.report.doctor import examine
from intraskill.rl.engines.vllm_server import VllmServerEngine
from intraskill.rl.policy import Policy, load_policy
from intraskill.rl.trainer import TorchLearner

STOP = 2
ROLLOUT = RolloutConfig(temperature=1.3, max_new_tokens=6, max_context=200, batch=64)
PATIENT_S = 60.0
PROMPTS = [(5, 6, 7, 8), (9, 10), (5, 6, 7, 8), tuple(range(10, 40))]
LOGPROB_TOLERANCE = 1e-5
COMPLETIONS, LOAD = "/v1/completions", "/v1/load_lora_adapter"
CANARY = 1
"""Adapters that an engine loads once, before its first version."""


@pytest.fixture
def model(model_dir: Path) -> CompletionModel:
    return CompletionModel(model_dir)


@pytest.fixture
def server(model: CompletionModel) -> Iterator[RunningServer]:
    with serving(model) as running:
        yield running


def engine_at(
    policy: Policy, *urls: str, patience_s: float = PATIENT_S, batch: int = 64, name: str = ""
) -> VllmServerEngine:
    vllm = VllmConfig(urls=list(urls), patience_s=patience_s, served_model=name)
    return VllmServerEngine(policy, replace(ROLLOUT, batch=batch, vllm=vllm))


def play(engine: VllmServerEngine, turns: int = 2) -> list[dict[int, Any]]:
    conversations = engine.open(PROMPTS)
    history = []
    for turn in range(turns):
        appended = {row: (100 + row, 101) if turn else () for row in range(len(PROMPTS)) if row != turn}
        history.append(conversations.generate(appended, {row: 2**62 + 10 * row + turn for row in appended}))
    return history


def expected(policy: Policy, turns: int = 2) -> list[dict[int, Any]]:
    """The same conversations, sampled from the trainer's own weights."""
    told, history = [list(prompt) for prompt in PROMPTS], []
    for turn in range(turns):
        answers = {}
        for row in range(len(PROMPTS)):
            if row == turn:
                continue
            told[row] += [100 + row, 101] if turn else []
            body = {"prompt": told[row], "seed": 2**62 + 10 * row + turn, "temperature": ROLLOUT.temperature}
            ids, logprobs = sampled(policy, body | {"max_tokens": 6, "stop_token_ids": [STOP]})
            told[row] = told[row] + ids
            answers[row] = (tuple(ids), logprobs)
        history.append(answers)
    return history


def assert_same(found: list[dict[int, Any]], wanted: list[dict[int, Any]]) -> None:
    assert [{row: g.token_ids for row, g in turn.items()} for turn in found] == [
        {row: ids for row, (ids, _) in turn.items()} for turn in wanted
    ]
    for turn, answers in zip(found, wanted, strict=True):
        for row, (_, logprobs) in answers.items():
            assert turn[row].logprobs == pytest.approx(logprobs, abs=LOGPROB_TOLERANCE)


def test_actions_come_from_the_trained_weights_over_several_turns_and_swaps(
    policy: Policy, server: RunningServer
) -> None:
    engine = engine_at(policy, server.url + "/v1/")
    tokens = []
    for version in range(3):
        engine.serve(step(policy, version))
        found = play(engine)
        assert_same(found, expected(policy))
        assert engine.probe.gap < LOGPROB_TOLERANCE
        tokens.append([g.token_ids for turn in found for g in turn.values()])
    assert tokens[0] != tokens[1] != tokens[2], "the steps must be large enough to be seen"
    stops = [g.stopped for turn in found for g in turn.values()]
    assert all(g.stopped == (g.token_ids[-1] == STOP) for turn in found for g in turn.values()) and not all(stops)


def test_a_version_has_a_new_name_and_path_and_the_old_one_is_gone(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    names = []
    for version in range(3):
        engine.serve(step(policy, version))
        names += list(server.model.adapters)
    assert [name.rpartition("-")[0] for name in names] == ["policy-v1", "policy-v2", "policy-v3"]
    assert len(set(server.model.paths)) == 4 and "canary" in server.model.paths[0]
    assert [Path(path).exists() for path in server.model.paths] == [False, False, False, True]
    engine.close()
    assert not Path(server.model.paths[-1]).exists()


def test_the_same_weights_are_swapped_in_once(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    checkpoint = step(policy, 1)
    for _ in range(3):
        engine.serve(checkpoint)
    assert server.model.requests[LOAD] == CANARY + 1


def test_every_setting_of_the_distribution_is_sent(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    play(engine, 1)
    body = server.model.completions[-1]
    wanted = {"temperature": 1.3, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "logprobs": 0}
    assert {key: body[key] for key in wanted} == wanted
    assert body["stop_token_ids"] == [STOP] and body["ignore_eos"] and body["return_token_ids"]
    assert all(isinstance(token, int) for token in body["prompt"])


def test_a_lost_reply_is_asked_again_and_gives_one_action(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    asked = server.model.requests[COMPLETIONS]
    server.model.faults[COMPLETIONS] = deque(["drop", 503, 429, 500, "drop"])
    assert_same(play(engine), expected(policy))
    assert server.model.requests[COMPLETIONS] == asked + 6 + 5, "six actions, five of them asked twice"


def test_a_lost_reply_to_a_swap_is_no_second_adapter(policy: Policy, server: RunningServer) -> None:
    server.model.faults[LOAD] = deque(["drop"])
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    assert server.model.requests[LOAD] == CANARY + 2 and len(server.model.adapters) == 1
    assert_same(play(engine), expected(policy))


def test_a_server_that_restarts_in_the_middle_of_a_batch_gets_its_adapter_back(
    policy: Policy, server: RunningServer
) -> None:
    engine = engine_at(policy, server.url, patience_s=20.0, batch=1)
    engine.serve(step(policy, 1))
    seen = len(server.model.completions)

    def restart(count: int) -> None:
        if count == seen + 2:
            server.restart_later(0.5)
            time.sleep(0.2)

    server.model.on_completion = restart
    assert_same(play(engine, 3), expected(policy, 3))
    assert server.model.requests[LOAD] == CANARY + 2 and len(server.model.adapters) == 1


def test_many_waiting_rows_bring_the_adapter_back_once(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    server.model.forget()
    assert_same(play(engine), expected(policy))
    assert server.model.requests[LOAD] == CANARY + 2


def test_a_restarted_server_with_other_weights_is_noticed(
    policy: Policy, server: RunningServer, tmp_path: Path
) -> None:
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    server.model.forget()
    server.model.base = load_policy(write_model(tmp_path / "other", seed=1))
    with pytest.raises(EngineError, match="does not sample from the trained policy"):
        play(engine)


def test_rows_are_shared_among_servers_and_each_row_stays_with_one(policy: Policy, model_dir: Path) -> None:
    models = [CompletionModel(model_dir), CompletionModel(model_dir)]
    with serving(models[0]) as first, serving(models[1]) as second:
        engine = engine_at(policy, first.url, second.url)
        engine.serve(step(policy, 1))
        probes = [len(model.completions) for model in models]
        assert_same(play(engine, 2), expected(policy))
    prompts = [
        {tuple(body["prompt"][:2]) for body in model.completions[n:]} for model, n in zip(models, probes, strict=True)
    ]
    assert prompts == [{(5, 6)}, {(9, 10), (10, 11)}], "equal prompts go to the same server"


@pytest.mark.parametrize(
    ("odd", "kind", "message"),
    [
        ({"version": "0.22.1"}, ConfigError, r"runs vLLM 0\.22\.1, but rollout\.vllm\.version=0\.31 is expected"),
        ({"max_model_len": 150}, ConfigError, r"rollout\.max_context=200 exceeds the 150 tokens"),
        ({"lora": False}, ConfigError, r"--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"),
        ({"key": "secret"}, ConfigError, "refuses the key; put it into the variable VLLM_API_KEY"),
        ({"raw": True}, EngineError, "start vLLM with --logprobs-mode processed_logprobs"),
        ({"deaf": True}, EngineError, "it serves the start weights without the adapter"),
    ],
)
def test_a_server_that_is_not_what_the_run_expects_is_refused(
    policy: Policy, model_dir: Path, odd: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with serving(CompletionModel(model_dir, **odd)) as server:
        engine = engine_at(policy, server.url)
        with pytest.raises(kind, match=message):
            engine.serve(step(policy, 1))
        with pytest.raises(EngineError, match="no weights are served"):
            play(engine)


def test_another_model_name_is_refused(policy: Policy, server: RunningServer) -> None:
    with pytest.raises(ConfigError, match=r"serves 1: start, not the model that is wanted"):
        engine_at(policy, server.url, patience_s=5.0, name="Qwen/Qwen3.5-4B").serve("c1")


def test_another_start_model_is_noticed_by_the_first_probe(policy: Policy, tmp_path: Path) -> None:
    words = r"does not sample from the trained policy.*other start weights"
    with serving(CompletionModel(write_model(tmp_path, seed=1))) as server, pytest.raises(EngineError, match=words):
        engine_at(policy, server.url).serve("c1")


def test_a_stale_swap_is_noticed_by_the_probe(policy: Policy, model_dir: Path) -> None:
    with serving(CompletionModel(model_dir, stale=True)) as server:
        engine = engine_at(policy, server.url)
        engine.serve(step(policy, 1))
        # The old adapter stays loaded under its name until the swap is done, so a stale server can serve it.
        with pytest.raises(EngineError, match=r"policy-v2.*differ by .* a stale adapter"):
            engine.serve(step(policy, 2))


def test_an_engine_that_ignores_adapters_is_told_before_anything_was_learned(policy: Policy, model_dir: Path) -> None:
    start = {name: p.detach().clone() for name, p in policy.trainable().items()}
    with serving(CompletionModel(model_dir, deaf=True)) as server:
        engine = engine_at(policy, server.url)
        # The adapter is still the start weights: what is served and what is trained agree, and yet it is refused.
        with pytest.raises(EngineError, match=r"canary.*it serves the start weights without the adapter"):
            engine.serve("untrained")
    assert all(torch.equal(p, start[name]) for name, p in policy.trainable().items()), "the canary is taken back"


def test_a_step_below_the_tolerance_that_does_not_arrive_is_noticed(policy: Policy, model_dir: Path) -> None:
    for stale in (False, True):
        with serving(CompletionModel(model_dir)) as server:
            engine = engine_at(policy, server.url)
            engine.serve(step(policy, 1))
            server.model.stale = stale
            checkpoint = step(policy, 2, 1e-4)
            if stale:
                with pytest.raises(EngineError, match="still samples from the adapter of before"):
                    engine.serve(checkpoint)
            else:
                engine.serve(checkpoint)
            assert engine.probe.gap < engine.probe.tolerance, "the plain comparison sees nothing"


def test_a_server_that_is_down_is_named(policy: Policy, server: RunningServer) -> None:
    server.stop()
    engine = engine_at(policy, server.url, patience_s=0.3)
    began = time.monotonic()
    with pytest.raises(EngineError, match=rf"{server.url} gave no answer within .*patience_s=0\.3.*ConnectError"):
        engine.serve("c1")
    assert time.monotonic() - began < 5
    server.start()


def test_an_adapter_directory_that_the_server_cannot_read_is_named(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    server.model.load = _unreadable  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=r"cannot load .*rollout\.vllm\.adapter_dir"):
        engine.serve("c1")


def _unreadable(body: dict[str, Any]) -> dict[str, Any]:
    raise Refusal(404, f"Loading lora {body['lora_name']} failed: No adapter found for {body['lora_path']}")


def test_a_context_that_the_server_has_no_room_for_is_named(policy: Policy, server: RunningServer) -> None:
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    server.model.max_model_len = 20
    with pytest.raises(ConfigError, match=r"no room for 30 \+ 6 tokens"):
        play(engine, 1)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"prompt_token_ids": [1]}, "answered other tokens than were sent"),
        ({"token_ids": []}, "0 tokens and"),
        ({"token_ids": None}, "no completion with token ids"),
        ({"token_ids": [5], "logprobs": {"token_logprobs": [-0.1]}}, "ended an action at another token than 2"),
        ({"token_ids": [2, 5], "logprobs": {"token_logprobs": [-0.1, -0.1]}}, "ended an action at another token"),
        ({"token_ids": [2], "logprobs": {"token_logprobs": [None]}}, "no log-probability for a token"),
    ],
)
def test_an_answer_that_cannot_be_trained_on_is_refused(
    policy: Policy, server: RunningServer, patch: dict[str, Any], message: str
) -> None:
    engine = engine_at(policy, server.url)
    engine.serve(step(policy, 1))
    honest = server.model.complete
    server.model.complete = lambda body: {"choices": [honest(body)["choices"][0] | patch]}  # type: ignore[method-assign]
    with pytest.raises(EngineError, match=message):
        play(engine, 1)


def test_full_weights_and_a_missing_address_are_refused_at_once(policy: Policy, model_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"set policy\.lora_rank"):
        engine_at(load_policy(model_dir), "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"rollout\.vllm\.urls"):
        engine_at(policy)
    with pytest.raises(ConfigError, match="must begin with http"):
        engine_at(policy, "node1:8000").serve("c1")


def test_a_learner_trains_on_what_a_restarting_server_sampled(model_dir: Path) -> None:
    config = config_of(lr=3e-3, temperature=1.0, max_turns=3, max_new_tokens=12, max_context=600, workers=2, batch=6)
    student = load_policy(model_dir, lora=LORA)
    with serving(CompletionModel(model_dir)) as server:
        config.rollout.vllm = VllmConfig(urls=[server.url], patience_s=PATIENT_S)
        learner = TorchLearner(student, CountingWorld(), config, engine=VllmServerEngine(student, config.rollout))
        for update in range(2):
            threading.Timer(0.2, server.model.forget).start()
            rollouts = learner.run([episode("bbbb", 10 * update + sample) for sample in range(6)])
            assert [rollout.fault for rollout in rollouts] == [None] * 6
            metrics = learner.update([group_of(rollouts)])
            assert metrics["train/logprob_gap"] < LOGPROB_TOLERANCE
        assert server.model.requests[LOAD] >= 2
    assert torch.isfinite(torch.tensor(metrics["train/loss"]))


def test_doctor_says_whether_a_server_is_what_the_run_expects(server: RunningServer) -> None:
    config = Config()
    config.env.preset, config.rollout.engine, config.rollout.max_context = "tiny", "vllm_server", 600
    config.rollout.vllm.urls = [server.url]
    assert (True, f"the vLLM server at {server.url} serves start") in examine(config)
    server.model.version = "0.30.0"
    (finding,) = [words for met, words in examine(config) if not met and "vLLM" in words]
    assert "runs vLLM 0.30.0, but rollout.vllm.version=0.31 is expected" in finding
