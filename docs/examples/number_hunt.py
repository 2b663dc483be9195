"""Another task family: find a hidden number in five guesses; each wrong guess is answered by higher or lower."""

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.tool_calls import read_call
from intraskill.method.errors import SplitError
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.tasks import SPLITS, Task

NUMBERS, GUESSES = [str(number) for number in range(1, 31)], 5
PARAMETERS = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
GUESS = {"name": "guess", "description": "Guess the hidden number.", "parameters": PARAMETERS}


class NumberHunt:
    family, reward_parts, tools = "number-hunt", ("r_strict", "r_close"), [{"type": "function", "function": GUESS}]

    def __init__(self, preset="small", seed=0):
        self.seed, self.version = seed, content_hash("number-hunt-1", preset, seed)
        self.ids = {f"{split}-{number}": split for split in SPLITS for number in range(20 if preset == "tiny" else 200)}

    def tasks(self, split):
        if split not in SPLITS:
            raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        return tuple(Task(task_id, self.family, split) for task_id, role in self.ids.items() if role == split)

    def open(self):
        return Hunt(self)


class Hunt:
    def __init__(self, world):
        self.world, self.hidden, self.over, self.guesses, self.hint = world, None, False, 0, "no guess yet"

    def reset(self, task_id):
        if self.hidden is not None:
            raise RuntimeError("a session serves one episode; open another")
        if task_id not in self.world.ids:
            raise SplitError(f"there is no task {task_id!r} in this world")
        self.hidden = 1 + int(len(NUMBERS) * uniform(self.world.seed, "hidden", task_id))
        return Opening("Find a number from 1 to 30 in 5 guesses.", None, self.hint, self.outcome("").state)

    def step(self, action):
        if self.hidden is None or self.over:
            raise RuntimeError("no episode is running in this session; open another")
        call = read_call(action, {"guess": "number"})  # a call, or the code that says why there is not exactly one
        if isinstance(call, str) or call.argument not in NUMBERS:
            return self.outcome(call if isinstance(call, str) else "unavailable_action")
        miss, self.guesses = self.hidden - int(call.argument), self.guesses + 1
        self.hint = "found" if miss == 0 else f"{'higher' if miss > 0 else 'lower'} than {call.argument}"
        if miss and self.guesses < GUESSES:
            return self.outcome("executed", call.argument)
        return self.outcome("executed", call.argument, "guessed", float(not miss), 1 - abs(miss) / len(NUMBERS))

    def terminate(self, reason):
        return self.outcome("executed", "", reason)

    def outcome(self, feedback, guess="", ending="", reward=0.0, close=0.0):
        state = {"page_type": "game", "actions": NUMBERS, "hint": self.hint}  # public: never the hidden number
        self.over, parts = bool(ending), {"r_strict": reward, "r_close": close} if ending else {}
        return Outcome(self.hint, state, feedback, guess and "guess", guess, self.over, reward, parts, ending)
