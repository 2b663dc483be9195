"""A family as somebody else would write it: put letters in order; half right pays half of ten points."""

import hashlib
import random

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.tool_calls import read_call, write_call
from intraskill.method.errors import SplitError
from intraskill.method.tasks import SPLITS, Task

ORDER = {"type": "object", "properties": {"letters": {"type": "string"}}, "required": ["letters"]}
SUBMIT = {"name": "submit", "description": "Hand in the letters in order.", "parameters": ORDER}


class Sorting:
    family, tools = "sorting", [{"type": "function", "function": SUBMIT}]
    reward_parts, reward_range = ("r_strict", "points_for_place"), (0, 10)

    def __init__(self, preset="small", seed=0):
        self.version = hashlib.sha256(f"sorting 1 {preset} {seed}".encode()).hexdigest()
        self.words = {
            f"{s}-{n}": "".join(random.Random(f"{seed} {s} {n}").sample("abcdefgh", 4))
            for s in SPLITS
            for n in range(20)
        }

    def tasks(self, split):
        if split not in SPLITS:
            raise SplitError(f"no split {split!r}")
        return tuple(Task(i, self.family, split) for i in self.words if i.rsplit("-", 1)[0] == split)

    def open(self):
        return Desk(self)

    def solution(self, task_id):
        return [write_call("submit", "letters", "".join(sorted(self.words[task_id])))]


class Desk:
    word, over = None, False

    def __init__(self, world):
        self.world = world

    def reset(self, task_id):
        if self.word is not None:
            raise RuntimeError("this desk was used")
        if task_id not in self.world.words:
            raise SplitError(f"no task {task_id!r}")
        self.word = self.world.words[task_id]
        return Opening(f"Sort the letters {' '.join(self.word)}.", None, "An empty sheet.", {"sheet": ""})

    def step(self, action):
        if self.word is None or self.over:
            raise RuntimeError("nobody sits here")
        call = read_call(action, {"submit": "letters"})
        if isinstance(call, str) or sorted(call.argument) != sorted(self.word):
            code = call if isinstance(call, str) else "other_letters"
            return Outcome("Not what was asked for.", {"sheet": ""}, code, "", "", False)
        share = sum(a == b for a, b in zip(call.argument, sorted(self.word), strict=True)) / len(self.word)
        return self.end("handed_in", call.argument, self.paid(share))

    def paid(self, share):
        return 10 * share

    def terminate(self, reason):
        return self.end(reason, "", 0.0)

    def end(self, why, sheet, points):
        self.over = True
        parts = {"r_strict": points, "points_for_place": points}
        return Outcome("The sheet is read.", {"sheet": sheet}, "executed", "submit", sheet, True, points, parts, why)
