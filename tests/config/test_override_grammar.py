"""Overrides mean the same on the way to a new run and on a run that exists: both go through Hydra's own grammar."""

from functools import reduce
from typing import Any

import pytest

from intraskill.config.config import Config
from intraskill.config.overrides import compose, override
from intraskill.method.errors import ConfigError

WORDS = {
    "run_dir=runs/a b": "runs/a b",
    "run_dir=runs/100% (sure)": "runs/100% (sure)",
    "coldstart.draft=/x/我的 skill.md": "/x/我的 skill.md",
    "coldstart.draft=null": None,
    "gate.slices=[a,b]": ["a", "b"],
    "grpo.lr=1e-4": 1e-4,
    "proposer.model=on": "on",
    "env.options.title='a: b'": "a: b",
    "env.options.title=a: b": "a: b",
    "env.options.when=2024-01-01": "2024-01-01",
    "env.options.code=010": "010",
    "env.options.half={a: 1}": {"a": 1},
    "env.options.list=[1,2]": [1, 2],
    "policy.template_options.enable_thinking=false": False,
}


def value(config: Config, word: str) -> Any:
    def step(at: Any, name: str) -> Any:
        return at[name] if isinstance(at, dict) else getattr(at, name)

    return reduce(step, word.partition("=")[0].split("."), config)


@pytest.mark.parametrize(("word", "expected"), WORDS.items())
def test_a_word_means_the_same_for_a_new_run_and_for_one_that_exists(word: str, expected: object) -> None:
    base = compose(["+exp=own"])
    for config in (compose(["+exp=own", word]), override(base, [word])):
        assert value(config, word) == expected and type(value(config, word)) is type(expected)


@pytest.mark.parametrize("word", ["gate.tasks=1,2", "gate.slices=[a", "grpo.lr=abc", "gate.slices='[a]'"])
def test_a_word_that_hydra_refuses_is_refused_for_a_run_that_exists_too(word: str) -> None:
    for refused in (lambda: compose(["+exp=own", word]), lambda: override(compose(["+exp=own"]), [word])):
        with pytest.raises(ConfigError):
            refused()
