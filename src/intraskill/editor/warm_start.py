"""The supervised warm start of an editor: edit traces over a domain's train streams, encoded as rollouts see them.

A trace file holds one JSON object per line, ``{"prompt": what the editor reads, "answer": what it should write}``.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

from intraskill.config.config import Config, check
from intraskill.editor.domain import KnowsWorth, Workbench
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import Order
from intraskill.editor.prompt import PromptSize
from intraskill.editor.setup import allowed_actions, editor_environment, limits_of, size_with, workbench_of
from intraskill.editor.states import begin
from intraskill.editor.tiny.traces import Trace, demonstrate, demonstrated
from intraskill.method.errors import ArtifactError, ConfigError, SplitError, offenders
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.method.randomness import shuffled
from intraskill.rl.start import policy_directory
from intraskill.store.json_rows import each_row, object_of
from intraskill.store.run_directory import write_jsonl
from intraskill.store.user_files import MOST_ROWS, read_user_text

Pair = tuple[str, str]
"""A user prompt and the answer to it."""


def synthetic_traces(config: Config, number: int, *, careless: float, root: Path) -> list[Pair]:
    """Return ``number`` demonstrated edits over the domain's train streams, in an order drawn by address.

    Args:
        config: domain, limits, seed, and the policy whose tokenizer measures prompts.
        number: how many.
        careless: share of arbitrary answers.
        root: where the domain may keep files.

    Raises:
        ConfigError: for a domain in which the right answers are not known.
        SplitError: for a domain without train streams.
    """
    check(config)
    workbench = workbench_of(config, root)
    if not isinstance(workbench.domain, KnowsWorth):
        raise ConfigError(
            f"the right edits of editor.domain={config.editor.domain} are not known; give editor sft a "
            "--traces FILE of your own"
        )
    size = _codec_and_size(config, editor_environment(config, workbench.domain.secrets))[1]
    found = islice(_traces(config, workbench, size, careless), number)
    return [(one.state.prompt, one.answer) for one in found]


def _traces(config: Config, workbench: Workbench, size: PromptSize, careless: float) -> Iterator[Trace]:
    """Yield traces of one tour over the train streams after another, without end."""
    domain, limits, seed = workbench.domain, limits_of(config), config.seed
    streams = {stream.id: stream for stream in domain.streams("train")}
    if not streams:
        raise SplitError(f"editor.domain={config.editor.domain} has no train streams; give it more evidence")
    leak_filter = LeakFilter(domain.secrets, config.leak_filter)
    order, tour = cast(Order, config.editor.order), 0
    worth, actions = cast(KnowsWorth, domain), allowed_actions(config.editor.actions)
    shown = False
    while True:
        for stream_id in shuffled(streams, seed, "traces", tour):
            value = worth.value(stream_id)
            chain = begin(streams[stream_id], tour, order=order, seed=seed)
            show = partial(
                demonstrate, value=value, leak_filter=leak_filter, careless=careless, seed=seed, actions=actions
            )
            for trace in demonstrated(chain, domain, limits, size, show):
                shown = True
                yield trace
        if not shown:
            raise ConfigError(f"no edit of editor.actions={', '.join(actions)} fits any train state; allow NOOP")
        tour += 1


def _codec_and_size(config: Config, environment: EditorEnvironment) -> tuple[Any, PromptSize]:
    """Return the chat codec of ``policy.path`` for an environment, and how long its prompts are; loads no weights."""
    from transformers import AutoTokenizer

    from intraskill.rl.chat import ChatCodec

    tokenizer = AutoTokenizer.from_pretrained(policy_directory(config.policy.path), local_files_only=True)
    codec = ChatCodec(tokenizer, environment.tools, system=environment.system)
    return codec, size_with(tokenizer, codec)


def encoded(pairs: Sequence[Pair], codec: Any) -> list[tuple[list[int], list[int]]]:
    """Return token ids (T,) and masks (T,) that are 1 on the answer and its end mark."""
    examples = []
    for prompt, answer in pairs:
        before, own = codec.prompt("", prompt), codec.action(answer)
        examples.append(([*before, *own], [0] * len(before) + [1] * len(own)))
    return examples


def write_traces(path: Path, pairs: Sequence[Pair]) -> None:
    """Write a trace file, whole or not at all."""
    write_jsonl(path, [{"prompt": prompt, "answer": answer} for prompt, answer in pairs])


def read_traces(path: Path) -> list[Pair]:
    """Read a trace file.

    Raises:
        ArtifactError: naming the lines that are no traces, or when there is none.
    """
    pairs, wrong = each_row(read_user_text(path, most=MOST_ROWS), _pair)
    if wrong:
        raise ArtifactError(f"{path} holds lines that are no traces, {offenders(wrong)}; correct or remove them")
    if not pairs:
        raise ArtifactError(f'{path} holds no trace; give at least one {{"prompt": "…", "answer": "…"}}')
    return pairs


def _pair(_: str, row: Any) -> Pair:
    found = object_of(row)
    if set(found) != {"prompt", "answer"} or not all(isinstance(text, str) and text for text in found.values()):
        raise ValueError('it must be {"prompt": "…", "answer": "…"}, two texts that are not empty')
    return found["prompt"], found["answer"]


def codec_of(config: Config) -> Any:
    """Return the chat codec of ``policy.path`` for this config's editor."""
    return _codec_and_size(config, editor_environment(config, Secrets()))[0]
