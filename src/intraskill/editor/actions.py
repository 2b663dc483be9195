"""The actions of a skill editor: a strict text format, its parser, and their application through `edits`.

An answer is exactly one action. Its first line is the name and the numbers of the chunks that it touches (1 is the
first chunk of the skill as shown); the new chunk follows as one ``###`` section, or as ``draft N``, the N-th draft that
came with the evidence::

    CREATE                 UPDATE 2               MERGE 1 3              PRUNE 2      NOOP
    ### Title              ### Title              draft 1
    Body.                  Body.

Nothing is repaired: what does not have this form is invalid, and the reason has a name that can be counted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from intraskill.method.errors import EditError, IntraSkillError, SkillFormatError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import Chunk, Skill, parse_skill
from intraskill.method.thoughts import without_thought

ActionName = Literal["CREATE", "UPDATE", "MERGE", "PRUNE", "NOOP"]
ACTIONS: tuple[ActionName, ...] = get_args(ActionName)
TARGETS: dict[str, str] = {"CREATE": "no", "UPDATE": "one", "MERGE": "two or more", "PRUNE": "one", "NOOP": "no"}
WRITES = ("CREATE", "UPDATE", "MERGE")
_HEAD = re.compile(rf"({'|'.join(ACTIONS)})((?: \d+)*)")
_DRAFT = re.compile(r"draft (\d+)")


class ActionError(IntraSkillError, ValueError):
    """An answer is not one valid action; ``kind`` is the reason's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Action:
    """One parsed action.

    Attributes:
        name: what it does.
        targets: chunk numbers, from 1, in the order given.
        chunk: the new text, ``None`` for PRUNE and NOOP.
    """

    name: ActionName
    targets: tuple[int, ...] = ()
    chunk: Chunk | None = None

    def render(self) -> str:
        """Return the answer that parses to this action."""
        head = " ".join([self.name, *map(str, self.targets)])
        return head if self.chunk is None else f"{head}\n{self.chunk.render()}"

    def to_edit(self, skill: Skill) -> Edit | None:
        """Return the edit of ``skill``, or ``None`` for NOOP.

        Raises:
            ActionError: ``no_such_chunk`` for a number that the skill does not have, ``unchanged`` for a text that
                stands there already.
        """
        if self.name == "NOOP":
            return None
        if missing := [number for number in self.targets if not 1 <= number <= len(skill.chunks)]:
            raise ActionError("no_such_chunk", f"there is no chunk {missing[0]}; the skill has {len(skill.chunks)}")
        removes = tuple(skill.ids[number - 1] for number in self.targets)
        adds = () if self.chunk is None else (self.chunk,)
        try:
            edit = Edit(removes, adds)
            pool(skill, [edit])
        except EditError as error:
            raise ActionError("unchanged", f"{self.name} would leave a text that is there already: {error}") from error
        return edit


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one answer.

    Attributes:
        action: the parsed action, ``None`` when the answer is not one.
        edit: what it changes, ``None`` for NOOP and for an invalid answer.
        skill: the skill after it; the unedited one for NOOP and for an invalid answer.
        invalid: name of the reason why it is invalid, empty when it is valid.
        message: the same in words.
    """

    action: Action | None
    edit: Edit | None
    skill: Skill
    invalid: str = ""
    message: str = ""

    @property
    def noop(self) -> bool:
        """A valid NOOP."""
        return self.action is not None and self.action.name == "NOOP" and not self.invalid


def attempt(
    answer: str,
    skill: Skill,
    leak_filter: LeakFilter,
    *,
    drafts: Sequence[Chunk] = (),
    actions: Sequence[ActionName] = ACTIONS,
) -> Attempt:
    """Parse an answer and apply it to ``skill``; an invalid one leaves the skill as it is and says why."""
    action: Action | None = None
    try:
        action = parse_action(answer, drafts=drafts, actions=actions)
        edit = action.to_edit(skill)
        if edit is None:
            return Attempt(action, None, skill)
        if found := leak_filter.inspect_edit(edit.adds, skill, edit.removes):
            raise ActionError("firewall", "; ".join(map(str, found)))
        return Attempt(action, edit, applied(skill, edit))
    except ActionError as error:
        return Attempt(action, None, skill, error.kind, str(error))


def applied(skill: Skill, edit: Edit) -> Skill:
    """Return ``skill`` with the edit made: its new text stands where the last chunk that it replaces stood.

    Raises:
        EditError: as `pool`.
    """
    kept = tuple(chunk for chunk in pool(skill, [edit]).chunks if chunk.id not in edit.removes)
    return Skill(skill.preamble, kept)


def parse_action(answer: str, *, drafts: Sequence[Chunk] = (), actions: Sequence[ActionName] = ACTIONS) -> Action:
    """Read an answer; a leading ``<think>`` block is passed over.

    Args:
        answer: the text.
        drafts: what ``draft N`` refers to.
        actions: the actions that are allowed.

    Raises:
        ActionError: ``empty``, ``unknown_action``, ``two_actions``, ``targets``, ``empty_merge``, ``repeated_target``,
            ``missing_text``, ``unexpected_text``, ``no_such_draft`` or ``bad_chunk``.
    """
    text = without_thought(answer).strip()
    if not text:
        raise ActionError("empty", "the answer is empty; write one action")
    head, _, rest = text.partition("\n")
    match = _HEAD.fullmatch(head.strip())
    if match is None or match[1] not in actions:
        raise ActionError("unknown_action", f"{head[:60]!r} is not one of {', '.join(actions)} with chunk numbers")
    name: ActionName = next(known for known in ACTIONS if known == match[1])
    targets = tuple(int(number) for number in match[2].split())
    _check_targets(name, targets)
    rest = rest.strip()
    if again := [line for line in rest.split("\n") if _HEAD.fullmatch(line.strip())]:
        raise ActionError("two_actions", f"a second action, {again[0].strip()!r}; write exactly one")
    if name not in WRITES:
        if rest:
            raise ActionError("unexpected_text", f"{name} takes no text, got {rest[:60]!r}")
        return Action(name, targets)
    return Action(name, targets, _chunk(name, rest, drafts))


def _check_targets(name: str, targets: tuple[int, ...]) -> None:
    count = len(targets)
    if name == "MERGE" and count < 2:
        raise ActionError("empty_merge", f"MERGE takes two or more chunk numbers, got {count}")
    fits = {"no": count == 0, "one": count == 1, "two or more": count > 1}[TARGETS[name]]
    if not fits:
        raise ActionError("targets", f"{name} takes {TARGETS[name]} chunk numbers, got {count}")
    if len(set(targets)) < count:
        raise ActionError("repeated_target", f"{name} names a chunk twice: {' '.join(map(str, targets))}")


def _chunk(name: str, text: str, drafts: Sequence[Chunk]) -> Chunk:
    if not text:
        raise ActionError("missing_text", f"{name} needs a new chunk: one ### section, or draft N")
    if reference := _DRAFT.fullmatch(text):
        number = int(reference[1])
        if not 1 <= number <= len(drafts):
            raise ActionError("no_such_draft", f"there is no draft {number}; the evidence brings {len(drafts)}")
        return drafts[number - 1]
    try:
        written = parse_skill(text)
    except SkillFormatError as error:
        raise ActionError("bad_chunk", str(error)) from error
    if written.preamble or len(written.chunks) != 1:
        raise ActionError("bad_chunk", f"{name} needs exactly one ### section and nothing before it")
    if not written.chunks[0].body:
        raise ActionError("bad_chunk", f"the new chunk {written.chunks[0].title!r} has no body")
    return written.chunks[0]
