"""One rollout as the analysts read it: the skill, the request, a numbered log, the outcome; all of it public.

What a policy wrote and what a page showed is quoted as JSON without angle brackets, so that nothing in it can pass
for a part of the conversation.
"""

import json
from collections.abc import Mapping
from typing import Any

from intraskill.environments.leaks import is_private_key
from intraskill.method.rollouts import Rollout
from intraskill.method.skill import Skill
from intraskill.runtime.prompts import Prompts

MAX_PAGE_CHARS = 1500
MAX_ACTION_CHARS = 200
_SEEN_ALREADY = ("page_type", "actions", "last_action", "search_available")


def describe(rollout: Rollout, skill: Skill, prompts: Prompts) -> str:
    """Return the question about one rollout."""
    parts = ", ".join(f"{name}={value:g}" for name, value in sorted(rollout.parts.items()))
    outcome = f"reward {rollout.reward or 0.0:g}" + (f"; {parts}" if parts else "")
    return prompts.fill(
        "evidence",
        skill=describe_skill(skill, rollout),
        request=quoted(rollout.request),
        log="\n".join(_log(rollout)) or "(no action)",
        outcome=outcome + ("; cut off by a limit" if rollout.truncated else ""),
    )


def describe_skill(skill: Skill, rollout: Rollout | None = None) -> str:
    """Return every chunk with its id, and whether the rollout was shown it."""
    shown = frozenset() if rollout is None else rollout.visible
    chunks = [f"[{c.id}]{' (shown)' if c.id in shown else ''} {c.title}\n{c.body}" for c in skill.chunks]
    return "\n\n".join(chunks) or "(empty)"


def quoted(value: Any, limit: int | None = None) -> str:
    """Return JSON in which no markup survives, cut after ``limit`` characters."""
    text = json.dumps(value, ensure_ascii=False, default=str).replace("<", "\\u003c").replace(">", "\\u003e")
    return text if limit is None or len(text) <= limit else f"{text[:limit]}…"


def _log(rollout: Rollout) -> list[str]:
    lines = []
    before: Mapping[str, Any] = {}
    for number, turn in enumerate(rollout.turns, 1):
        call = f"{turn.tool}({quoted(turn.argument, MAX_ACTION_CHARS)})" if turn.tool else quoted_action(turn.action)
        lines.append(f"{number}. on {quoted(turn.page)}: {call} -> {turn.feedback}")
        if seen := _public({key: value for key, value in turn.state.items() if before.get(key) != value}):
            lines.append(f"   saw {quoted(seen, MAX_PAGE_CHARS)}")
        before = turn.state
    return lines


def quoted_action(action: str) -> str:
    """Return an action that was no valid call."""
    return f"no valid call {quoted(action, MAX_ACTION_CHARS)}"


def _public(value: Any) -> Any:
    """Return a page's state without what stands elsewhere in the log; a private key would be an error upstream."""
    if isinstance(value, Mapping):
        return {
            key: _public(item) for key, item in value.items() if key not in _SEEN_ALREADY and not is_private_key(key)
        }
    return [_public(item) for item in value] if isinstance(value, list | tuple) else value
