"""What is asked of vLLM's OpenAI-compatible server and how its replies are read; no connection here.

Every setting of the distribution is sent: a field left out would be filled from the model's generation_config.json.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from intraskill.method.errors import ConfigError, EngineError, offenders
from intraskill.runtime.policy import Generation
from intraskill.runtime.stateless import ActionRequest, SamplingSettings, generation_of
from intraskill.runtime.vllm_settings import TESTED_VERSION


def completion_body(model: str, request: ActionRequest, sampling: SamplingSettings) -> dict[str, Any]:
    """Return the JSON of one action.

    ``ignore_eos`` with the stop token named: else every end token of the model's configuration would end an action.
    """
    return {
        "model": model,
        "prompt": list(request.prompt_ids),
        "seed": request.seed,
        "cache_salt": request.salt,
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "n": 1,
        "logprobs": 0,
        "return_token_ids": True,
        "ignore_eos": True,
        "stop_token_ids": [] if sampling.stop_id < 0 else [sampling.stop_id],
        "skip_special_tokens": False,
        "stream": False,
    }


def read_completion(reply: Any, request: ActionRequest, sampling: SamplingSettings, where: str) -> Generation:
    """Return the action of a reply.

    Raises:
        EngineError: when the reply has another shape, or answers other tokens than were sent.
    """
    try:
        (choice,) = reply["choices"]
        token_ids, prompt_ids = choice["token_ids"], choice["prompt_token_ids"]
        logprobs = choice["logprobs"]["token_logprobs"]
        tokens = [int(token) for token in token_ids]
        echoed = tuple(int(token) for token in prompt_ids)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"{where} sent no completion with token ids and log-probabilities ({type(error).__name__}: {error}); is it "
            f"vLLM {TESTED_VERSION}?"
        ) from error
    if echoed != request.prompt_ids:
        raise EngineError(
            f"{where} answered other tokens than were sent ({len(echoed)} against {len(request.prompt_ids)}); it must "
            "take token ids as they are"
        )
    return generation_of(tokens, logprobs, sampling, where)


def check_version(found: str, expected: str, where: str) -> None:
    """Compare a vLLM version with the prefix that the run expects.

    Raises:
        ConfigError: when it is another one.
    """
    if not (found == expected or found.startswith((f"{expected}.", f"{expected}+", f"{expected}rc"))):
        raise ConfigError(
            f"{where} runs vLLM {found or 'of an unknown version'}, but rollout.vllm.version={expected} is expected "
            f"(tested with {TESTED_VERSION}); install that one, or set rollout.vllm.version to accept {found or 'it'}"
        )


def base_model_of(reply: Any, wanted: str, max_context: int, where: str) -> str:
    """Return the name of the model that a server's ``/v1/models`` offers below all adapters.

    Args:
        reply: its JSON.
        wanted: name that must be there; empty = the only one.
        max_context: tokens that an episode may have.
        where: for messages.

    Raises:
        ConfigError: for another model, or one whose context is too short.
        EngineError: for a reply of another shape.
    """
    try:
        cards: Sequence[Mapping[str, Any]] = [card for card in reply["data"] if not card.get("parent")]
        names = [str(card["id"]) for card in cards]
    except (KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"{where} does not list its models as vLLM does ({error!r})") from error
    fitting = [card for card in cards if card["id"] == wanted] if wanted else list(cards)
    if len(fitting) != 1:
        raise ConfigError(
            f"{where} serves {offenders(names)}, not the model that is wanted; set rollout.vllm.served_model to "
            f"one of them (now {wanted!r}), or start the server with the weights of policy.path"
        )
    longest = fitting[0].get("max_model_len")
    if isinstance(longest, int) and longest < max_context:
        raise ConfigError(
            f"rollout.max_context={max_context} exceeds the {longest} tokens that {where} takes; lower it, or start "
            f"the server with --max-model-len {max_context}"
        )
    return str(fitting[0]["id"])


def reason_of(reply: Any) -> str:
    """Return the error message of a reply in one line, cut to a few words."""
    stated: Any = reply
    for key in ("error", "message"):
        if isinstance(stated, Mapping) and key in stated:
            stated = stated[key]
    if isinstance(reply, Mapping) and "detail" in reply:
        stated = reply["detail"]
    return " ".join(str(stated).split())[:300]
