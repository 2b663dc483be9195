"""The in-process engine on real vLLM: the same tokens as torch, adapters and full weights swapped, traps noticed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rl.toy import CountingWorld, config_of, episode, group_of
from vllm_engine.conftest import LORA
from vllm_engine.real import PROMPTS, need_vllm, play, reference, worst_difference
from vllm_engine.toy_steps import step

from intraskill.config.learning import RolloutConfig, VllmConfig
from intraskill.method.errors import EngineError
from intraskill.rl.checkpoints import weights_hash
from intraskill.rl.engines.torch_engine import TorchEngine
from intraskill.rl.engines.vllm_local import VllmEngine
from intraskill.rl.engines.weight_sync import ServedVersion
from intraskill.rl.policy import Policy, load_policy
from intraskill.rl.trainer import TorchLearner

pytestmark = pytest.mark.vllm
need_vllm()

LOGPROB_TOLERANCE = 1e-4
GAP_TOLERANCE = 1e-5
ROLLOUT = RolloutConfig(temperature=1.3, max_new_tokens=24, max_context=600)
SIZE = 0.02
BLOCK = 32
"""Tokens that the prefix cache holds together."""


@pytest.fixture(scope="module")
def student(wide_model: Path) -> Policy:
    return load_policy(wide_model, lora=LORA)


@pytest.fixture(scope="module")
def engine(student: Policy, wide_model: Path) -> VllmEngine:
    return VllmEngine(student, wide_model, replace(ROLLOUT, vllm=VllmConfig(options={"block_size": BLOCK})))


def test_tokens_equal_those_of_torch_with_the_same_seeds_after_every_swap(student: Policy, engine: VllmEngine) -> None:
    histories = []
    for version in range(3):
        before = histories[-1] if histories else None
        engine.serve(step(student, version, SIZE))
        found = play(engine, 3)
        wanted = reference(student, ROLLOUT, found)
        assert worst_difference(found, wanted) < LOGPROB_TOLERANCE
        assert engine.probe.gap < GAP_TOLERANCE
        assert before is None or [*before[0].values()] != [*found[0].values()], "the swap must be visible"
        histories.append(found)
    stops = [g.stopped for turn in found for g in turn.values()]
    assert any(stops) and not all(stops), "the test must see both kinds of ends"


def test_greedy_tokens_equal_those_of_the_torch_engine(student: Policy, engine: VllmEngine) -> None:
    engine.serve(step(student, 3, SIZE))
    torch_engine = TorchEngine(student, stop_id=2, temperature=0, max_new_tokens=24)
    engine._rollout, usual = replace(ROLLOUT, temperature=0.0), engine._rollout
    try:
        ours, theirs = play(engine, 3), play(torch_engine, 3)
    finally:
        engine._rollout = usual
    assert [{row: g.token_ids for row, g in turn.items()} for turn in ours] == [
        {row: g.token_ids for row, g in turn.items()} for turn in theirs
    ]
    assert play(engine, 1)[0][0].token_ids != ours[0][0].token_ids, "sampling would have been noticed"


def test_a_batch_run_again_gives_the_same_bits(student: Policy, engine: VllmEngine) -> None:
    engine.serve(step(student, 4, SIZE))
    assert play(engine, 3) == play(engine, 3)


def test_a_turn_reads_the_cache_of_its_own_batch_and_of_no_other(
    student: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.serve(step(student, 7, SIZE))
    cached: list[list[int]] = []
    honest = engine._llm.generate

    def generate(*words: Any, **options: Any) -> Any:
        answers = honest(*words, **options)
        cached.append([answer.num_cached_tokens for answer in answers])
        return answers

    monkeypatch.setattr(engine._llm, "generate", generate)
    for _ in range(2):
        play(engine, 2, [tuple(range(10, 90)), tuple(range(10, 90))])
    held = 80 // BLOCK * BLOCK
    assert cached[0] == cached[2] == [0, held], "equal prompts are prefilled once, and anew in another batch"
    assert all(tokens >= held for tokens in cached[1]), "a turn prefills what is new only"


def test_an_old_id_under_a_new_path_serves_the_old_adapter_and_the_probe_says_so(
    student: Policy, engine: VllmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.serve(step(student, 5, SIZE))
    assert engine._swap.current is not None
    old = engine._swap.current.number
    honest = engine._adapter

    def stale(version: ServedVersion) -> Any:
        request = honest(version)
        request.lora_int_id = old
        return request

    monkeypatch.setattr(engine, "_adapter", stale)
    with pytest.raises(EngineError, match=r"policy-v\d+.* does not sample from the trained policy"):
        engine.serve(step(student, 6, SIZE))
    assert engine.probe.gap > 10 * engine.probe.tolerance
    with pytest.raises(EngineError, match="no weights are served"):
        play(engine, 1)
    monkeypatch.undo()
    engine.serve(weights_hash(student.trainable()))
    assert engine.probe.gap < GAP_TOLERANCE


def test_a_learner_stays_on_policy_over_updates(student: Policy, engine: VllmEngine) -> None:
    with torch.no_grad():
        for name, parameter in student.trainable().items():
            parameter.mul_("lora_A" in name)  # the adapter as it starts: no update yet
    config = config_of(lr=1e-2, max_turns=4, max_new_tokens=24, max_context=600, temperature=1.3, workers=2)
    learner = TorchLearner(student, CountingWorld(), config, engine=engine)
    for update in range(3):
        rollouts = learner.run([episode("bbbb", 100 * update + sample) for sample in range(12)])
        assert [rollout.fault for rollout in rollouts] == [None] * 12
        assert learner.update([group_of(rollouts)])["train/logprob_gap"] < GAP_TOLERANCE
    assert learner.update([group_of(rollouts)])["train/logprob_gap"] > 10 * GAP_TOLERANCE, "the weights have moved"


def test_the_trainers_threads_are_left_alone(engine: VllmEngine) -> None:
    torch.set_num_threads(2)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def whole(wide_model: Path) -> Iterator[tuple[Policy, VllmEngine]]:
    policy = load_policy(wide_model)
    yield policy, VllmEngine(policy, wide_model, ROLLOUT)


def test_full_weights_with_tied_embeddings_are_swapped_exactly(whole: tuple[Policy, VllmEngine]) -> None:
    policy, engine = whole
    assert policy.head.weight is policy.backbone.embed_tokens.weight
    first = None
    for version in range(3):
        engine.serve(step(policy, version, 0.003))
        found = play(engine, 2, PROMPTS)
        assert worst_difference(found, reference(policy, ROLLOUT, found)) < LOGPROB_TOLERANCE
        assert first is None or first != found
        first = found
