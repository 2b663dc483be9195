"""`intraskill env`: look at, play, check and serve an environment."""

import argparse
import io
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from intraskill.commands import Verb, never, until_reader_leaves
from intraskill.config import Config
from intraskill.environments.protocol import Environment
from intraskill.method.errors import ArtifactError, ConfigError, counted
from intraskill.method.tasks import OPENED, SPLITS

Compose = Callable[[Sequence[str]], Config]
DIALECTS = ("shopsim-lease", "webshop-agentgym")
MARKS = {"ok": "ok      ", "violated": "VIOLATED", "skipped": "skipped "}


def add(verb: Verb, compose: Compose) -> None:
    """Register the commands; ``compose`` turns overrides such as ``env.options.language=zh`` into a config."""
    parser = verb("env", "look at, play, check and serve an environment (env.… overrides say which)", never)
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, text: str, run: Callable[[argparse.Namespace, Config], int]) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.set_defaults(command=lambda arguments, overrides: _ended(lambda: run(arguments, compose(overrides))))
        return sub

    stats = action("stats", "statistics of a world: tasks, texts, catalogue, versions", _stats)
    stats.add_argument("--json", action="store_true", help="print JSON instead of tables")
    stats.add_argument("--episodes", type=int, default=12, help="random episodes that are played to measure pages")
    manifest = "task ids per split of a shop: written to FILE, or compared with it where it is there"
    stats.add_argument("--manifest", metavar="FILE", help=manifest)
    prove = argparse.BooleanOptionalAction
    stats.add_argument("--prove", action=prove, default=True, help="prove that every task of a shop can be solved")
    play = action("play", "play an episode in the terminal and see exactly what the agent sees", _play)
    play.add_argument("--task", metavar="ID", help="which task (default: drawn by --seed)")
    play.add_argument("--split", default="train", help="where the task is drawn from; never test")
    play.add_argument("--seed", type=int, default=0, help="which task is drawn")
    play.add_argument("--out", metavar="FILE", help="append the transcript to a JSON-lines file")
    play.add_argument("--reveal", action="store_true", help="show the goal once the episode is over")
    check = action("check", "play an environment and say which rules of the contract it breaks", _check)
    check.add_argument("--tasks", type=int, default=6, help="tasks that are played, none of test")
    check.add_argument("--seed", type=int, default=0, help="which tasks and actions")
    check.add_argument("--json", action="store_true", help="print JSON instead of lines")
    serve = action("serve", "serve a shop over HTTP to other people's trainers", _serve)
    serve.add_argument("--dialect", choices=DIALECTS, default=DIALECTS[0], help="what its clients speak")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on; loopback unless named")
    serve.add_argument("--port", type=int, default=5700, help="0 = any free one")
    serve.add_argument("--splits", default=",".join(OPENED), help="add test to serve it too")
    serve.add_argument("--slots", type=int, default=256, help="episodes at once")
    serve.add_argument("--lease-seconds", type=float, default=600.0, help="an unused slot is taken back after these")


def _ended(act: Callable[[], int]) -> int:
    """Run an action; a reader that goes away and Ctrl-C end it without a word about saved steps: there are none."""
    try:
        return until_reader_leaves(act)
    except KeyboardInterrupt:
        sys.stderr.write("\nintraskill: stopped\n")
        return 130


def _stats(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.assembly import environment_of
    from intraskill.report.env_statistics import statistics, token_counter
    from intraskill.report.env_tables import print_statistics

    environment = environment_of(config)
    if arguments.manifest:
        _keep_manifest(Path(arguments.manifest), environment)
    counter = token_counter(config)
    found = statistics(environment, episodes=arguments.episodes, count_tokens=counter, prove=arguments.prove)
    if arguments.json:
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:
        print_statistics(found)
    return 1 if found.get("unsolvable") else 0


def _keep_manifest(path: Path, environment: Environment) -> None:
    from intraskill.environments.shopworld.splits import check_manifest
    from intraskill.environments.shopworld.world import Shop

    if not isinstance(environment, Shop):
        raise ConfigError(f"--manifest={path}: only a shop of this process has a manifest; leave the option out")
    try:
        if not path.exists():
            path.write_text(json.dumps(environment.manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            return
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ArtifactError(f"--manifest={path} is neither a manifest nor a place for one ({error})") from error
    check_manifest(found if isinstance(found, dict) else {}, environment)


def _play(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.assembly import environment_of
    from intraskill.commands.env_play import Table, choose_task, require_place

    require_place(arguments.out)
    environment = environment_of(config)
    task = choose_task(environment, arguments.task, arguments.split, arguments.seed)
    table = Table(environment, task, out=arguments.out, reveal=arguments.reveal)
    return table.play(sys.stdin or io.StringIO(), sys.stdout)  # a closed standard input is None


def _check(arguments: argparse.Namespace, config: Config) -> int:
    from dataclasses import asdict

    from intraskill.assembly import environment_of
    from intraskill.environments.contract import check_environment

    if arguments.tasks < 1:
        raise ConfigError(f"--tasks={arguments.tasks}: a check plays at least 1 task")
    findings = check_environment(
        environment_of(config), again=lambda: environment_of(config), tasks=arguments.tasks, seed=arguments.seed
    )
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False) + "\n")
    for finding in () if arguments.json else findings:
        place = f"; {finding.where}" if finding.where else ""
        seen = f"{place}: {finding.what}" if finding.what else ""
        remedy = f"; {finding.remedy}" if finding.remedy else ""
        sys.stdout.write(f"{MARKS[finding.status]} {finding.rule}: {finding.promise}{seen}{remedy}\n")
    return 1 if any(finding.status == "violated" for finding in findings) else 0


def _serve(arguments: argparse.Namespace, config: Config) -> int:
    from intraskill.assembly import environment_of
    from intraskill.environments.remote.settings import is_loopback
    from intraskill.environments.serve import ServeSettings, ShopServer
    from intraskill.environments.shopworld.world import Shop

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
        sys.stderr.write(f"intraskill: {arguments.host} lets other machines in, and there is no password\n")
    programme = server.programme
    sys.stdout.write(
        f"{server.url} serves {counted(len(programme.tasks), 'task')} of {', '.join(programme.splits)} in "
        f"{arguments.dialect}, version {shop.version}; Ctrl-C stops it\n"
    )
    sys.stdout.flush()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs with Ctrl-C ignored
        signal.signal(number, _interrupt)
    try:
        server.serve()
    except KeyboardInterrupt:
        sys.stderr.write("\nintraskill: stopped serving\n")
    finally:
        server.close()
    return 0


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
