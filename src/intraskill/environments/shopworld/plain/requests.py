"""How a user writes: the full request, the short one, and the persona that holds what the short one leaves out."""

from collections.abc import Mapping
from dataclasses import dataclass

from intraskill.environments.shopworld.plain.vocabulary import COLORS, TRIVIA
from intraskill.method.randomness import shuffled, uniform


@dataclass(frozen=True, slots=True)
class TaskText:
    """What a request and its persona must say.

    Attributes:
        noun: head noun of the wanted product.
        asked: attribute values that the short request names.
        brand: wanted brand, a soft constraint that only the persona names; ``None`` when any brand will do.
        options: wanted axis → value; ``color`` is named in the request, ``size`` only in the persona.
        budget_kind: ``about``, ``hard`` or ``none``.
        budget: the number that is written.
        conflict: the persona also holds a preference that the request overrides.
    """

    noun: str
    asked: tuple[str, ...]
    brand: str | None
    options: Mapping[str, str]
    budget_kind: str
    budget: int
    conflict: bool


_OPENINGS = ("Find a", "I need a", "Buy a", "Looking for a", "Get me a", "Please find a")
_ABOUT = ("budget about ${}", "around ${}", "roughly ${}")
_HARD = ("under ${}", "at most ${}", "no more than ${}")


def write_request(text: TaskText, seed: int, number: int) -> tuple[str, str, str]:
    """Return the full instruction, the short request, and the persona document."""

    def pick(name: str, options: tuple[str, ...]) -> str:
        return options[int(uniform(seed, "request", name, number) * len(options))]

    opening = pick("opening", _OPENINGS)
    color = [f"in {text.options['color']}"] if "color" in text.options else []
    money = {"about": [pick("about", _ABOUT)], "hard": [pick("hard", _HARD)], "none": []}[text.budget_kind]
    budget = [phrase.format(text.budget) for phrase in money]
    simple = ", ".join([" ".join([opening, *text.asked, text.noun, *color]), *budget]) + "."
    size = [f"size {text.options['size']}"] if "size" in text.options else []
    brand = [text.brand] if text.brand else []
    full = ", ".join([" ".join([opening, *brand, *text.asked, text.noun, *color]), *size, *budget]) + "."
    return full, simple, _persona(text, seed, number)


def _persona(text: TaskText, seed: int, number: int) -> str:
    """Two to four lines that matter or do not, in a drawn order."""
    lines = [f"likes {text.brand}"] if text.brand else []
    if "size" in text.options:
        lines.append(f"wears {text.options['size']}")
    if text.conflict:
        lines.append(f"often picks {_other_color(text, seed, number)}")
    trivia = shuffled(TRIVIA, seed, "trivia", number)
    lines += trivia[: 1 + int(uniform(seed, "trivia-count", number) * 2)]
    return "Profile: " + "; ".join(shuffled(lines, seed, "persona-order", number)) + "."


def _other_color(text: TaskText, seed: int, number: int) -> str:
    others = [color for color in COLORS if color != text.options.get("color")]
    return others[int(uniform(seed, "conflict-color", number) * len(others))]
