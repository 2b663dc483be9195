"""Options of whoever proposes candidate edits, a trained editor among them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from intraskill.config.option import option


@dataclass
class ProposerConfig:
    """Who proposes candidate edits: the rules or an LLM of Trace2Skill, or a trained editor of Skill-α."""

    name: str = option("rules", "rules, an LLM, an editor, nobody", "", ("rules", "openai", "skill_alpha", "none"))
    max_candidates: int = option(6, "most edits that one gate tests", "[0, 64]")
    stay_away_rounds: int = option(2, "rounds for which a losing edit may not return", "[0, 1000]")
    max_calls: int = option(100, "most rollouts that an LLM or editor reads per round; failures come first", "[1, inf)")
    max_decisions: int = option(20, "most decisions of an LLM's live trial of its fix of one failure", "[1, 1000]")
    editor: str | None = option(None, "who edits for skill_alpha: a run of intraskill editor train, or tiny_editor")
    drafts: bool | None = option(None, "an editor gets the rules proposer's texts as drafts; null = if editor.terse")
    language: str = option("auto", "of an LLM's prompts; auto: the environment's", choices=("auto", "en", "zh"))
    base_url: str = option("http://127.0.0.1:8000/v1", "OpenAI-compatible endpoint")
    model: str = option("", "model name at the endpoint")
    api_key_env: str = option("OPENAI_API_KEY", "environment variable that holds the key; the key is never written")
    concurrency: int = option(4, "most answers awaited at once", "[1, 256]")
    timeout_s: float = option(120.0, "longest wait for one answer, seconds", "(0, 86400]")
    retries: int = option(4, "further attempts after a time-out, a dropped connection, 429 or 5xx", "[0, 100]")
    max_answer_tokens: int = option(4096, "longest answer, tokens", "[16, inf)")
    temperature: float = option(0.0, "sampling temperature of the answers", "[0, 2]")
    structured: str = option("auto", "send the schema: auto = until the server refuses it", "", ("auto", "on", "off"))
    stream: bool = option(False, "read answers token by token, for gateways that cut long silences")
    budget_tokens: int = option(0, "most tokens that a run reads and writes at the endpoint; 0 = no limit", "[0, inf)")
    budget_cost: float = option(
        0.0, "most money that a run spends, in the unit of the prices; 0 = no limit", "[0, inf)"
    )
    price_in: float = option(0.0, "price of a million tokens read", "[0, inf)")
    price_out: float = option(0.0, "price of a million tokens written", "[0, inf)")


WHERE_AND_HOW_MUCH = (
    *("base_url", "api_key_env", "concurrency", "timeout_s", "retries", "stream"),
    *("budget_tokens", "budget_cost", "price_in", "price_out"),
)
"""Options that change no answer, so that a run may go on with other ones."""


def contradictions(proposer: ProposerConfig) -> Iterator[tuple[bool, str]]:
    """Yield whether two options contradict each other, and what to say then."""
    name, edits = proposer.name, proposer.name == "skill_alpha"
    yield (name == "openai" and not proposer.model, "proposer.name=openai needs proposer.model")
    yield (
        edits and not proposer.editor,
        "proposer.name=skill_alpha needs proposer.editor: the directory of an intraskill editor run, or tiny_editor",
    )
    yield (
        proposer.editor is not None and not edits,
        f"proposer.editor={proposer.editor} is asked by proposer.name=skill_alpha only, and proposer.name={name}; "
        "set proposer.name=skill_alpha, or leave proposer.editor out",
    )


ACTIONS = ["CREATE", "UPDATE", "MERGE", "PRUNE", "NOOP"]
_REWARDS = ("binary", "margin", "plain")


@dataclass
class EditorConfig:
    """How a skill editor is trained and used; G, batch, losses and sampling stand under grpo and rollout."""

    domain: str = option("planted", "planted, shop, documents, workbooks, dialogues, or 'package.module:factory'")
    options: dict[str, Any] = option({}, "further arguments of the domain's factory: where files are, which worker, …")
    steps: int = option(100, "optimizer steps", "[0, inf)")
    anchors: int = option(1, "queries that each edit is tried on", "[1, 64]")
    reward: str = option("binary", "binary = as published, margin = the difference, plain = no rollback", "", _REWARDS)
    actions: list[str] = option(ACTIONS, "actions that an editor may take")
    batch: int = option(4, "most pieces of evidence read per edit", "[1, 64]")
    view_steps: int = option(8, "most steps of a trajectory's view", "[1, inf)")
    characters: int = option(3000, "most characters of one piece of evidence", "[40, inf)")
    prompt_tokens: int = option(8192, "most tokens of the editor's prompt", "[64, inf)")
    order: str = option("source", "order of the evidence", choices=("source", "shuffled", "reverse"))
    terse: bool = option(False, "no instructions in the prompt, for an editor that was trained on the bare format")
    follow: str = option(
        "sampled", "whose edit a pass goes on with: any valid one, or the best", "", ("sampled", "best")
    )
    eval_streams: int = option(24, "held-out streams compiled and compared at the end; 0 = none", "[0, inf)")
    eval_repeats: int = option(1, "answers per held-out query", "[1, 100]")
