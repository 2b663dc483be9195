"""The recipe of the tiny editor: edit traces of planted worlds, its own tokenizer, and a supervised warm start.

It reads the terse prompt, one piece of evidence at a time, and answers by naming drafts; it writes no text of its own.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from intraskill.editor.domains.planted import PlantedDomain
from intraskill.editor.prompt import TERSE_SYSTEM, PromptSize
from intraskill.editor.states import begin
from intraskill.editor.traces import Trace, best_answer, demonstrate, demonstrated
from intraskill.editor.warm_start import Pair, encoded
from intraskill.method.evidence import EvidenceLimits
from intraskill.method.firewall import Firewall, Secrets
from intraskill.method.randomness import uniform
from intraskill.runtime.chat import ChatCodec
from intraskill.runtime.fitting import Example, Fit, fit
from intraskill.runtime.warm_start import build_model, build_tokenizer


@dataclass(frozen=True, slots=True)
class EditorRecipe(Fit):
    """Everything that determines the weights; those of `Fit` are documented there.

    Attributes:
        traces: distinct demonstrations, drawn again and again.
        careless: share of arbitrary answers among them.
        evidence: pieces of evidence read per edit.
        world: seed of the planted worlds; experiments use seeds 0 to 9.
    """

    steps: int = 380
    batch: int = 8
    micro_tokens: int = 1500
    threads: int = 2
    learning_rate: float = 2e-3
    muon_rate: float = 0.02
    auxiliary: float = 0.3
    vocabulary: int = 640
    hidden: int = 128
    layers: int = 3
    heads: int = 4
    traces: int = 2500
    careless: float = 0.3
    evidence: int = 1
    world: int = 1000
    seed: int = 0


def traces(world: int, number: int, *, careless: float, evidence: int, seed: int) -> Iterator[tuple[Trace, str]]:
    """Yield ``number`` demonstrations over planted worlds, each with the best answer beside the one given."""
    domain, made, firewall = PlantedDomain(seed=world, worlds=number), 0, Firewall(Secrets())
    limits, size = EvidenceLimits(batch=evidence), PromptSize(lambda text: len(text.split()))
    for stream in domain.streams("train"):
        value, chain = domain.value(stream.id), begin(stream, 0, order="source", seed=seed)
        show = partial(demonstrate, value=value, firewall=firewall, careless=careless, seed=seed)
        for trace in demonstrated(chain, domain, limits, size, show):
            yield trace, best_answer(trace.state, value, firewall)[0]
            made += 1
            if made == number:
                return


def train(recipe: EditorRecipe, out: Path, log: Callable[[dict[str, float]], None]) -> None:
    """Run the whole recipe and write tokenizer, weights, ``recipe.json`` and ``training.jsonl`` into ``out``."""
    found = traces(recipe.world, recipe.traces, careless=recipe.careless, evidence=recipe.evidence, seed=recipe.seed)
    pairs: list[Pair] = [(trace.state.prompt, trace.answer) for trace, _ in found]
    words = "system\nuser\nassistant\nCREATE\nUPDATE\nMERGE\nPRUNE\nNOOP\ndraft"
    tokenizer = build_tokenizer([*map("\n".join, pairs), *([TERSE_SYSTEM, words] * 40)], recipe.vocabulary)
    model = build_model(recipe, tokenizer)
    pool = encoded(pairs, ChatCodec(tokenizer, (), system=TERSE_SYSTEM))
    fit(model, _endless(pool, recipe.seed), recipe, out, log)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    weights = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    (out / "recipe.json").write_text(json.dumps({**asdict(recipe), "sha256": weights}, indent=2) + "\n")


def _endless(pool: list[Example], seed: int) -> Iterator[Example]:
    number = 0
    while True:
        yield pool[int(uniform(seed, "example", number) * len(pool))]
        number += 1
