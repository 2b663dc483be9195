"""A family that is no shop, as a user would write it: tools with several typed arguments, and one without any."""

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.tool_session import ToolSession
from intraskill.method.errors import SplitError
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.tasks import SPLITS, Task

TEAMS = ["billing", "network", "returns"]
SUBJECTS = {"billing": "the invoice is wrong", "network": "no connection", "returns": "it arrived broken"}


def tool(name, description, **properties):
    needed = [key for key, schema in properties.items() if not schema.pop("optional", False)]
    parameters = {"type": "object", "properties": properties, "required": needed}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    tool("list_open", "Show the open tickets."),
    tool(
        "assign",
        "Give a ticket to a team.",
        ticket={"type": "integer", "minimum": 1},
        team={"type": "string", "enum": TEAMS},
        urgent={"type": "boolean", "optional": True},
    ),
]


class Desk:
    """Three tickets; each one that goes to its team pays a third."""

    family, reward_parts, tools, version = "ticket-desk", ("r_strict",), TOOLS, content_hash("ticket-desk-1")
    system = "You sort the tickets of a help desk."

    def __init__(self, preset="small", seed=0):
        self.ids = {f"{split}-{number}": split for split in SPLITS for number in range(20 if preset == "tiny" else 60)}

    def tasks(self, split):
        if split not in SPLITS:
            raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        return tuple(Task(task_id, self.family, split) for task_id, role in self.ids.items() if role == split)

    def teams(self, task_id):
        return {number: TEAMS[int(3 * uniform(0, task_id, number))] for number in (1, 2, 3)}

    def solution(self, task_id):
        calls = [{"name": "assign", "arguments": {"ticket": n, "team": t}} for n, t in self.teams(task_id).items()]
        return [{"name": "list_open", "arguments": {}}, *calls]

    def open(self):
        return Shift(self)


class Shift(ToolSession):
    tools = TOOLS

    def __init__(self, desk):
        self.desk, self.teams, self.given, self.listed, self.over = desk, None, {}, False, False

    def reset(self, task_id):
        if self.teams is not None:
            raise RuntimeError("a session serves one episode; open another")
        if task_id not in self.desk.ids:
            raise SplitError(f"there is no task {task_id!r} at this desk")
        self.teams = self.desk.teams(task_id)
        return Opening("Give every ticket to its team.", None, *self.view())

    def view(self):
        if self.teams is None or self.over:
            raise RuntimeError("no episode is running in this session; open another")
        lines = [f"{n}: {SUBJECTS[team]}" for n, team in self.teams.items() if n not in self.given]
        state = {"page_type": "list" if self.listed else "start", "given": {str(n): t for n, t in self.given.items()}}
        return ("\n".join(lines) if self.listed else "List the open tickets first."), state

    def call(self, name, arguments):
        if name == "list_open":
            self.listed = True
        elif arguments["ticket"] not in self.teams or arguments["ticket"] in self.given:
            return self.outcome(name, arguments, "no_such_ticket")
        else:
            self.given[arguments["ticket"]] = arguments["team"]
        return self.end("sorted") if len(self.given) == len(self.teams) else self.outcome(name, arguments)

    def end(self, reason):
        right = sum(self.teams[number] == team for number, team in self.given.items()) / len(self.teams)
        reward = right if reason == "sorted" else 0.0
        page, state = self.view()
        self.over = True
        return Outcome(page, state, "executed", "", "", True, reward, {"r_strict": reward}, reason)

    def terminate(self, reason):
        return self.end(reason)
