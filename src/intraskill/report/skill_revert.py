"""``skill revert``: say what was written, and what happens to it next."""

from intraskill.history import History, Version
from intraskill.history_diff import Change
from intraskill.history_revert import Revert
from intraskill.method.errors import counted
from intraskill.report.skill_words import shown


def revert_words(history: History, target: Version, found: Revert) -> str:
    """Return what a revert wrote and what follows."""
    lines = [f"Written: {found.path}, {counted(len(found.skill.chunks), 'chunk')}, back to {target.directory.name}:"]
    lines += [f"  {_words(change)}" for change in found.changes]
    if found.pending:
        lines += [
            "No sealed round has changed. The next round whose gate has not begun takes this file as a person's edit:",
            "the firewall reads it, and the gate measures every chunk at that round's checkpoint and decides. The old",
            f"text may lose again. Continue the run to go on; delete {found.path} to call it off.",
        ]
    else:
        lines.append(
            f"{history.root} has not changed. Start a run from the file with coldstart.draft={found.path.resolve()}"
        )
    return "\n".join(lines) + "\n"


def _words(change: Change) -> str:
    old, new = (" + ".join(shown(chunk.title) for chunk in side) for side in (change.old, change.new))
    if change.kind == "moved":
        return f"moves {new}"
    return f"puts {new} in place of {old}" if old and new else f"brings back {new}" if new else f"takes out {old}"
