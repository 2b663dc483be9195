"""The analysts' prompts: files in one folder per language, versioned by the hash of their content."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import Template

from intraskill.environments.protocol import Environment
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash

LANGUAGES = ("en", "zh")
NAMES = (
    "chunk_rules",
    "evidence",
    "success_analyst",
    "failure_analyst",
    "failure_trial",
    "trial_page",
    "failure_lesson",
    "reduce",
)


@dataclass(frozen=True)
class Prompts:
    """The prompts of one language.

    Attributes:
        language: ``en`` or ``zh``.
        texts: name → text with ``$placeholders``; ``$chunk_rules`` stands for the prompt of that name.
    """

    language: str
    texts: Mapping[str, str]

    @property
    def hash(self) -> str:
        """Hash of every text; a run is bound to it."""
        return content_hash(self.language, dict(self.texts))

    def fill(self, name: str, **values: object) -> str:
        """Return a prompt with its placeholders filled; ``$`` in a value stays as it is.

        Raises:
            KeyError: when a placeholder has no value.
        """
        filled = Template(self.texts[name]).substitute(values, chunk_rules=self.texts["chunk_rules"].strip())
        return filled.strip()


@lru_cache
def load_prompts(language: str) -> Prompts:
    """Read the prompts of a language from the package.

    Raises:
        ConfigError: for a language without prompts.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"there are no prompts in {language!r}; choose proposer.language from {', '.join(LANGUAGES)}")
    return Prompts(language, {name: prompt_text(name, language) for name in NAMES})


@lru_cache
def prompt_text(name: str, language: str) -> str:
    """Return one prompt file of the package, placeholders and all."""
    return (files("intraskill") / "prompts" / language / f"{name}.md").read_text(encoding="utf-8")


def language_of(environment: Environment, wanted: str = "auto") -> str:
    """Return ``wanted``, or for ``auto`` Chinese where the environment's pages are, else English."""
    if wanted != "auto":
        return wanted
    return "zh" if getattr(getattr(environment, "settings", None), "language", "") == "zh" else "en"
