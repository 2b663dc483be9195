"""The engine against a reference that forwards everything again for each token of each row."""

import numpy as np
import pytest
import torch

from intraskill.method.errors import ConfigError
from intraskill.rl.engines import torch_engine
from intraskill.rl.engines.torch_engine import TorchEngine, _by_padded_size
from intraskill.rl.policy import Policy

LOGPROB_TOLERANCE = 1e-5
STOP = 2
PROMPTS = [(5, 6, 7, 8), (5, 6, 7, 8), (9,), tuple(range(10, 50)), (5, 6, 7, 8), tuple(range(30, 60))]


def suffix(row: int, turn: int) -> tuple[int, ...]:
    return tuple(range(100 + row, 100 + row + 1 + (7 * row + 11 * turn) % 23))


def reference(policy: Policy, row: int, turns: int, temperature: float = 1.0, limit: int = 12):
    """Yield (token ids, logprobs) of each turn of one row, without any cache."""
    history = list(PROMPTS[row])
    for turn in range(turns):
        history += suffix(row, turn) if turn else ()
        uniforms = np.random.Generator(np.random.Philox(key=1000 * row + turn)).random(limit)
        ids, logprobs = [], []
        for u in uniforms:
            with torch.no_grad():
                logits = policy.causal(torch.tensor([history]), use_cache=False).logits[0, -1]
            scores = torch.log_softmax(logits / temperature, -1)
            token = int((scores.exp().double().cumsum(0) <= u * scores.exp().double().sum()).sum())
            history.append(token)
            ids.append(token)
            logprobs.append(scores[token].item())
            if token == STOP:
                break
        yield tuple(ids), tuple(logprobs)


def play(engine: TorchEngine, turns: int, leaves: dict[int, int] | None = None):
    """Run all rows; a row in ``leaves`` is left out from that turn on."""
    conversations = engine.open(PROMPTS)
    history = []
    for turn in range(turns):
        rows = [row for row in range(len(PROMPTS)) if turn < (leaves or {}).get(row, turns)]
        appended = {row: suffix(row, turn) if turn else () for row in rows}
        history.append(conversations.generate(appended, {row: 1000 * row + turn for row in rows}))
    return history


@pytest.mark.parametrize(("temperature", "prefill_tokens"), [(1.0, 8192), (1.3, 40)])
def test_tokens_and_logprobs_equal_those_of_a_cacheless_loop_over_several_turns(
    policy: Policy, temperature: float, prefill_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_engine, "_PREFILL_TOKENS", prefill_tokens)
    engine = TorchEngine(policy, stop_id=STOP, temperature=temperature, max_new_tokens=12)
    leaves = {0: 2, 3: 1}
    history = play(engine, 4, leaves)
    for row in range(len(PROMPTS)):
        turns = leaves.get(row, 4)
        expected = list(reference(policy, row, turns, temperature))
        got = [history[turn][row] for turn in range(turns)]
        assert [g.token_ids for g in got] == [ids for ids, _ in expected]
        for generation, (_, logprobs) in zip(got, expected, strict=True):
            np.testing.assert_allclose(generation.logprobs, logprobs, atol=LOGPROB_TOLERANCE)
            assert generation.stopped == (generation.token_ids[-1] == STOP)
    stops = [g.stopped for turn in history for g in turn.values()]
    assert any(stops) and not all(stops), "the test must see both kinds of ends"


def test_the_reference_would_notice_another_temperature(policy: Policy) -> None:
    (_, cold), (_, hot) = next(reference(policy, 3, 1, 0.7)), next(reference(policy, 3, 1, 1.0))
    assert abs(cold[0] - hot[0]) > 100 * LOGPROB_TOLERANCE


def test_a_row_acts_alike_alone_and_in_company(policy: Policy) -> None:
    engine = TorchEngine(policy, stop_id=STOP, temperature=1.0, max_new_tokens=12)
    together = play(engine, 1)[0]
    for row, prompt in enumerate(PROMPTS):
        alone = engine.open([prompt]).generate({0: ()}, {0: 1000 * row})[0]
        assert alone.token_ids == together[row].token_ids
        np.testing.assert_allclose(alone.logprobs, together[row].logprobs, atol=LOGPROB_TOLERANCE)
    assert len({together[row].token_ids for row in (0, 1, 4)}) > 1, "equal prompts with other seeds act differently"


def test_temperature_zero_takes_the_likeliest_token(policy: Policy) -> None:
    engine = TorchEngine(policy, stop_id=STOP, temperature=0, max_new_tokens=3)
    out = engine.open([PROMPTS[3]]).generate({0: ()}, {0: 1})[0]
    with torch.no_grad():
        best = int(policy.causal(torch.tensor([PROMPTS[3]])).logits[0, -1].argmax())
    assert out.token_ids[0] == best
    assert set(out.logprobs) == {0.0}


def test_inverting_the_distribution_gives_each_token_its_probability(policy: Policy) -> None:
    engine = TorchEngine(policy, stop_id=STOP, temperature=1.0, max_new_tokens=64)
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.25, 0.25, 0.0])
    grid = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    tokens, logprobs = engine.draw(probabilities.log().expand(1000, -1), grid)
    assert torch.bincount(tokens, minlength=6).tolist() == [0, 500, 0, 250, 250, 0]
    torch.testing.assert_close(logprobs, probabilities[tokens].log())
    edge, _ = engine.draw(probabilities.log().expand(2, -1), torch.tensor([0.0, 1 - 1e-16], dtype=torch.float64))
    assert edge.tolist() == [1, 4], "tokens of probability 0 are never drawn, at the edges either"


def test_a_model_with_sliding_windows_is_refused() -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, use_sliding_window=True, sliding_window=8, max_window_layers=1,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="DynamicSlidingWindowLayer"):
        TorchEngine(Policy(Qwen3ForCausalLM(config), None, ""), stop_id=STOP, temperature=1.0, max_new_tokens=64)


def test_chunks_hold_every_index_once_within_the_budget() -> None:
    sizes = sorted([1, 1, 2, 3, 50, 52, 55, 300])
    chunks = _by_padded_size(sizes, 120)
    assert sorted(index for chunk in chunks for index in chunk) == list(range(len(sizes)))
    assert all(len(chunk) == 1 or len(chunk) * sizes[chunk[-1]] <= 120 for chunk in chunks)
    assert len(chunks) < len(sizes)


def test_prompts_and_observations_are_prefilled_once_however_often_a_row_acts(policy: Policy) -> None:
    engine = TorchEngine(policy, stop_id=STOP, temperature=1.0, max_new_tokens=12)
    leaves = {0: 2, 3: 1}
    play(engine, 4, leaves)
    observed = sum(len(suffix(row, turn)) for row in range(len(PROMPTS)) for turn in range(1, leaves.get(row, 4)))
    # The last token of a prompt is fed by each row for itself: its output is what the first token is drawn from.
    prompts = sum(len(prompt) - 1 for prompt in set(PROMPTS)) + len(PROMPTS)
    assert engine.prefilled == prompts + observed
