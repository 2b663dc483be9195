"""Which tasks a remote shop has and in which split each is: from a file, from the server, or from index ranges."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from intraskill.environments.remote.episode import UNSTATED, ServerIdentity
from intraskill.method.errors import ArtifactError, ConfigError, SplitError, offenders
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import SPLITS, Split, Task
from intraskill.store.user_files import read_user_json

FAMILY = "shopping"


@dataclass(frozen=True)
class Roster:
    """Every task with its number on the server.

    Attributes:
        tasks: in a fixed order; an id is in one split only.
        numbers: task id → ``idx``.
        catalogue: what the ids belong to; ``""`` when unstated.
    """

    tasks: tuple[Task, ...]
    numbers: Mapping[str, int] = field(repr=False)
    catalogue: str = ""

    @cached_property
    def hash(self) -> str:
        """Hash of ids, numbers and splits."""
        return content_hash(self.catalogue, [(t.id, self.numbers[t.id], t.split) for t in self.tasks])

    def of(self, split: Split) -> tuple[Task, ...]:
        """Return the tasks of one split.

        Raises:
            SplitError: for an unknown split.
        """
        if split not in SPLITS:
            raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
        return tuple(task for task in self.tasks if task.split == split)

    def number(self, task_id: str) -> int:
        """Return a task's ``idx``.

        Raises:
            SplitError: for an id that is not listed.
        """
        if task_id not in self.numbers:
            raise SplitError(
                f"no task {task_id!r} among the {len(self.numbers)} of this remote shop; ask its tasks(split) for ids"
            )
        return self.numbers[task_id]


def from_sizes(sizes: Mapping[str, int]) -> Roster:
    """Return index ranges in the order of ``sizes``: the first split starts at 0, the next goes on."""
    splits = [split for split, size in sizes.items() for _ in range(size)]
    return _roster([(index, str(index), split, {}) for index, split in enumerate(splits)], "", "split_sizes")


def from_manifest(manifest: object, source: str, known: Mapping[str, int] | None = None) -> Roster:
    """Read a manifest: ``tasks`` with idx, id and split each, or ``splits`` with a list of ids per split.

    Args:
        manifest: what the server or a file says.
        source: for messages.
        known: task id → ``idx``, where the server names its tasks; without it an id of ``splits`` is its own number.

    Raises:
        ArtifactError: for a manifest of another shape.
        SplitError: for an id or a number that stands twice.
    """
    if not isinstance(manifest, Mapping):
        raise ArtifactError(f"{source} is not a JSON object of tasks; see the wire's Manifest")
    try:
        if "tasks" in manifest:
            entries = [_entry(task) for task in manifest["tasks"]]
        else:
            splits = manifest["splits"].items()
            entries = [
                (_index_of(name, known), str(name), str(split), {}) for split, names in splits for name in _ids(names)
            ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f'{source} needs "tasks": [{{"idx", "id", "split"}}, …] or "splits": {{split: [id, …]}} '
            f"({type(error).__name__}: {error})"
        ) from error
    if not entries:
        raise ArtifactError(f"{source} lists no task; a run needs some")
    return _roster(entries, str(manifest.get("catalogue", "")), source)


def read_manifest(path: str) -> Mapping[str, Any]:
    """Read a manifest file.

    Raises:
        ArtifactError: for a file that is missing, cut off or no JSON object.
    """
    found = read_user_json(Path(path), where=f"env.options.manifest={path}")
    if not isinstance(found, dict):
        raise ArtifactError(f"env.options.manifest={path} holds no JSON object")
    return found


def choose_roster(
    path: str | None, offered: object, sizes: Mapping[str, int] | None, identity: ServerIdentity, url: str
) -> Roster:
    """Return the tasks from the user's file, else from the server's manifest, else from index ranges.

    Args:
        path: the user's file.
        offered: the server's manifest, or ``None``.
        sizes: index ranges.
        identity: what the server says it is.
        url: for messages.

    Raises:
        ArtifactError: for a file that is bound to another catalogue or environment version, or names tasks otherwise.
        SplitError: for an id in two splits, or more tasks than the server holds.
        ConfigError: when nothing says what the tasks are, or two sources disagree.
    """
    served = None if offered is None else from_manifest(offered, f"the manifest of {url}")
    if path is not None:
        manifest = read_manifest(path)
        _require_same(path, "environment_version", manifest, identity.environment_version, url)
        _require_same(path, "catalogue", manifest, served.catalogue if served else "", url)
        roster = from_manifest(manifest, path, served.numbers if served else None)
        if served is not None:
            _require_same_names(path, roster, served, url)
    elif served is not None:
        roster = served
        counted = Counter(task.split for task in served.tasks)
        wrong = [f"{s}={n}, {counted[s]} there" for s, n in (sizes or {}).items() if counted[s] != n]  # type: ignore[index]
        if wrong:
            raise ConfigError(
                f"env.options.split_sizes contradicts the manifest that {url} offers: {', '.join(wrong)}; correct it, "
                "or take it out with env.options.split_sizes=null"
            )
    elif sizes:
        roster = from_sizes(sizes)
    else:
        raise ConfigError(
            f"nothing says which tasks {url} holds: it offers no manifest; set env.options.split_sizes, such as "
            "{train: 3726, skill_validation: 400, test: 400}, or env.options.manifest=FILE"
        )
    beyond = [
        task.id for task in roster.tasks if identity.tasks is not None and roster.number(task.id) >= identity.tasks
    ]
    if beyond:
        raise SplitError(
            f"{url} holds {identity.tasks} tasks, and {offenders(beyond)} lie beyond; lower env.options.split_sizes, "
            "or use the manifest of this server"
        )
    return roster


def _require_same(path: str, what: str, manifest: Mapping[str, Any], there: str, url: str) -> None:
    stated = manifest.get(what)
    if stated and there and there != UNSTATED and stated != there:
        raise ArtifactError(
            f"env.options.manifest={path} belongs to {what} {stated!r}, and {url} serves {there!r}; "
            "its ids name other tasks there: use the manifest made for this server"
        )


def _entry(task: Mapping[str, Any]) -> tuple[int, str, str, Mapping[str, str]]:
    features = {str(key): str(value) for key, value in (task.get("features") or {}).items()}
    idx, name, split = task["idx"], task["id"], task["split"]
    if not _is_number(idx) or not (isinstance(name, str) or _is_number(name)) or not isinstance(split, str):
        raise TypeError(f"idx is a number, id and split are texts, got {idx!r}, {name!r} and {split!r}")
    return idx, str(name), split, features


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ids(names: object) -> list[object]:
    if not isinstance(names, list):
        raise TypeError(f"a split holds a list of ids, got {type(names).__name__}")
    return names


def _index_of(name: object, known: Mapping[str, int] | None) -> int:
    if known is not None and str(name) in known:
        return known[str(name)]
    try:
        return int(str(name))
    except ValueError as error:
        unknown = "the server's manifest does not list it" if known else "no manifest of the server says its idx"
        raise ValueError(f"{name!r} is no number, and {unknown}") from error


def _require_same_names(path: str, here: Roster, there: Roster, url: str) -> None:
    """Refuse a file in which a number or an id means another task than on the server."""
    names = {idx: name for name, idx in there.numbers.items()}
    wrong = [
        f"idx {idx} is {name!r} in the file and {names.get(idx, 'nothing')!r} there"
        for name, idx in here.numbers.items()
        if names.get(idx) != name
    ]
    if wrong:
        raise ArtifactError(
            f"env.options.manifest={path} contradicts the manifest that {url} offers, {offenders(wrong)}; "
            "use the manifest made for this server, or have it serve these tasks too"
        )


def _roster(entries: Iterable[tuple[int, str, str, Mapping[str, str]]], catalogue: str, source: str) -> Roster:
    rows = list(entries)
    unknown = sorted({split for _, _, split, _ in rows if split not in SPLITS})
    if unknown:
        raise SplitError(f"{source} names unknown splits: {offenders(unknown)}; choose from {', '.join(SPLITS)}")
    for what, column in (("id", 1), ("idx", 0)):
        seen: dict[object, list[str]] = {}
        for row in rows:
            seen.setdefault(row[column], []).append(row[2])
        twice = [f"{what} {key} ({', '.join(splits)})" for key, splits in seen.items() if len(splits) > 1]
        if twice:
            raise SplitError(
                f"{source} lists a task more than once: {offenders(twice)}; a task has one data role only, "
                "so results on it would count twice or leak"
            )
    if any(index < 0 for index, _, _, _ in rows):
        raise SplitError(f"{source} holds a negative idx; numbers start at 0")
    tasks = tuple(Task(name, FAMILY, split, features) for _, name, split, features in rows)  # type: ignore[arg-type]
    return Roster(tasks, {name: index for index, name, _, _ in rows}, catalogue)
