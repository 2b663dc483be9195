"""The knobs of a skill editor (Skill-α); free of heavy imports, so that a configuration can be read."""

from dataclasses import dataclass
from typing import Any

from intraskill.runtime.knobs import knob

ACTIONS = ["CREATE", "UPDATE", "MERGE", "PRUNE", "NOOP"]
_REWARDS = ("binary", "margin", "plain")


@dataclass
class EditorConfig:
    """How a skill editor is trained and used; G, batch, losses and sampling stand under grpo and rollout."""

    domain: str = knob("planted", "planted, shop, documents, workbooks, dialogues, or 'package.module:factory'")
    options: dict[str, Any] = knob({}, "further arguments of the domain's factory: where files are, which worker, …")
    steps: int = knob(100, "optimizer steps", "[0, inf)")
    anchors: int = knob(1, "queries that each edit is tried on", "[1, 64]")
    reward: str = knob("binary", "binary = as published, margin = the difference, plain = no rollback", "", _REWARDS)
    actions: list[str] = knob(ACTIONS, "actions that an editor may take")
    batch: int = knob(4, "most pieces of evidence read per edit", "[1, 64]")
    view_steps: int = knob(8, "most steps of a trajectory's view", "[1, inf)")
    characters: int = knob(3000, "most characters of one piece of evidence", "[40, inf)")
    prompt_tokens: int = knob(8192, "most tokens of the editor's prompt", "[64, inf)")
    order: str = knob("source", "order of the evidence", choices=("source", "shuffled", "reverse"))
    terse: bool = knob(False, "no instructions in the prompt, for an editor that was trained on the bare format")
    follow: str = knob("sampled", "whose edit a pass goes on with: any valid one, or the best", "", ("sampled", "best"))
    eval_streams: int = knob(24, "held-out streams compiled and compared at the end; 0 = none", "[0, inf)")
    eval_repeats: int = knob(1, "answers per held-out query", "[1, 100]")
