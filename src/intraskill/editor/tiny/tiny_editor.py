"""The recipe of the tiny editor: edit traces of planted worlds, its own tokenizer, and a supervised warm start.

It reads the terse prompt and answers by naming drafts; it writes no text of its own. A pass over a world's evidence
goes astray now and then, so that clashing, narrow and harmful rules to be mended are as common as for a poor editor,
and what is learnt from is drawn by the kind of the best answer: doing nothing is right in most states of any pass.
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
from intraskill.editor.domains.planted import CASES, TOPICS, PlantedDomain, PlantedRule, Quality, read_rule, rule_chunk
from intraskill.editor.evidence import EvidenceLimits
from intraskill.editor.prompt import TERSE_SYSTEM, PromptSize, numbered
from intraskill.editor.states import EditState, begin
from intraskill.editor.tiny.traces import Trace, any_answer, best_answer, demonstrated, titled_alike
from intraskill.editor.warm_start import Pair, encoded
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.method.randomness import child_seed, shuffled, uniform
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.recipes.fitting import Example, Fit, fit
from intraskill.recipes.tiny_policy import build_model, build_tokenizer
from intraskill.rl.chat import ChatCodec

ABSENT = "missed"
SAYS: dict[Quality, str] = {"general": "slip", "vague": "unclear", "narrow": "one", "harmful": "misled"}
QUALITIES: tuple[Quality, ...] = ("general", "vague", "narrow", "harmful")
_LONGEST = 8


def drill(number: int, seed: int) -> tuple[str, list[Pair]]:
    """Return drill ``number``: what is read, and a line for each topic: the topic, which is given, and what is said."""
    topics = shuffled(TOPICS, seed, "drill", number)
    known, chunks = topics[: _LONGEST - 1], dict[str, Chunk]()
    for k in range(2 + int(uniform(seed, "drill", number, "length") * (_LONGEST - 1))):
        topic, quality, case = (
            items[int(uniform(seed, "drill", number, what, k) * len(items))]
            for what, items in (("topic", known), ("quality", QUALITIES), ("case", CASES))
        )
        chunk = rule_chunk(topic, _quality(quality), int(uniform(seed, "drill", number, "variant", k) * 2), case)
        chunks[chunk.id] = chunk
    skill = Skill("Rules.", tuple(chunks.values()))
    said = {topic: _said(skill, topic) for topic in known}
    absent = [topic for topic in topics if said.get(topic, ABSENT) == ABSENT][:2]
    asked = shuffled([*absent, *(t for t in known if said[t] != ABSENT)], seed, "drill", number, "asked")
    return f"# Skill\n\n{numbered(skill)}\n\n# Evidence", [(topic, said.get(topic, ABSENT)) for topic in asked]


def encoded_drill(number: int, seed: int, codec: ChatCodec, tokenizer: PreTrainedTokenizerFast) -> Example:
    """Return a drill's token ids (T,) and a mask (T,) that is 1 on what it asks for; the topics are given."""
    prompt, lines = drill(number, seed)
    ids = list(codec.prompt("", prompt))
    mask = [0] * len(ids)
    for topic, said in lines:
        for text, own in ((f"\n{topic.capitalize()}", 0), (f" {said}", 1)):
            tokens = tokenizer.encode(text, add_special_tokens=False)
            ids += tokens
            mask += [own] * len(tokens)
    return ids, mask


def _quality(name: str) -> Quality:
    return next(quality for quality in QUALITIES if quality == name)


def _said(skill: Skill, topic: str) -> str:
    rules = [(n, rule) for n, chunk in enumerate(skill.chunks, 1) if _about(rule := read_rule(chunk), topic)]
    return " ".join(f"{n} {SAYS[rule.quality]}" for n, rule in rules if rule is not None) or ABSENT


def _about(rule: PlantedRule | None, topic: str) -> bool:
    return rule is not None and rule.topic == topic


LEAK_FILTER = LeakFilter(Secrets())
SHARES = {"CREATE": 0.2, "UPDATE": 0.15, "MERGE": 0.15, "PRUNE": 0.15, "NOOP": 0.35}
WORDS = "system\nuser\nassistant\nCREATE\nUPDATE\nMERGE\nPRUNE\nNOOP\ndraft\nmissed\nslip\nunclear\nmisled\none"


@dataclass(frozen=True, slots=True)
class EditorRecipe(Fit):
    """Everything that determines the weights; those of `Fit` are documented there.

    Attributes:
        traces: distinct demonstrations, drawn again and again.
        careless: share of arbitrary answers among them.
        astray: share of steps after which a pass goes on with an arbitrary edit.
        evidence: pieces of evidence read per edit; every pass has one of these.
        drills: share of reading drills among what is learnt from, at the start; it falls to 0 at the end.
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
    traces: int = 16000
    careless: float = 0.1
    astray: float = 0.4
    evidence: tuple[int, ...] = (1, 1, 2, 4)
    drills: float = 0.7
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SHARES))
    world: int = 1000
    seed: int = 0


def traces(
    world: int, number: int, *, careless: float, astray: float, evidence: Sequence[int], seed: int
) -> Iterator[Trace]:
    """Yield ``number`` demonstrations over planted worlds."""
    units = PlantedDomain().units
    domain = PlantedDomain(seed=world, worlds=-(-number // (units // max(evidence))))
    shown: Iterator[Trace] = (
        trace for stream in domain.streams("train") for trace in _pass(domain, stream, careless, astray, evidence, seed)
    )
    return islice(shown, number)


def _pass(
    domain: PlantedDomain, stream: Stream, careless: float, astray: float, evidence: Sequence[int], seed: int
) -> Iterator[Trace]:
    size = evidence[int(uniform(seed, "evidence", stream.id) * len(evidence))]
    value, chain = domain.value(stream.id), begin(stream, 0, order="source", seed=seed)

    def show(state: EditState) -> Trace:
        best = best_answer(state, value, LEAK_FILTER, possible=titled_alike)
        label, move = best, best
        if uniform(seed, "careless", state.id) < careless:
            label = any_answer(state, LEAK_FILTER, child_seed(seed, "careless")) or best
        if uniform(seed, "astray", state.id) < astray:
            move = any_answer(state, LEAK_FILTER, child_seed(seed, "astray")) or best
        return Trace(state, label[0], move[1].skill, best[0])

    return demonstrated(chain, domain, EvidenceLimits(batch=size), PromptSize(_words), show)


def train(recipe: EditorRecipe, out: Path, log: Callable[[dict[str, float]], None]) -> None:
    """Run the whole recipe and write tokenizer, weights, ``recipe.json`` and ``training.jsonl`` into ``out``.

    Args:
        recipe: every option.
        out: directory, made when missing.
        log: called with each logged row.
    """
    options = {"careless": recipe.careless, "astray": recipe.astray}
    found = list(traces(recipe.world, recipe.traces, **options, evidence=recipe.evidence, seed=recipe.seed))
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
        left = 1 - number / (recipe.steps * recipe.batch)
        if uniform(recipe.seed, "drill", number) < recipe.drills * left:
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
