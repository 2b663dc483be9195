"""A base for sessions of one's own: actions arrive as a tool and its typed arguments, and nothing is parsed by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from intraskill.environments.protocol import Outcome, ToolSpec
from intraskill.environments.tool_calls import Refusal, argument_words, read_typed_call


class ToolSession:
    """An `intraskill.environments.protocol.Session` without its ``reset`` and ``terminate``, which stay one's own.

    A text that is not exactly one call whose arguments fit the tool's JSON schema never reaches `call`: the page stays,
    and what was wrong stands above it.

    Attributes:
        tools: schemas of the tools, as the environment offers them.
    """

    tools: Sequence[ToolSpec]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Apply one call; its arguments have the types of the schema.

        Raises:
            EnvironmentFault: for a technical failure.
        """
        raise NotImplementedError

    def view(self) -> tuple[str, Mapping[str, Any]]:
        """Return the page now shown and its state.

        Raises:
            RuntimeError: before reset, and after the end.
        """
        raise NotImplementedError

    def step(self, action: str) -> Outcome:
        """Apply the policy's text.

        Raises:
            RuntimeError: before reset, and after the end.
        """
        page, state = self.view()
        read = read_typed_call(action, self.tools)
        if isinstance(read, Refusal):
            return Outcome(f"{read.reason}\n\n{page}", state, read.code, "", "", done=False)
        return self.call(read.name, read.arguments)

    def outcome(self, name: str, arguments: Mapping[str, Any], feedback: str = "executed") -> Outcome:
        """Return that a call was done, or why not, with the page and the state of now."""
        page, state = self.view()
        words = argument_words(arguments)
        return Outcome(page, state, feedback, name, words, done=False)
