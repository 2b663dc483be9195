"""A tiny textual environment and a tiny random Qwen3 with its own trained tokenizer."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from intraskill.config.config import Config
from intraskill.environments.protocol import Opening, Outcome
from intraskill.method.errors import EnvironmentFault
from intraskill.method.randomness import child_seed, uniform
from intraskill.method.rollouts import Episode, Group, GroupResult, Rollout
from intraskill.method.skill.skill import BARE, Chunk, Skill, Visible
from intraskill.method.tasks import Split, Task
from intraskill.rl.logprobs import TokenLogprobs, batch_logprobs
from intraskill.rl.policy import Policy

WORDS = ("red lamp", "blue chair", "green desk", "black mug", "white shoe")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "say",
            "description": "Say a word.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]
SKILL = Skill("# Skill", (Chunk("Be short", "Say one short word."), Chunk("Be kind", "Choose the red lamp.")))

TEMPLATE = """{%- for message in messages %}
{%- if message.role == 'system' %}{{- '<|im_start|>system\n' + message.content }}
{%- for tool in tools or [] %}{{- '\n' + (tool | tojson) }}{%- endfor %}{{- '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content }}
{%- for call in message.tool_calls or [] %}
{%- set f = call.function %}
{{- '<tool_call>\n{"name": "' + f.name + '", "arguments": ' + (f.arguments | tojson) + '}\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""


class CountingSession:
    """Counts the vowels in what the policy says, for up to four actions of one task."""

    def __init__(self, version: str) -> None:
        self.version, self.said, self.task_id, self.done = version, [], "", False

    def reset(self, task_id: str) -> Opening:
        if task_id == "broken-reset":
            raise EnvironmentFault("the catalogue is gone")
        self.task_id = task_id
        return Opening(f"Find the {WORDS[len(task_id) % 5]}.", None, self.page(), self.state())

    def page(self) -> str:
        turn = len(self.said)
        listed = ", ".join(WORDS[int(uniform(0, self.task_id, turn, i) * 5)] for i in range(1 + 3 * (turn % 2)))
        return f"Page {turn}: {listed}"

    def state(self) -> dict[str, object]:
        return {"page_type": "home" if not self.said else "results", "turn": len(self.said)}

    def step(self, action: str) -> Outcome:
        if self.done:
            raise RuntimeError("the episode is over")
        if self.task_id == "broken-step":
            raise KeyError("slot 3")
        self.said.append(action)
        self.done = len(self.said) == 1 + len(self.task_id) % 4
        reward = sum(text.count(vowel) for text in self.said for vowel in "aeiou") / 100 if self.done else 0.0
        parts = {"r_vowels": reward} if self.done else {}
        ending = "purchase" if self.done else ""
        return Outcome(self.page(), self.state(), "executed", "say", action[:5], self.done, reward, parts, ending)

    def terminate(self, reason: str) -> Outcome:
        if self.done:
            raise RuntimeError("the episode is over")
        self.done = True
        return Outcome("", self.state(), reason, "", "", True, 0.0, {"r_vowels": 0.0}, reason)


class CountingWorld:
    """An environment whose tasks differ in length; two of them break."""

    system = "You are a shopping agent."  # what its tokenizer was trained on
    family = "counting"
    tools = TOOLS
    reward_parts = ("r_vowels",)

    def __init__(self, version: str = "counting-1") -> None:
        self.version = version

    def tasks(self, split: Split) -> tuple[Task, ...]:
        return tuple(task(f"{split}{'x' * i}", split) for i in range(8))

    def open(self) -> CountingSession:
        return CountingSession(self.version)


def config_of(**options: Any) -> Config:
    """A config with some options set, each in the section that declares it: policy, grpo, rollout, or the whole."""
    config = Config()
    for name, value in options.items():
        (owner,) = [
            section for section in (config, config.policy, config.grpo, config.rollout) if hasattr(section, name)
        ]
        setattr(owner, name, value)
    return config


def logprobs_of(policy: Policy, rollouts: Sequence[Rollout], **options: Any) -> TokenLogprobs:
    """`batch_logprobs` of the dense layout at temperature 1, unless told otherwise."""
    plain = {"temperature": 1.0, "layout": "dense", "checkpoint_activations": False}
    return batch_logprobs(policy, rollouts, **plain | options)


def task(task_id: str, split: Split = "train") -> Task:
    return Task(task_id, "counting", split)


def episode(task_id: str, sample: int = 0, visible: Visible = BARE) -> Episode:
    return Episode(task(task_id), SKILL, visible, sample, child_seed(7, task_id, sample, tuple(sorted(visible))))


def group_of(rollouts: Sequence[Rollout], index: int = 0) -> GroupResult:
    first = rollouts[0]
    group = Group(f"r000/s0000/g{index:02d}", 0, 0, index, task(first.task_id), "assisted", first.visible)
    return GroupResult(group, tuple(rollouts))


@functools.cache
def tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    corpus = [f"Find the {word}. Page 0: {word}, {word}" for word in WORDS]
    corpus += [SKILL.render(), json.dumps(TOOLS), "system user assistant You are a shopping agent. <tool_response>"]
    words.train_from_iterator(corpus * 4, trainer)
    loaded = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    loaded.chat_template = TEMPLATE
    return loaded


def write_model(
    directory: Path, *, seed: int = 0, hidden: int = 32, vocabulary: int = 512, layers: int = 2, ending: float = 4.0
) -> Path:
    """Save a random Qwen3 with grouped keys and its tokenizer."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    words = tokenizer()
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=hidden // 4,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
        # Random weights give flat distributions, which would hide errors: sharpen them. Coordinate 0 is a constant
        # that no layer writes to, so that it can raise the logit of the EOS token and make answers end.
        for name, parameter in model.named_parameters():
            if parameter.ndim == 2:
                parameter.data.mul_(8)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.data[0] = 0.0
        table = model.model.embed_tokens.weight.data
        table[:, 0] = 1.0
        constant = model.model(torch.arange(5, 50)[None]).last_hidden_state[0, :, 0].mean().item()
        table[words.eos_token_id, 0] += ending / constant
    words.save_pretrained(directory)
    model.save_pretrained(directory)
    return directory
