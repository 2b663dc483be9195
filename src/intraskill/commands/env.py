"""`intraskill env`: look at, play, check and serve an environment."""

import argparse
import io
import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO, cast

from intraskill.commands import Verb, never
from intraskill.commands.numbers import real, whole
from intraskill.config.config import Config
from intraskill.config.overrides import compose
from intraskill.environments.protocol import (
    Environment,
    Opening,
    Outcome,
    Session,
    boundary,
    payment_of,
    solution_of,
    sound_opening,
    sound_outcome,
    system_of,
)
from intraskill.environments.tool_calls import write_arguments
from intraskill.method.errors import (
    ArtifactError,
    ConfigError,
    EnvironmentFault,
    IntraSkillError,
    SplitError,
    counted,
    offenders,
)
from intraskill.method.randomness import shuffled
from intraskill.method.tasks import OPENED, SPLITS, Split, Task
from intraskill.report.screen import Screen, say, say_json
from intraskill.store.json_rows import value_of

MOST_ECHOED = 200
HELP = """  TOOL words     call a tool, such as: search red mug    or: click back to search
  TOOL {JSON}    call a tool with several arguments, such as: move {"from": "a", "to": "b"}
  NUMBER         take the action with this number
  raw TEXT       send a text exactly as it is, as a policy would
  again          show the page again
  help, quit
"""


def choose_task(environment: Environment, task_id: str | None, split: str, seed: int) -> Task:
    """Return the task to play.

    Raises:
        SplitError: for a test task, an unknown split or an unknown id.
    """
    if split not in SPLITS:
        raise SplitError(f"unknown split {split!r}; choose one of {', '.join(SPLITS)}")
    if split == "test":
        raise SplitError("test tasks are for the final report only; play train, skill_validation, model_dev or audit")
    if task_id is not None:
        for other in SPLITS:
            found = next((task for task in environment.tasks(other) if task.id == task_id), None)
            if found is not None:
                return found if other != "test" else choose_task(environment, None, other, seed)
        raise SplitError(f"there is no task {task_id!r}; its ids look like {_example(environment, split)!r}")
    tasks = {task.id: task for task in environment.tasks(cast(Split, split))}
    if not tasks:
        raise SplitError(f"the environment has no {split} tasks; choose another --split")
    return tasks[shuffled(tasks, seed, "play")[0]]


def _example(environment: Environment, split: str) -> str:
    return next((task.id for task in environment.tasks(cast(Split, split))), "")


def require_place(out: str | None) -> None:
    """Refuse a transcript file that cannot be appended to, before anything is played.

    Raises:
        ArtifactError: naming the file.
    """
    if out is None:
        return
    try:
        with Path(out).open("a", encoding="utf-8"):
            pass
    except (OSError, ValueError) as error:
        raise ArtifactError(f"--out={out} cannot be written ({error}); choose another file") from error


class Table:
    """One played episode; the task's id comes last, for where files name tasks by their products it is an answer.

    Args:
        environment: where it is played.
        task: what is played.
        out: transcript file that is appended to, or ``None``.
        reveal: show the goal after the end.
    """

    def __init__(self, environment: Environment, task: Task, *, out: str | None, reveal: bool) -> None:
        self._environment, self._task, self._reveal = environment, task, reveal
        self._out = Path(out) if out else None
        functions = [tool["function"] for tool in environment.tools]
        self._parameters = {function["name"]: list(function["parameters"]["properties"]) for function in functions}
        self._payment = payment_of(environment)
        self._actions: list[str] = []

    def play(self, source: TextIO, screen: Screen) -> int:
        """Read actions from ``source`` until the episode or the input ends; 0 whatever the reward.

        Raises:
            EnvironmentFault: when the environment cannot open the episode.
        """
        session, outcome = self._environment.open(), None
        try:
            with boundary(f"{self._task.id} cannot be opened", passing=(IntraSkillError,)) as crossing:
                opening = sound_opening(session.reset(self._task.id))
            if crossing.fault is not None:
                raise EnvironmentFault(f"{crossing.fault}; intraskill env check says which rules an environment breaks")
            outcome = self._episode(session, opening, source, screen)
        except KeyboardInterrupt:
            screen.write("\n")
        finally:  # whoever reads the screen may be gone: a server's slot must not stay taken
            if outcome is None:
                with boundary("leaving"):
                    session.terminate("action_limit")
        if outcome is None:
            hidden = ", and --reveal shows a goal only after an episode's own end" if self._reveal else ""
            screen.write(f"\n{self._task.id} was left before its end: nothing is paid{hidden}\n")
            return 0
        parts = "\n".join(f"{name} = {value:.4g}" for name, value in outcome.parts.items())
        self._write(screen, f"the end of {self._task.id}: {outcome.termination}, reward {outcome.reward:.4g}", parts)
        if self._reveal:
            self._write(screen, "goal", _goal(self._environment, self._task.id))
        return 0

    def _episode(self, session: Session, opening: Opening, source: TextIO, screen: Screen) -> Outcome | None:
        tools = [json.dumps(tool, ensure_ascii=False) for tool in self._environment.tools]
        self._write(
            screen,
            "system (the skill follows it, where there is one)",
            "\n".join([system_of(self._environment), *tools]),
        )
        self._write(screen, f"request ({self._task.split})", opening.instruction)
        if opening.persona is not None:
            self._write(screen, "persona", opening.persona)
        self._show(screen, opening.observation, opening.state)
        self._note({"task": self._task.id, "version": self._environment.version} | asdict(opening))
        return self._turns(session, source, screen, (opening.observation, opening.state))

    def _turns(
        self, session: Session, source: TextIO, screen: Screen, shown: tuple[str, Mapping[str, Any]]
    ) -> Outcome | None:
        for turn in range(1, 10_000):
            text = self._ask(source, screen, turn, shown)
            if text is None:
                return None
            outcome = self._step(session, text, screen)
            if outcome is None:
                continue
            self._note({"turn": turn, "action": text} | asdict(outcome))
            screen.write(f"feedback: {outcome.feedback}\n")
            if outcome.done:
                if outcome.observation:
                    self._write(screen, "page", outcome.observation)
                return outcome
            shown = (outcome.observation, outcome.state)
            self._show(screen, *shown)
        return None

    def _step(self, session: Session, text: str, screen: Screen) -> Outcome | None:
        """Let the environment answer; ``None``, and a word about it, where training would set the episode aside."""
        with boundary("the environment broke, which sets a rollout aside") as crossing:
            return sound_outcome(session.step(text), self._payment)
        screen.write(f"{crossing.fault}\n")
        return None

    def _ask(self, source: TextIO, screen: Screen, turn: int, shown: tuple[str, Mapping[str, Any]]) -> str | None:
        """Return the next action text; ``None`` when the player leaves."""
        while True:
            screen.write(f"\n{turn}> ")
            screen.flush()
            line = source.readline()
            if not source.isatty():
                screen.write(_brief(line.rstrip("\n")) + "\n")
            word, _, rest = line.strip().partition(" ")
            if not line or word == "quit":
                return None
            try:
                text = self._action(word, rest)
            except ConfigError as error:
                screen.write(f"{error}\n")
                continue
            if text is not None:
                return text
            if word == "again":
                self._show(screen, *shown)
            elif word:
                unknown = f"no tool and no number: {_brief(word)!r}; help says what there is\n"
                screen.write(HELP if word == "help" else unknown)

    def _action(self, word: str, rest: str) -> str | None:
        if word == "raw":
            return rest
        if word in self._numbers:
            return self._call(self._clicker, self._actions[self._numbers.index(word)])
        return self._call(word, rest) if word in self._parameters else None

    def _call(self, tool: str, value: str) -> str:
        """Write a call; its arguments are a JSON object, or, of a tool with one parameter, the words as they are.

        Raises:
            ConfigError: for words that are no arguments of the tool.
        """
        names = self._parameters[tool]
        with boundary("JSON") as crossing:
            arguments = value_of(value) if value.lstrip().startswith("{") else None
        if crossing.fault is None and isinstance(arguments, dict):
            return write_arguments(tool, arguments)
        if len(names) > 1 or (not names and value):
            example = json.dumps(dict.fromkeys(names, "…"), ensure_ascii=False)
            raise ConfigError(
                f"{tool} takes {counted(len(names), 'argument')}; write: {tool} {example if names else ''}"
            )
        return write_arguments(tool, dict.fromkeys(names, value))

    @property
    def _clicker(self) -> str:
        """The tool that takes the listed actions: ``click``, or the last one."""
        return "click" if "click" in self._parameters else list(self._parameters)[-1]

    @property
    def _numbers(self) -> list[str]:
        return [str(number) for number in range(1, len(self._actions) + 1)]

    def _show(self, screen: Screen, page: str, state: Mapping[str, Any]) -> None:
        self._write(screen, "page", page)
        listed = state.get("actions") if self._parameters else None
        self._actions = [str(action) for action in listed] if isinstance(listed, list) else []
        if self._actions:
            numbers = "   ".join(f"[{number}] {action}" for number, action in enumerate(self._actions, start=1))
            screen.write(f"(your keys, not shown to the agent)  {numbers}\n")

    def _write(self, screen: Screen, title: str, text: str) -> None:
        screen.write(f"--- {title} ---\n{text}\n")

    def _note(self, record: Mapping[str, Any]) -> None:
        if self._out is not None:
            with self._out.open("a", encoding="utf-8") as file:
                text = json.dumps(record, ensure_ascii=False, default=repr)
                file.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def _brief(text: str) -> str:
    """Return what was typed as it may be shown: without control characters, and not endless."""
    shown = text if len(text) <= MOST_ECHOED else f"{text[:MOST_ECHOED]}… ({len(text):,} characters)"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in shown)


def forgiving(stream: Any) -> Any:
    """Return a text stream that neither bytes of another encoding nor half a surrogate pair can break."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def _goal(environment: Environment, task_id: str) -> str:
    from intraskill.environments.shopworld.world import Shop

    if not isinstance(environment, Shop):
        with boundary("solution") as crossing:
            if (actions := solution_of(environment, task_id)) is not None:
                return "\n".join(map(str, actions))
        return crossing.fault or "this environment keeps no goal and no solution that could be shown"
    return "\n".join(f"{name}: {value}" for name, value in asdict(environment.shop_task(task_id).goal).items())


DIALECTS = ("shopsim-lease", "webshop-agentgym")
MARKS = {"ok": "ok      ", "violated": "VIOLATED", "skipped": "skipped "}


def add(verb: Verb) -> None:
    """Register the commands."""
    parser = verb("env", "look at, play, check or serve an environment, such as env.name=planted", never)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, run: Callable[[argparse.Namespace, Config], int]) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(command=lambda arguments, overrides: _stoppable(run, arguments, overrides))
        return sub

    stats = action("stats", "statistics of a world: tasks, texts, catalogue, versions", _stats)
    stats.add_argument("--json", action="store_true", help="print JSON instead of tables")
    stats.add_argument("--episodes", type=whole("[0, inf)"), default=12, help="random episodes played to measure pages")
    manifest = "task ids per split of a shop: written to FILE, or compared with it where it is there"
    stats.add_argument("--manifest", metavar="FILE", help=manifest)
    prove = argparse.BooleanOptionalAction
    stats.add_argument("--prove", action=prove, default=True, help="prove that every task of a shop can be solved")
    play = action("play", "play an episode in the terminal and see exactly what the agent sees", _play)
    play.add_argument("--task", metavar="ID", help="which task (default: drawn by --seed)")
    play.add_argument("--split", default="train", help="where the task is drawn from; never test")
    play.add_argument("--seed", type=whole("[0, inf)"), default=0, help="which task is drawn")
    play.add_argument("--out", metavar="FILE", help="append the transcript to a JSON-lines file")
    play.add_argument("--reveal", action="store_true", help="show the goal once the episode is over")
    check = action("check", "play an environment and say which rules of the contract it breaks", _check)
    check.add_argument("--tasks", type=whole(), default=6, help="tasks that are played, none of test")
    check.add_argument("--seed", type=whole("[0, inf)"), default=0, help="which tasks and actions")
    check.add_argument("--json", action="store_true", help="print JSON instead of lines")
    check.add_argument("--actions", metavar="FILE", help="JSON lines of task_id, actions, reward: solutions to play")
    check.add_argument("--strict", action="store_true", help="fail when a rule could not be checked, too")
    serve = action("serve", "serve a shop over HTTP to other people's trainers", _serve)
    serve.add_argument("--dialect", choices=DIALECTS, default=DIALECTS[0], help="what its clients speak")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; loopback unless named")
    serve.add_argument("--port", type=whole("[0, 65535]"), default=5700, help="0 = any free one")
    serve.add_argument("--splits", default=",".join(OPENED), help="add test to serve it too")
    serve.add_argument("--slots", type=whole(), default=256, help="episodes at once")
    serve.add_argument("--lease-seconds", type=real(), default=600.0, help="an unused slot is taken back after these")


def _stoppable(
    run: Callable[[argparse.Namespace, Config], int], arguments: argparse.Namespace, overrides: list[str]
) -> int:
    """Run an action; Ctrl-C ends it without a word about saved steps: there are none."""
    try:
        return run(arguments, compose(overrides, default=False))
    except KeyboardInterrupt:
        say("\nintraskill: stopped", error=True)
        return 130


def _stats(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.report.environment import print_statistics, statistics, token_counter
    from intraskill.rounds.setup import environment_of

    environment = environment_of(config)
    if arguments.manifest:
        _keep_manifest(Path(arguments.manifest), environment)
    counter = token_counter(config)
    found = statistics(environment, episodes=arguments.episodes, count_tokens=counter, prove=arguments.prove)
    if arguments.json:
        say_json(found, indent=2)
    else:
        print_statistics(found)
    return 1 if found.get("unsolvable") else 0


def _keep_manifest(path: Path, environment: Environment) -> None:
    from intraskill.environments.shopworld.splits import check_manifest
    from intraskill.environments.shopworld.world import Shop
    from intraskill.store.user_files import read_user_json

    if not isinstance(environment, Shop):
        raise ConfigError(f"--manifest={path}: only a shop of this process has a manifest; leave the option out")
    try:
        if not path.exists():
            path.write_text(json.dumps(environment.manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            return
        found = read_user_json(path, where=f"--manifest={path}")
    except OSError as error:
        raise ArtifactError(f"--manifest={path} is neither a manifest nor a place for one ({error})") from error
    check_manifest(found if isinstance(found, dict) else {}, environment.manifest)


def _play(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.rounds.setup import environment_of

    require_place(arguments.out)
    environment = environment_of(config)
    with boundary("its tasks or tools cannot be read", passing=(IntraSkillError,)) as crossing:
        task = choose_task(environment, arguments.task, arguments.split, arguments.seed)
        table = Table(environment, task, out=arguments.out, reveal=arguments.reveal)
    if crossing.fault is not None:
        raise ConfigError(f"env.name={config.env.name}: {crossing.fault}; intraskill env check says what is wrong")
    return table.play(forgiving(sys.stdin or io.StringIO()), Screen())  # a closed standard input is None


def _check(arguments: argparse.Namespace, config: Config) -> int:
    from dataclasses import asdict

    from intraskill.environments.contract.check import check_environment, untested, violated
    from intraskill.environments.contract.solutions import read_solutions
    from intraskill.rounds.setup import environment_of

    if arguments.tasks < 1:
        raise ConfigError(f"--tasks={arguments.tasks}: a check plays at least 1 task")
    environment = environment_of(config)
    findings = check_environment(
        environment,
        again=lambda: environment_of(config),
        tasks=arguments.tasks,
        seed=arguments.seed,
        solutions=read_solutions(Path(arguments.actions), environment) if arguments.actions else (),
    )
    unknown = untested(findings) if arguments.strict else []
    if arguments.json:
        say_json([asdict(finding) for finding in findings], indent=2)
    for finding in () if arguments.json else findings:
        place = f"; {finding.where}" if finding.where else ""
        seen = f"{place}: {finding.what}" if finding.what else ""
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        say(f"{MARKS[finding.status]} {finding.rule}: {finding.promise}{seen}{remedy}")
        for line in finding.more:
            say(f"         {line}")
        if (left := finding.count - 1 - len(finding.more)) > 0:
            say(f"         and {left} more")
    if unknown and not arguments.json:
        say(f"--strict: not checked are {offenders(unknown, len(unknown))}")
    return 1 if violated(findings) or unknown else 0


def _serve(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.environments.remote.transport import is_loopback
    from intraskill.environments.serve import ServeSettings, ShopServer
    from intraskill.environments.shopworld.world import Shop
    from intraskill.rounds.setup import environment_of

    shop = environment_of(config)
    if not isinstance(shop, Shop):
        raise ConfigError(f"env.name={config.env.name} is no shop in this process; serve shopworld or your own files")
    splits = tuple(split.strip() for split in arguments.splits.split(",") if split.strip())
    if not splits:
        raise ConfigError(f"--splits={arguments.splits!r} names no split; name one or more of {', '.join(SPLITS)}")
    settings = ServeSettings(
        dialect=arguments.dialect,
        host=arguments.host,
        port=arguments.port,
        splits=splits,
        slots=arguments.slots,
        lease_s=arguments.lease_seconds,
    )
    server = ShopServer(shop, settings)
    if not is_loopback(arguments.host):
        say(f"intraskill: {arguments.host} lets other machines in, and there is no password", error=True)
    programme = server.programme
    say(
        f"{server.url} serves {counted(len(programme.tasks), 'task')} of {', '.join(programme.splits)} in "
        f"{arguments.dialect}, version {shop.version}; Ctrl-C stops it",
        flush=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with Ctrl-C ignored
        signal.signal(number, _interrupt)
    try:
        server.serve()
    except KeyboardInterrupt:
        say("\nintraskill: stopped serving", error=True)
    finally:
        server.close()
    return 0


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
