"""`ShopWorld`: the embedded shop, an `intraskill.environments.protocol.Environment`."""

from collections.abc import Sequence
from functools import cached_property, lru_cache

from intraskill.environments.protocol import ToolSpec
from intraskill.environments.shopworld.expert import Oracle
from intraskill.environments.shopworld.generate import ShopTask, generate
from intraskill.environments.shopworld.reward import REWARD_PARTS
from intraskill.environments.shopworld.search import SearchIndex
from intraskill.environments.shopworld.session import PARAMETERS, ShopSession
from intraskill.environments.shopworld.splits import assign_splits, manifest
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import SPLITS, Split, Task

CONTRACT = "shopworld-1"
ORACLE_ACTIONS = 8
_DESCRIPTIONS = {"search": "Search the shop.", "click": "Click a listed action."}


class ShopWorld:
    """One immutable catalogue and its tasks, shared by every session.

    Args:
        preset: ``tiny`` (120 products, 60 tasks) or ``small`` (1,440 products, 1,200 tasks).
        seed: seed of the world.
        page_size: results per page.
        max_results: results per query.
        renderer: ``structured`` or ``sep``.

    Raises:
        ConfigError: for an unknown preset or renderer, or sizes below 1.
    """

    family = "shopping"
    reward_parts: Sequence[str] = REWARD_PARTS

    def __init__(
        self,
        preset: str = "small",
        seed: int = 0,
        page_size: int = 20,
        max_results: int = 150,
        renderer: str = "structured",
    ) -> None:
        if renderer not in ("structured", "sep"):
            raise ConfigError(f"unknown renderer {renderer!r}; choose structured or sep")
        if min(page_size, max_results) < 1:
            raise ConfigError(f"page_size and max_results must be at least 1, got {page_size} and {max_results}")
        self.page_size, self.max_results, self.renderer = page_size, max_results, renderer
        self.catalogue, tasks = generate(preset, seed)
        self.index = SearchIndex(self.catalogue)
        self._tasks = {task.id: task for task in assign_splits(tasks, seed)}
        self._solvable = lru_cache(maxsize=None)(self._solve)

    @cached_property
    def version(self) -> str:
        """Hash of the contract, the catalogue, the tasks with their splits, and every setting."""
        settings = [self.page_size, self.max_results, self.renderer]
        goals = [(t.id, t.split, t.instruction, t.request, t.persona, repr(t.goal)) for t in self._tasks.values()]
        return content_hash(CONTRACT, self.catalogue.hash, goals, settings)

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The two tools, as JSON schemas."""
        return [_tool(name, parameter) for name, parameter in PARAMETERS.items()]

    @property
    def manifest(self) -> dict[str, object]:
        """Task ids per split, with hashes."""
        return manifest(list(self._tasks.values()), self.catalogue.hash)

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the tasks of one split, by id."""
        if split not in SPLITS:
            raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        chosen = (task for task in self._tasks.values() if task.split == split)
        return tuple(Task(task.id, self.family, task.split, dict(task.features)) for task in chosen)

    def shop_task(self, task_id: str) -> ShopTask:
        """Return a task with its private goal.

        Raises:
            SplitError: for an id that this world does not hold.
        """
        if task_id not in self._tasks:
            raise SplitError(
                f"this world has no task {task_id!r}; it holds {len(self._tasks)} tasks of another seed or preset"
            )
        return self._tasks[task_id]

    def open(self) -> ShopSession:
        """Return a new session."""
        return ShopSession(self)

    def solvable(self, task_id: str) -> bool:
        """Return whether an oracle reaches full success within 8 actions."""
        return bool(self._solvable(task_id))

    def _solve(self, task_id: str) -> bool:
        session, oracle = self.open(), Oracle(self.shop_task(task_id).goal)
        session.reset(task_id)
        for _ in range(ORACLE_ACTIONS):
            call = oracle.act(session.state)
            outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
            if outcome.done:
                return outcome.parts["r_success"] == 1.0
        return False


def _tool(name: str, parameter: str) -> ToolSpec:
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": _DESCRIPTIONS[name], "parameters": schema}}
