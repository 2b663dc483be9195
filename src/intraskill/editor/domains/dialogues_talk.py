"""One conversation: an agent that calls tools or speaks, one JSON object per turn, and a user, scripted or an LLM.

What the agent writes wrongly is told to it and costs it a turn; a conversation that reaches its limit of turns has not
ended. Tool calls are JSON in the text, not the endpoint's own function calls, so any server will do.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from intraskill.editor.domain import Answer, Job
from intraskill.editor.domains.dialogues_files import DialogueTask, OpenTools, Toolkit
from intraskill.editor.workers import SEEDS, system_text
from intraskill.editor.workers_options import instruction
from intraskill.llm.client import JsonClient, Message, parse

STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
GREETING = {"en": "Hello, how can I help you?", "zh": "您好，请问有什么可以帮您？"}
SHOWN = 200
"""Characters of a result or a reply that a view of the conversation shows."""


class User(Protocol):
    """Somebody who talks to the agent."""

    def reply(self, task: DialogueTask, said: list[tuple[str, str]], seed: int) -> str | None:
        """Return the next words after a list of (who, text) that ends with the agent, or ``None``: it is over."""


@dataclass(frozen=True)
class ScriptedUser:
    """Says the lines of the task's script one by one, whatever the agent says."""

    def reply(self, task: DialogueTask, said: list[tuple[str, str]], seed: int) -> str | None:
        """Return the next line."""
        number = sum(who == "user" for who, _ in said)
        return task.script[number] if number < len(task.script) else None


@dataclass(frozen=True)
class LlmUser:
    """An LLM that plays the task's situation until it says that it is over."""

    client: JsonClient
    language: str = "en"

    def reply(self, task: DialogueTask, said: list[tuple[str, str]], seed: int) -> str | None:
        """Return the model's words."""
        messages: list[Message] = [
            {"role": "system", "content": instruction("editor_user", self.language, situation=task.situation)}
        ]
        messages += [{"role": "assistant" if who == "user" else "user", "content": text} for who, text in said]
        words = self.client.text(messages, seed=seed)
        return None if any(stop in words for stop in STOPS) else words


@dataclass
class Conversation:
    """What happened in one conversation."""

    tools: OpenTools
    messages: list[Message]
    said: list[tuple[str, str]]
    turns: list[dict[str, str]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ended: bool = False

    def facts(self) -> dict[str, Any]:
        """Return what a verifier reads."""
        return {
            "database": self.tools.database,
            "said": list(self.said),
            "calls": list(self.calls),
            "ended": self.ended,
            "turns": list(self.turns),
        }

    def note(self, action: str, feedback: str, tool: str = "") -> None:
        """Keep one step."""
        self.turns.append({"page": "turn", "action": action, "feedback": feedback, "tool": tool})

    def tell(self, text: str) -> None:
        """Give the agent something to read."""
        self.messages.append({"role": "user", "content": text})


@dataclass(frozen=True)
class Talk:
    """Holds conversations; the ``work`` of an `intraskill.editor.workers.EndpointWorker`.

    Attributes:
        toolkit: the tools.
        policy: what the agent must keep to.
        user: whom it talks to.
        max_turns: most turns of the agent, tool calls included.
        language: of the prompts.
    """

    toolkit: Toolkit
    policy: str
    user: User
    max_turns: int
    language: str = "en"

    def __call__(self, client: JsonClient, job: Job) -> Answer:
        """Hold the conversation of one job."""
        task: DialogueTask = job.query.facts["task"]
        seed = job.seed % SEEDS
        tools = self.toolkit.opened(copy.deepcopy(task.start))
        told = instruction(
            "editor_dialogues", self.language, policy=self.policy, tools=self.toolkit.describe(task.start)
        )
        system: Message = {"role": "system", "content": system_text(told, job.skill)}
        talk = Conversation(tools, [system], [("agent", GREETING[self.language])])
        self._user_speaks(talk, task, seed)
        for _ in range(self.max_turns):
            if talk.ended:
                break
            words = client.text(talk.messages, seed=seed)
            talk.messages.append({"role": "assistant", "content": words})
            self._act(talk, task, words, seed)
        text = "\n".join(f"{who}: {words}" for who, words in talk.said)
        return Answer(text, talk.facts())

    def _act(self, talk: Conversation, task: DialogueTask, words: str, seed: int) -> None:
        try:
            action = read_action(words)
        except ValueError as error:
            talk.note(words[:SHOWN], f"no action: {error}")
            talk.tell(f"That was no action: {error}")
            return
        if isinstance(action, str):
            talk.said.append(("agent", action))
            talk.note(f"say: {action}", "executed")
            self._user_speaks(talk, task, seed)
            return
        name, arguments = action
        made = talk.tools.call(name, arguments)
        talk.calls.append((name, arguments))
        written = f"{name} {json.dumps(arguments, ensure_ascii=False)}"
        if made.refused:
            talk.note(written, f"refused: {made.text[:SHOWN]}", name)
        else:
            talk.note(f"{written} gave {made.text[:SHOWN]}", "executed", name)
        talk.tell(f"Tool {name}{' refused' if made.refused else ''}: {made.text}")

    def _user_speaks(self, talk: Conversation, task: DialogueTask, seed: int) -> None:
        words = self.user.reply(task, talk.said, seed)
        if words is None:
            talk.ended = True
            return
        talk.said.append(("user", words))
        talk.tell(f"User: {words}")


def read_action(text: str) -> str | tuple[str, dict[str, Any]]:
    """Return what an agent says, or the name and arguments of the tool that it calls.

    Raises:
        ValueError: saying why it is neither.
    """
    value, _ = parse(text)
    if isinstance(value, Mapping) and set(value) == {"say"} and isinstance(value["say"], str):
        return str(value["say"])
    if isinstance(value, Mapping) and set(value) <= {"tool", "arguments"} and isinstance(value.get("tool"), str):
        arguments = value.get("arguments", {})
        if isinstance(arguments, dict):
            return str(value["tool"]), arguments
    raise ValueError('give {"tool": name, "arguments": {…}} or {"say": text}, nothing else')
