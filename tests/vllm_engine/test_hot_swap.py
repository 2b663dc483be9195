"""Versions of the weights on their way into an engine, and the probe that follows."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from vllm_engine.completion_server import sampled
from vllm_engine.toy_steps import step

from intraskill.method.errors import EngineError
from intraskill.rl.engines.weight_sync import PROBE_TOKENS, EngineProbe, HotSwap, ServedVersion
from intraskill.rl.policy import Generation, Policy, load_policy

GAP_TOLERANCE = 1e-5


def name_of(version: ServedVersion) -> str:
    return "canary" if version.name.startswith("canary") else str(version.number)


class Log:
    """An engine that only writes down what it is told, and may fail its probe."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fails = False

    def load(self, version: ServedVersion) -> None:
        assert version.directory.is_dir(), "a version is complete before the engine hears of it"
        self.lines.append(f"load {name_of(version)}")

    def unload(self, version: ServedVersion) -> None:
        assert version.directory.is_dir(), "an engine may read the old version until it forgot it"
        self.lines.append(f"unload {name_of(version)}")

    def verify(self, version: ServedVersion) -> None:
        self.lines.append(f"verify {name_of(version)}")
        if self.fails:
            raise EngineError("planted")


def swap_of(policy: Policy, root: Path) -> tuple[HotSwap, Log]:
    log = Log()
    probe = EngineProbe(policy, 1.0, 0.0)
    return HotSwap(policy, root, probe, load=log.load, unload=log.unload, verify=log.verify), log


def test_the_old_version_goes_only_after_the_new_one_is_verified(policy: Policy, tmp_path: Path) -> None:
    swap, log = swap_of(policy, tmp_path)
    for checkpoint in ("a", "b", "b", "a"):
        swap.serve(checkpoint)
    assert log.lines[:3] == ["load canary", "verify canary", "unload canary"]
    assert log.lines[3:] == ["load 1", "verify 1", "load 2", "verify 2", "unload 1", "load 3", "verify 3", "unload 2"]
    assert swap.current is not None and [path.name for path in tmp_path.iterdir()] == [swap.current.name]


def test_after_a_failed_probe_nothing_is_served_until_a_swap_succeeds(policy: Policy, tmp_path: Path) -> None:
    swap, log = swap_of(policy, tmp_path)
    swap.serve("a")
    log.fails = True
    with pytest.raises(EngineError):
        swap.serve("b")
    assert swap.current is None
    log.fails = False
    swap.serve("b")
    assert swap.current is not None and swap.current.number == 3


def test_two_processes_never_share_a_name(policy: Policy, tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        swap, _ = swap_of(policy, tmp_path)
        swap.serve("a")
        assert swap.current is not None
        names.add(swap.current.name)
    assert len(names) == 2


def test_an_adapter_is_saved_as_it_is_and_never_merged(policy: Policy, tmp_path: Path) -> None:
    swap, _ = swap_of(policy, tmp_path)
    frozen = {name: p.clone() for name, p in policy.frozen().items()}
    swap.serve(step(policy, 1))
    assert swap.current is not None
    saved = load_file(swap.current.directory / "adapter_model.safetensors")
    trained = {name.replace(".default", ""): p for name, p in policy.trainable().items()}
    assert saved.keys() == trained.keys()
    assert all(torch.equal(saved[name], trained[name]) for name in saved)
    assert all(torch.equal(p, frozen[name]) for name, p in policy.frozen().items())


def test_a_tied_model_is_saved_with_a_head_of_its_own(model_dir: Path, tmp_path: Path) -> None:
    policy = load_policy(model_dir)
    assert policy.head.weight is policy.backbone.embed_tokens.weight
    swap, _ = swap_of(policy, tmp_path)
    swap.serve(step(policy, 1))
    assert swap.current is not None
    assert json.loads((swap.current.directory / "config.json").read_text())["tie_word_embeddings"] is False
    again = load_policy_beside(swap.current.directory, model_dir)
    assert again.head.weight is not again.backbone.embed_tokens.weight
    assert torch.equal(again.head.weight, policy.head.weight)
    assert torch.equal(again.backbone.embed_tokens.weight, policy.head.weight)


def load_policy_beside(directory: Path, tokenizer_from: Path) -> Policy:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_bytes((tokenizer_from / name).read_bytes())
    head = load_file(directory / "head.safetensors")
    policy = load_policy(directory)
    policy.head.weight.data = head["lm_head.weight"]  # Transformers reads one file only; vLLM reads both
    return policy


def answer_of(policy: Policy, probe: EngineProbe, temperature: float, *, raw: bool = False) -> Generation:
    body = {"prompt": list(probe.prompt_ids), "seed": 1, "temperature": temperature, "max_tokens": PROBE_TOKENS}
    ids, logprobs = sampled(policy, body | {"stop_token_ids": []}, raw=raw)
    return Generation(tuple(ids), tuple(logprobs), False)


def test_the_probe_passes_the_trainers_own_samples_and_measures_the_gap(policy: Policy) -> None:
    step(policy, 1)
    probe = EngineProbe(policy, 0.7, 0.0)
    probe.check(answer_of(policy, probe, 0.7), "it")
    assert probe.gap < GAP_TOLERANCE


def test_the_probe_refuses_a_stale_adapter_and_says_by_how_much(policy: Policy) -> None:
    probe = EngineProbe(policy, 0.7, 0.0)
    step(policy, 1)
    stale = answer_of(policy, probe, 0.7)
    step(policy, 2)
    with pytest.raises(EngineError, match=r"it does not sample from the trained policy: .* more than 0\.001; a stale"):
        probe.check(stale, "it")
    assert probe.gap > 10 * probe.tolerance


def test_the_probe_names_a_missing_adapter_and_raw_logprobs(policy: Policy) -> None:
    probe = EngineProbe(policy, 0.7, 0.0)
    bare = answer_of(policy, probe, 0.7)
    step(policy, 1)
    with pytest.raises(EngineError, match="serves the start weights without the adapter"):
        probe.check(bare, "it")
    with pytest.raises(EngineError, match="processed_logprobs"):
        probe.check(answer_of(policy, probe, 0.7, raw=True), "it")


def test_a_smaller_tolerance_can_be_asked_for(policy: Policy) -> None:
    probe = EngineProbe(policy, 1.0, tolerance=1e-9)
    with pytest.raises(EngineError, match="more than 1e-09"):
        probe.check(answer_of(policy, probe, 1.0), "it")
