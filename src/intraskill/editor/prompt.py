"""What the editor reads: the format of its answer, the numbered skill, the evidence, the drafts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from intraskill.editor.actions import ACTIONS, TARGETS, WRITES, ActionName
from intraskill.editor.evidence import Unit
from intraskill.method.skill.skill import Chunk, Skill

TERSE_SYSTEM = "You edit a skill."
MEANINGS: dict[ActionName, str] = {
    "CREATE": "add a rule that is missing",
    "UPDATE": "write a chunk anew that is wrong or unclear",
    "MERGE": "put chunks that overlap into one",
    "PRUNE": "take out a chunk that misleads or fits one case only",
    "NOOP": "leave the skill as it is",
}


def system_prompt(actions: Sequence[ActionName] = ACTIONS) -> str:
    """Return the editor's instructions: the actions that are allowed and the form of an answer."""
    lines = [
        "You edit a written skill that another agent reads before it works.",
        "You see the skill, its chunks numbered, and a piece of evidence. Decide on the one edit that the evidence",
        "supports. Write rules that transfer to other tasks; never a name, a number or a text of one task.",
        "",
        "Answer with exactly one action and nothing else. Its first line is one of:",
    ]
    lines += [f"{_form(name)}   {MEANINGS[name]}" for name in ACTIONS if name in actions]
    if writes := [name for name in WRITES if name in actions]:
        after = " and ".join(filter(None, [", ".join(writes[:-1]), writes[-1]]))
        lines += [f"After {after} comes the new chunk: a line '### Title', an empty line, and its text;"]
        lines += ["or, where the evidence brings drafts, a line such as 'draft 1' to take one as it is."]
    return "\n".join(lines)


def user_prompt(skill: Skill, units: Sequence[Unit], drafts: Sequence[Chunk]) -> str:
    """Return skill, evidence and drafts as the editor sees them."""
    parts = ["# Skill", numbered(skill) or "(empty)", "# Evidence", *(unit.text for unit in units)]
    if drafts:
        parts += ["# Drafts", *(f"draft {i}\n{chunk.render()}" for i, chunk in enumerate(drafts, start=1))]
    return "\n\n".join(parts)


def numbered(skill: Skill) -> str:
    """Return the skill's chunks, each under its number, from 1."""
    chunks = (f"[{i}]\n{chunk.render()}" for i, chunk in enumerate(skill.chunks, start=1))
    return "\n\n".join(part for part in (skill.preamble, *chunks) if part)


@dataclass(frozen=True, slots=True)
class PromptSize:
    """How long prompts are for one editor.

    Attributes:
        tokens: counts the tokens of a text as the editor's tokenizer does.
        around: tokens of every prompt besides the user's message: instructions and chat template.
    """

    tokens: Callable[[str], int]
    around: int = 0

    def of(self, skill: Skill, units: Sequence[Unit], drafts: Sequence[Chunk]) -> int:
        """Return the tokens of a whole prompt."""
        return self.around + self.tokens(user_prompt(skill, units, drafts))


def _form(name: ActionName) -> str:
    numbers = {"no": "", "one": " N", "two or more": " N M …"}[TARGETS[name]]
    return f"{name}{numbers}" + (" + new chunk" if name in WRITES else "")
