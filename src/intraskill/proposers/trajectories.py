"""Recorded trajectories from a file, in one of two forms, as rollouts that a proposer can read.

One JSON object per line: a row of a run's ``cold_start.jsonl`` (or of any other arm), or the public form

    {"task_id": "t1", "request": "…", "reward": 0.5, "turns": [{"page": "…", "action": "…", "feedback": "…"}]}

whose turns may also hold ``observation`` (what was shown before the action), ``tool`` and ``argument``, and whose rows
may hold ``parts`` (reward components), ``sample``, ``truncated``, ``by`` (what made it, for
whoever wrote it). Every row needs a reward.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from intraskill.environments.protocol import ToolSpec
from intraskill.environments.tool_calls import Refusal, ToolCall, argument_words, read_typed_call
from intraskill.method.errors import ArtifactError, offenders
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.skill import BARE
from intraskill.store.json_rows import each_row, object_of
from intraskill.store.records import from_json
from intraskill.store.user_files import MOST_ROWS, read_user_text

RECORDED = "recorded"
_ROW_KEYS = {"task_id", "request", "reward", "turns"}
_MORE_ROW_KEYS = {"parts", "sample", "truncated", "by"}
_TURN_KEYS = {"page", "action", "feedback"}
_MORE_TURN_KEYS = {"observation", "tool", "argument"}


def read_trajectories(path: Path, tools: Sequence[ToolSpec] = ()) -> tuple[Rollout, ...]:
    """Read every trajectory of a file.

    Args:
        path: the file, JSON lines.
        tools: of the environment; an action without ``tool`` is read as one of their calls.

    Raises:
        ArtifactError: naming the lines that are no trajectories, or have no reward.
    """
    unscored: list[str] = []
    seen: Counter[str] = Counter()

    def read(where: str, value: Any) -> Rollout | None:
        row = object_of(value)
        if row.get("reward") is None and row.get("fault") is None:
            unscored.append(where)
            return None
        task_id = str(row.get("task_id"))
        rollout = from_json(Rollout, row, path) if "checkpoint" in row else _public(row, seen[task_id], tools)
        seen[task_id] += 1
        return rollout

    rollouts, wrong = each_row(read_user_text(path, most=MOST_ROWS), read)
    if wrong:
        raise ArtifactError(f"{path} holds lines that are no trajectories, {offenders(wrong)}; correct or remove them")
    if unscored:
        raise ArtifactError(
            f"{path} holds trajectories without a reward, {offenders(unscored)}; give each row the environment's own "
            '"reward", or remove it: without one nobody knows what was a success'
        )
    if not rollouts:
        raise ArtifactError(f"{path} holds no trajectory; give at least one JSON line")
    return tuple(rollout for rollout in rollouts if rollout is not None)


def _public(row: dict[str, Any], sample: int, tools: Sequence[ToolSpec]) -> Rollout:
    _check_keys("the row", row, _ROW_KEYS, _MORE_ROW_KEYS)
    reward, turns = row["reward"], row["turns"]
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise ValueError(f"reward must be a number, got {reward!r}")
    if not isinstance(turns, list):
        raise ValueError(f"turns must be a list, got {type(turns).__name__}")
    parts = row.get("parts", {})
    if not isinstance(parts, dict):
        raise ValueError(f"parts must be an object, got {type(parts).__name__}")
    return Rollout(
        task_id=_text(row, "task_id"),
        visible=BARE,
        checkpoint=RECORDED,
        sample=int(row.get("sample", sample)),
        prompt_ids=(),
        token_ids=(),
        loss_mask=(),
        logprobs=(),
        reward=float(reward),
        parts={str(name): float(value) for name, value in parts.items()},
        truncated=bool(row.get("truncated", False)),
        request=_text(row, "request"),
        turns=tuple(_turn(turn, f"turns[{i}]", tools) for i, turn in enumerate(turns)),
    )


def _turn(turn: Any, where: str, tools: Sequence[ToolSpec]) -> Turn:
    if not isinstance(turn, dict):
        raise ValueError(f"{where} must be a JSON object, got {type(turn).__name__}")
    _check_keys(where, turn, _TURN_KEYS, _MORE_TURN_KEYS)
    action = _text(turn, "action")
    call = read_typed_call(action, tools)
    found = ToolCall("", "") if isinstance(call, Refusal) else ToolCall(call.name, argument_words(call.arguments))
    state = {"observation": _text(turn, "observation")} if "observation" in turn else {}
    tool, argument = str(turn.get("tool", found.name)), str(turn.get("argument", found.argument))
    return Turn(_text(turn, "page"), action, tool, argument, _text(turn, "feedback"), state)


def _check_keys(where: str, row: Mapping[str, Any], needed: set[str], allowed: set[str]) -> None:
    if missing := sorted(needed - set(row)):
        raise ValueError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(set(row) - needed - allowed):
        raise ValueError(
            f"{where} has unknown keys {', '.join(unknown)}; known are {', '.join(sorted(needed | allowed))}"
        )


def _text(row: Mapping[str, Any], name: str) -> str:
    if not isinstance(row[name], str):
        raise ValueError(f"{name} must be a text, got {type(row[name]).__name__}")
    return str(row[name])
