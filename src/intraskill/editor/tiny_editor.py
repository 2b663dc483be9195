"""The recipe of the tiny editor: edit traces of planted worlds, its own tokenizer, and a supervised warm start.

It reads the terse prompt and answers by naming drafts; it writes no text of its own. Its demonstrator knows the format
and what the evidence is about, and not what an edit is worth to the worker: that is left to the reward, as it is for
the published warm start, whose synthetic traces no worker has tried. A pass over a world's evidence goes astray now and
then, so that clashing, narrow and harmful rules to be mended are as common as for a poor editor, and what is learnt
from is drawn by the kind of the best answer: doing nothing is right in most states of any pass.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, islice
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast

from intraskill.editor.domain import Stream
from intraskill.editor.domains.planted import PlantedDomain
from intraskill.editor.domains.planted_rules import read_rule
from intraskill.editor.drills import encoded_drill
from intraskill.editor.prompt import TERSE_SYSTEM, PromptSize
from intraskill.editor.states import EditState, begin
from intraskill.editor.traces import Trace, any_answer, best_answer, demonstrated, titled_alike
from intraskill.editor.warm_start import encoded
from intraskill.method.editor_actions import ActionName, parse_action
from intraskill.method.evidence import EvidenceLimits
from intraskill.method.firewall import Firewall, Secrets
from intraskill.method.randomness import uniform
from intraskill.method.skill import Chunk, Skill
from intraskill.runtime.chat import ChatCodec
from intraskill.runtime.fitting import Example, Fit, fit
from intraskill.runtime.warm_start import build_model, build_tokenizer

FIREWALL = Firewall(Secrets())
SHARES = {"CREATE": 0.2, "UPDATE": 0.15, "MERGE": 0.15, "PRUNE": 0.15, "NOOP": 0.35}
ASKED = {
    "missed": ("CREATE",),
    "unclear": ("UPDATE", "CREATE"),
    "misled": ("UPDATE", "CREATE", "PRUNE"),
    "clash": ("MERGE", "UPDATE", "CREATE"),
    "slip": ("CREATE",),
}
"""Feedback → the kinds of action that it asks for, the next one where no answer of the first fits."""
WORDS = "system\nuser\nassistant\nCREATE\nUPDATE\nMERGE\nPRUNE\nNOOP\ndraft\nmissed\nslip\nunclear\nmisled\none"


@dataclass(frozen=True, slots=True)
class EditorRecipe(Fit):
    """Everything that determines the weights; those of `Fit` are documented there.

    Attributes:
        traces: distinct demonstrations, drawn again and again.
        astray: share of steps after which a pass goes on with an arbitrary edit.
        blind: share of answers that do not do what the feedback asks for.
        evidence: pieces of evidence read per edit; every pass has one of these.
        drills: share of reading drills among what is learnt from.
        shares: how often a demonstration is drawn by the kind of its state's best answer.
        world: seed of the planted worlds; experiments use seeds 0 to 9, probes 10.
    """

    steps: int = 4000
    batch: int = 8
    micro_tokens: int = 4000
    threads: int = 1
    learning_rate: float = 2e-3
    muon_rate: float = 0.02
    auxiliary: float = 1.0
    vocabulary: int = 640
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    traces: int = 12000
    astray: float = 0.4
    blind: float = 0.4
    evidence: tuple[int, ...] = (1, 1, 2, 4)
    drills: float = 0.5
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    world: int = 1000
    seed: int = 0


def traces(
    world: int, number: int, *, astray: float, blind: float, evidence: Sequence[int], seed: int
) -> Iterator[Trace]:
    """Yield ``number`` demonstrations over planted worlds."""
    units = PlantedDomain().units
    domain = PlantedDomain(seed=world, worlds=-(-number // (units // max(evidence))))
    shown: Iterator[Trace] = (
        trace for stream in domain.streams("train") for trace in _pass(domain, stream, astray, blind, evidence, seed)
    )
    return islice(shown, number)


def shown_answer(state: EditState, blind: float, seed: int) -> str:
    """Return a valid answer of the demonstrator: it does what the feedback asks for, or with share ``blind`` anything.

    *missed* asks for a CREATE, *unclear* and *misled* for an UPDATE, *clash* for a MERGE, *slip* for the draft that
    comes with it; anything is any kind of action on the topics of failed tasks. Which draft, and whether the skill has
    been mended since, plays no part. Nothing failed, nothing is done.
    """
    failed = {unit.id.split("/")[1]: unit for unit in state.units if unit.anchors}

    def apt(skill: Skill, drafts: Sequence[Chunk], actions: Sequence[ActionName]) -> Iterator[str]:
        for answer in titled_alike(skill, drafts, actions):
            touched = [skill.chunks[n - 1] for n in parse_action(answer, drafts=drafts, actions=actions).targets]
            if all((rule := read_rule(chunk)) is not None and rule.topic in failed for chunk in touched):
                yield answer

    def asked(skill: Skill, drafts: Sequence[Chunk], actions: Sequence[ActionName]) -> Iterator[str]:
        """Answers of the kind that some feedback asks for, with the nearest kind where that one does not fit."""
        fitting = [answer for answer in apt(skill, drafts, actions) if answer != "NOOP"]
        for topic, unit in failed.items():
            code = unit.text.split(" -> ")[1].split()[0]
            about = [one for one in fitting if _about(one, skill, drafts) == topic or code == "slip"]
            for kind in ASKED[code]:
                if found := [one for one in about if one.startswith(kind)]:
                    yield from found
                    break

    possible = apt if uniform(seed, "blind", state.id) < blind else asked
    found = any_answer(state, FIREWALL, seed, possible=possible)
    return found[0] if found else "NOOP"


def _about(answer: str, skill: Skill, drafts: Sequence[Chunk]) -> str:
    """Return the topic of an answer: of the draft that it names, or of the rule that it drops."""
    action = parse_action(answer, drafts=drafts)
    rule = read_rule(action.chunk or skill.chunks[action.targets[0] - 1])
    return "" if rule is None else rule.topic


def _pass(
    domain: PlantedDomain, stream: Stream, astray: float, blind: float, evidence: Sequence[int], seed: int
) -> Iterator[Trace]:
    size = evidence[int(uniform(seed, "evidence", stream.id) * len(evidence))]
    value, chain = domain.value(stream.id), begin(stream, 0, order="source", seed=seed)

    def show(state: EditState) -> Trace:
        best, made = best_answer(state, value, FIREWALL, possible=titled_alike)
        if uniform(seed, "astray", state.id) < astray and (move := any_answer(state, FIREWALL, seed)) is not None:
            made = move[1]
        return Trace(state, shown_answer(state, blind, seed), made.skill, best)

    return demonstrated(chain, domain, EvidenceLimits(batch=size), PromptSize(_words), show)


def train(recipe: EditorRecipe, out: Path, log: Callable[[dict[str, float]], None]) -> None:
    """Run the whole recipe and write tokenizer, weights, ``recipe.json`` and ``training.jsonl`` into ``out``.

    Args:
        recipe: every knob.
        out: directory, made when missing.
        log: called with each logged row.
    """
    knobs = {"astray": recipe.astray, "blind": recipe.blind}
    found = list(traces(recipe.world, recipe.traces, **knobs, evidence=recipe.evidence, seed=recipe.seed))
    texts = [f"{one.state.prompt}\n{one.answer}" for one in found]
    tokenizer = build_tokenizer([*texts, *([TERSE_SYSTEM, WORDS] * 40)], recipe.vocabulary)
    model = build_model(recipe, tokenizer)
    codec = ChatCodec(tokenizer, (), system=TERSE_SYSTEM)
    fit(model, _endless(found, codec, tokenizer, recipe), recipe, out, log)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    sha256 = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    (out / "recipe.json").write_text(json.dumps({**asdict(recipe), "sha256": sha256}, indent=2) + "\n")


def _endless(
    found: Sequence[Trace], codec: ChatCodec, tokenizer: PreTrainedTokenizerFast, recipe: EditorRecipe
) -> Iterator[Example]:
    pools: dict[str, list[Trace]] = {}
    for one in found:
        pools.setdefault(one.best.split()[0], []).append(one)
    for number in count():
        if uniform(recipe.seed, "drill", number) < recipe.drills:
            yield encoded_drill(number, recipe.seed, codec, tokenizer)
            continue
        pool = pools[_drawn(recipe.shares, uniform(recipe.seed, "kind", number))]
        one = pool[int(uniform(recipe.seed, "example", number) * len(pool))]
        yield encoded([(one.state.prompt, one.answer)], codec)[0]


def _drawn(shares: Mapping[str, float], draw: float) -> str:
    """Return the name whose part of [0, 1) holds ``draw``."""
    for name, share in shares.items():
        if draw < share:
            return name
        draw -= share
    return name


def _words(text: str) -> int:
    return len(text.split())
