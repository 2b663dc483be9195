"""What does the tiny editor know? Its edits against the best ones, in planted worlds that it was not trained on.

Writes to docs/results: tiny_editor_probes.csv, single edits by the kind of the best one, and tiny_editor_passes.csv,
what whole passes are worth. An edit agrees when its expected gain is within `LEAST_GAIN` of that of the best edit
(`titled_alike`). Beside it stand two editors that cannot read: one always answers NOOP, one always CREATEs draft 1.

    python scripts/probe_tiny_editor.py [--policy DIR] [--run DIR] [--out DIR]      # about four minutes on one core
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from csv_rows import write_csv
from transformers.utils import logging

from intraskill.config.config import Config
from intraskill.config.learning import RolloutConfig
from intraskill.editor.actions import ACTIONS, attempt
from intraskill.editor.domain import Stream
from intraskill.editor.domains.planted import CASES, PlantedDomain, rule_chunk
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import EvidenceLimits
from intraskill.editor.prompt import PromptSize
from intraskill.editor.scoring import answer_of
from intraskill.editor.states import EditState, begin, next_state
from intraskill.editor.tiny.tiny_editor import LEAK_FILTER, traces
from intraskill.editor.tiny.traces import LEAST_GAIN, Value, best_answer, titled_alike
from intraskill.method.randomness import child_seed
from intraskill.method.rollouts import Episode
from intraskill.method.skill.skill import BARE, Chunk, Skill
from intraskill.rl.policy import load_policy
from intraskill.rl.trainer import TorchLearner

ROOT = Path(__file__).parents[1]
WORLDS = 10  # seed of the probed worlds: between those of experiments and those of training
GREEDY, SAMPLED = 0.001, 1.0
CONDITIONS = ("absent", "general", "vague", "narrow", "harmful", "clash")

Answers = Callable[[Sequence[EditState]], list[str]]


def editor(policy: Path, run: Path | None, temperature: float) -> Answers:
    """Return the answers of a tiny editor to edit states, after the training of ``run`` if there is one."""
    environment = EditorEnvironment(LEAK_FILTER, terse=True)
    rollout = RolloutConfig(temperature=temperature, max_turns=1, max_new_tokens=16, max_context=1024, batch=32)
    learner = TorchLearner(load_policy(policy), environment, Config(rollout=rollout))
    if run is not None:
        learner.load(run / "editor" / "checkpoint")

    def answers(states: Sequence[EditState]) -> list[str]:
        tasks = environment.place(states)
        found = learner.run([Episode(task, Skill(""), BARE, 0, child_seed(0, "probe", task.id)) for task in tasks])
        return [answer_of(one) for one in found]

    return answers


def always_noop(states: Sequence[EditState]) -> list[str]:
    """Leave every skill as it is."""
    return ["NOOP"] * len(states)


def always_create(states: Sequence[EditState]) -> list[str]:
    """Add the first draft, whatever it says."""
    return ["CREATE\ndraft 1" if state.drafts else "NOOP" for state in states]


def path_states(evidence: int, astray: float, number: int) -> list[EditState]:
    """Return states along passes over the probed worlds; ``astray`` as in `EditorRecipe`."""
    found = traces(WORLDS, number, careless=0.0, astray=astray, evidence=(evidence,), seed=0)
    return [replace(trace.state, id=f"{trace.state.id}/{evidence}") for trace in found]


def told_states(number: int) -> dict[str, list[EditState]]:
    """Return states whose evidence is the same and whose skill says something else on its topic: can it match?"""
    domain = PlantedDomain(seed=WORLDS, worlds=number)
    found: dict[str, list[EditState]] = {name: [] for name in CONDITIONS}
    for stream in domain.streams("train"):
        unit = next((u for u in stream.units if len(u.drafts) == 2), None)
        if unit is None:
            continue
        topic, case = unit.id.split("/")[1:3]
        title, other = unit.drafts[0].title, CASES[CASES.index(case) - 1]
        rest = tuple(chunk for chunk in stream.skill.chunks if chunk.title != title)
        vague, narrow = rule_chunk(topic, "vague", 0), rule_chunk(topic, "narrow", 1, other)
        texts: dict[str, tuple[Chunk, ...]] = {
            "absent": (),
            "general": (rule_chunk(topic, "general", 0),),
            "vague": (vague,),
            "narrow": (narrow,),
            "harmful": (rule_chunk(topic, "harmful", 0),),
            "clash": (vague, narrow),
        }
        for name, chunks in texts.items():
            skill = Skill(stream.skill.preamble, (*rest[:1], *chunks, *rest[1:]))
            found[name].append(EditState(f"{stream.id}/told/{name}", skill, (unit,), ()))
    return found


def judged(states: Sequence[EditState], answers: Sequence[str]) -> list[dict[str, Any]]:
    """Return for every state the kinds of best and given answer, and whether the worth agrees."""
    domain, rows = PlantedDomain(seed=WORLDS, worlds=1000), []
    for state, answer in zip(states, answers, strict=True):
        value: Value = domain.value(state.id.split("/")[0])
        best, wanted = best_answer(state, value, LEAK_FILTER, possible=titled_alike)
        made = attempt(answer, state.skill, LEAK_FILTER, drafts=state.drafts)
        kind = "invalid" if made.invalid or made.action is None else made.action.name
        agrees = kind != "invalid" and value(made.skill) >= value(wanted.skill) - LEAST_GAIN
        rows.append({"best": best.split()[0], "given": kind, "agrees": agrees})
    return rows


def table(name: str, states: Sequence[EditState], given: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Return one row per kind of best answer, and one for all: agreement and confusions of every editor."""
    rows = []
    for who, answers in given.items():
        found = judged(states, answers)
        for kind in ("all", *ACTIONS):
            own = [row for row in found if kind in ("all", row["best"])]
            if own:
                counts = Counter(row["given"] for row in own)
                shares = {f"gave_{k.lower()}": counts[k] for k in (*ACTIONS, "invalid")}
                agree = sum(row["agrees"] for row in own)
                rows.append({"states": name, "editor": who, "best": kind, "number": len(own), "agree": agree} | shares)
    return rows


def passes(answers: Answers, evidence: int, streams: Sequence[Stream], domain: PlantedDomain) -> list[float]:
    """Return the expected score of the skill that one pass over each stream ends with."""
    chains = {stream.id: begin(stream, 0, order="source", seed=0) for stream in streams}
    limits, size = EvidenceLimits(batch=evidence), PromptSize(lambda text: len(text.split()))
    while active := [key for key, chain in chains.items() if chain.rest]:
        states = [next_state(chains[key], domain, limits, size, anchors=0, seed=0) for key in active]
        for key, state, answer in zip(active, states, answers(states), strict=True):
            made = attempt(answer, state.skill, LEAK_FILTER, drafts=state.drafts)
            chains[key] = chains[key].after(made.skill, len(state.units))
    return [domain.value(key)(chain.skill) for key, chain in chains.items()]


def best_editor(domain: PlantedDomain, streams: Iterable[Stream]) -> Answers:
    """Return the best answers, known on paper."""
    values = {stream.id: domain.value(stream.id) for stream in streams}
    return lambda states: [
        best_answer(state, values[state.id.split("/")[0]], LEAK_FILTER, possible=titled_alike)[0] for state in states
    ]


def main() -> None:
    """Run every probe, print and write both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, default=ROOT / "src" / "intraskill" / "policies" / "tiny_editor")
    parser.add_argument("--run", type=Path, help="a run of `intraskill editor train` that began with these weights")
    parser.add_argument("--states", type=int, default=320)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    readers = {
        "greedy": editor(options.policy, options.run, GREEDY),
        "sampled": editor(options.policy, options.run, SAMPLED),
    }
    everyone: dict[str, Answers] = {**readers, "noop": always_noop, "create": always_create}
    sets = {"best path, 1 piece": path_states(1, 0.0, options.states // 2)}
    sets |= {f"astray, {k} pieces": path_states(k, 0.4, options.states) for k in (1, 2, 4)}
    sets |= {f"skill says: {name}": states for name, states in told_states(options.states // 4).items()}
    rows = []
    for name, states in sets.items():
        found = table(name, states, {who: answers(states) for who, answers in everyone.items()})
        rows += found
        print(
            *(f"{r['states']:22s} {r['editor']:8s} {r['best']:6s} {r['agree']}/{r['number']}" for r in found), sep="\n"
        )
    write_csv(options.out / "tiny_editor_probes.csv", rows)
    domain = PlantedDomain(seed=WORLDS, worlds=options.worlds)
    streams = domain.streams("train")
    lines = []
    for evidence in (1, 4):
        for who, answers in {**everyone, "best": best_editor(domain, streams)}.items():
            worths = passes(answers, evidence, streams, domain)
            lines.append({"evidence": evidence, "editor": who, "worlds": len(worths), "score": round(fmean(worths), 4)})
            print(*lines[-1].values(), flush=True)
    write_csv(options.out / "tiny_editor_passes.csv", lines)


if __name__ == "__main__":
    main()
