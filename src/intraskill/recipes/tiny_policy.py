"""The recipe of the tiny policy: its tokenizer, its model, its supervised warm start, and whether it reads the skill.

A policy that reads agrees with the rule-obeying shopper for held-out phrasings too, and stays with the rule-free
shopper when a chunk is negated, shuffled or meaningless.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.plain.difficulty import play
from intraskill.environments.shopworld.plain.generate import BRANDS, COLORS, DOMAINS
from intraskill.environments.shopworld.session import SYSTEM
from intraskill.method.gate.pairs import MAIN_PART
from intraskill.method.randomness import child_seed, uniform
from intraskill.method.rollouts import Episode
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.method.tasks import Task
from intraskill.recipes.demonstrations import (
    Demonstration,
    Draw,
    Mix,
    demonstrate,
    draw_chunk,
    negated_chunk,
    shuffled_chunk,
)
from intraskill.recipes.fitting import Fit, fit
from intraskill.rl.chat import ChatCodec
from intraskill.rl.learner import Learner

_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_SKELETONS = (
    '<tool_call>\n{"name": "search", "arguments": {"query": "',
    '<tool_call>\n{"name": "click", "arguments": {"value": "',
    '"}}\n</tool_call>',
)
_WORDS = sorted(
    {*BRANDS, *COLORS}
    | {word for d in DOMAINS for group in (d.aisles, d.facets) for words in group.values() for word in words}
    | {size for d in DOMAINS for size in d.sizes}
)
_FIXED_TEXTS = [SYSTEM, "system\nuser\nassistant\ntool\n# Tools\nsearch(query)\nclick(value)", "\n".join(_WORDS)]
_CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content }}"
    "{%- if loop.first and tools %}"
    "{{- '\\n\\n# Tools' }}"
    "{%- for tool in tools %}{{- '\\n' + tool.function.name + '(' }}"
    "{{- tool.function.parameters.properties | list | join(', ') }}{{- ')' }}{%- endfor %}"
    "{%- endif %}"
    "{{- '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


@dataclass(frozen=True, slots=True)
class Recipe(Fit):
    """Everything that determines the weights.

    Attributes:
        worlds: seeds of the training worlds; none is a world that experiments use (those are below 100).
    """

    mix: Mix = field(default_factory=Mix)
    vocabulary: int = 1280
    page_size: int = 4
    worlds: tuple[int, ...] = (101, 102, 103, 104, 105, 106)


def demonstrations(recipe: Recipe, worlds: Sequence[ShopWorld]) -> Iterator[Demonstration]:
    """Yield an endless, addressed stream."""
    pools = [[task.id for task in world.tasks("train")] for world in worlds]
    number = 0
    while True:
        k = int(uniform(recipe.seed, "world", number) * len(worlds))
        task_id = pools[k][int(uniform(recipe.seed, "task", number) * len(pools[k]))]
        yield demonstrate(worlds[k], task_id, recipe.mix, child_seed(recipe.seed, "demo", number))
        number += 1


def build_tokenizer(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE: whole words, pairs of digits, and one token for each fixed part of a tool call."""
    tokenizer = Tokenizer(models.BPE())
    # A word is one token wherever it stands (after a blank, an equals sign, a line break, or first): a small model
    # then copies it from page to action without learning that " red" and "red" are the same word.
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Prepend(" "),
            normalizers.Replace(Regex(r"^ (?![A-Za-z])"), ""),
            normalizers.Replace(Regex(r"\n(?=[A-Za-z])"), "\n "),
            normalizers.Replace(Regex(r"=(?=[A-Za-z])"), "= "),
        ]
    )
    words = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+|[0-9]{2}|[0-9]|\n+| ?[^\sA-Za-z0-9]+|\s"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    undo = decoders.Replace(Regex(r'(?<=["=\n]) (?=[A-Za-z])|^ (?=[A-Za-z])'), "")
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), undo])
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(_SKELETONS),
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in _SKELETONS])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_SPECIAL[2], pad_token=_SPECIAL[0])
    fast.chat_template = _CHAT_TEMPLATE
    return fast


def build_model(recipe: Fit, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return a randomly initialised model; the global generator is seeded here and nowhere else."""
    torch.manual_seed(recipe.seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads // 2,
        head_dim=recipe.hidden // recipe.heads,
        intermediate_size=3 * recipe.hidden,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def encode(demo: Demonstration, codec: ChatCodec) -> tuple[list[int], list[int]]:
    """Return token ids (T,) and a mask (T,) that is 1 on the assistant's tokens and their end mark.

    The codec is the one that rollouts use, so a demonstration is token-exact with what the policy will see.
    """
    first, *rest = demo.messages
    ids = list(codec.prompt(demo.skill_text, first["content"]))
    mask = [0] * len(ids)
    for message in rest:
        own = message["role"] == "assistant"
        tokens = codec.action(message["content"]) if own else codec.observation(message["content"])
        ids.extend(tokens)
        mask.extend([int(own)] * len(tokens))
    return ids, mask


def train(recipe: Recipe, out: Path, log: Callable[[dict[str, float]], None], start: Path | None = None) -> None:
    """Run the whole recipe and write tokenizer, weights, ``recipe.json`` and ``training.jsonl`` into ``out``.

    Args:
        recipe: every option.
        out: directory, made when missing.
        log: called with each logged row.
        start: a directory that an earlier call wrote, to continue from its weights and tokenizer.
    """
    worlds = [ShopWorld("small", seed, page_size=recipe.page_size, language="plain") for seed in recipe.worlds]
    if start is None:
        tokenizer = _new_tokenizer(recipe, worlds)
        model = build_model(recipe, tokenizer)
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(start)
        model = Qwen3ForCausalLM.from_pretrained(start, dtype=torch.float32)
    codec = ChatCodec(tokenizer, worlds[0].tools, system=SYSTEM)
    examples = (encode(demo, codec) for demo in demonstrations(recipe, worlds))
    fit(model, examples, recipe, out, log)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    before = json.loads((start / "recipe.json").read_text()) if start else None
    hashes = {"sha256": hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest(), "start": before}
    (out / "recipe.json").write_text(json.dumps({**asdict(recipe), **hashes}, indent=2) + "\n")


def _new_tokenizer(recipe: Recipe, worlds: Sequence[ShopWorld]) -> PreTrainedTokenizerFast:
    stream = demonstrations(recipe, worlds)
    sample = [next(stream) for _ in range(600)]
    texts = [demo.skill_text for demo in sample] + [m["content"] for demo in sample for m in demo.messages]
    return build_tokenizer([*texts, *(_FIXED_TEXTS * 40)], recipe.vocabulary)


@dataclass(frozen=True, slots=True)
class Probe:
    """One question.

    Attributes:
        name: what is shown.
        shown: rules whose chunks are shown.
        obeyed: rules that a reader follows.
        form: ``train`` or ``held_out`` phrasings, ``negated`` or ``shuffled`` ones.
    """

    name: str
    shown: tuple[str, ...]
    obeyed: tuple[str, ...]
    form: str = "held_out"


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """Agreement of N episodes.

    Attributes:
        same_episode: share of episodes whose every action is the shopper's.
        same_search: share whose first query is the shopper's.
        reward: mean reward of the policy.
        shopper_reward: mean reward of the shopper on the same tasks.
        episodes: N.
    """

    same_episode: float
    same_search: float
    reward: float
    shopper_reward: float
    episodes: int


def ask(learner: Learner, world: ShopWorld, probe: Probe, tasks: Sequence[Task]) -> ProbeAnswer:
    """Run one episode per task; a temperature near 0 gives the sharpest answer."""
    episodes = []
    for number, task in enumerate(tasks):
        draw = Draw(child_seed(0, "probe", probe.name, number))
        skill = Skill("# Shopping skill", tuple(_chunk(rule, probe.form, draw) for rule in probe.shown))
        episodes.append(Episode(task, skill, frozenset(skill.ids), 0, child_seed(0, task.id)))
    rollouts = learner.run(episodes)
    wanted = [play(world, task.id, set(probe.obeyed)) for task in tasks]
    taken = [[turn.argument for turn in rollout.turns] for rollout in rollouts]
    return ProbeAnswer(
        same_episode=fmean(own == actions for own, (actions, _) in zip(taken, wanted, strict=True)),
        same_search=fmean(own[:1] == actions[:1] for own, (actions, _) in zip(taken, wanted, strict=True)),
        reward=fmean(rollout.reward or 0.0 for rollout in rollouts),
        shopper_reward=fmean(parts[MAIN_PART] for _, parts in wanted),
        episodes=len(tasks),
    )


def _chunk(rule: str, form: str, draw: Draw) -> Chunk:
    if form == "negated":
        return negated_chunk(rule, draw)
    if form == "shuffled":
        return shuffled_chunk(rule, draw)
    return draw_chunk(rule, draw, held_out=form == "held_out")
