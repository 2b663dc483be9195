"""A scripted shopper that obeys a given set of rules.

The shopper reads only public text, as a policy does. Without any rule it searches the product word, opens the
first result, takes the first listed value of every option, and buys.
"""

import re
from collections.abc import Set as AbstractSet
from typing import Any

from intraskill.environments.protocol import Opening
from intraskill.environments.shopworld.plain.generate import BRANDS, COLORS, DOMAINS
from intraskill.environments.shopworld.strings import STRINGS
from intraskill.environments.tool_calls import ToolCall
from intraskill.method.errors import ConfigError

_NOUNS = {noun for domain in DOMAINS for nouns in domain.aisles.values() for noun in nouns}
_FACETS = {value for domain in DOMAINS for values in domain.facets.values() for value in values}
_SIZES = {size for domain in DOMAINS for size in domain.sizes}
_WORDS = re.compile(r"[a-z]+")
_PLAIN = STRINGS["plain"]


class RuleShopper:
    """Chooses one action per turn from the request, the persona and the public state.

    Raises:
        ConfigError: for a request that names no product word of the plain language.
    """

    def __init__(self, opening: Opening, rules: AbstractSet[str]) -> None:
        self._rules = rules
        request, persona = (_WORDS.findall((t or "").lower()) for t in (opening.instruction, opening.persona))
        if (noun := next((word for word in request if word in _NOUNS), None)) is None:
            raise ConfigError(
                "the rule-obeying shopper, its demonstrations and its probes read env.options.language=plain only; "
                f"no product word of that language is in the request {opening.instruction[:80]!r}"
            )
        self._noun = noun
        self._features = [word for word in request if word in _FACETS]
        self._brands = [word for word in persona if word in BRANDS]
        self._wanted = {
            "color": next((word for word in request if word in COLORS), None) if "option_request" in rules else None,
            "size": next((word for word in persona if word in _SIZES), None) if "option_persona" in rules else None,
        }

    def act(self, state: dict[str, Any]) -> ToolCall:
        """Return the next call."""
        if state["page_type"] == "search_home":
            return ToolCall("search", " ".join(self._query()))
        if state["page_type"] == "search_results":
            rows = state["products"]
            if not rows:
                return ToolCall("click", _PLAIN.back)
            return ToolCall("click", rows[-1 if "open_last" in self._rules else 0]["id"])
        for axis in state["missing_option_axes"]:
            values = state["available_options"][axis]
            wanted = self._wanted.get(axis)
            return ToolCall("click", f"{axis}={wanted if wanted in values else values[0]}")
        return ToolCall("click", _PLAIN.buy)

    def _query(self) -> list[str]:
        brand = self._brands if "search_persona" in self._rules else []
        features = self._features if "search_features" in self._rules else []
        return [self._noun, *features, *brand]
