"""Judge the leak filter by red-team sets that were written and committed before their authors had read the leak filter.

    python scripts/leak_filter_unseen.py [--set first|second] [--out VERDICTS.csv] [--missed]

Each row of a set is one proposal with its operator. It goes the way of a proposer's proposal, through
`intraskill.proposers.proposal_filter`, beside the chunks that it names as present (``skill``) or replaces, with the
secrets of the set's small shop in the row's language. Every ``leak`` is a real secret of that shop; a test says so.
`--out` takes one line per proposal: what refused it, or nothing.

Only a leak filter that was not changed after a look at a set is measured out of sample by it. By now both sets were
looked at to change the leak filter. `docs/research/leak_filter.md` names the commits, and `docs/results/` keeps
their verdicts, in `leak_filter_independent.csv` and `leak_filter_second.csv`: write later ones to other files.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from csv_rows import write_csv
from operator_power import wilson

from intraskill.environments.shopworld import ShopWorld
from intraskill.method.errors import SkillFormatError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.proposers.proposal_filter import Memory, ProposalFilter

ROOT = Path(__file__).parents[1]
PRESET = "small"
# A proposal needs chunks to replace; these say nothing that any row could copy.
REPLACED = (Chunk("Parcels", "Keep the receipt of each parcel."), Chunk("Thanks", "Say thank you at the end."))


class RedTeam(NamedTuple):
    """One set.

    Attributes:
        path: of its rows.
        seed: of the shop whose secrets its leaks are.
        prefix: of its rows in `summary`.
    """

    path: Path
    seed: int
    prefix: str


SETS = {
    "first": RedTeam(ROOT / "tests" / "method" / "leakage" / "red_team_independent.jsonl", 11, "independent"),
    "second": RedTeam(ROOT / "tests" / "method" / "leakage" / "red_team_second.jsonl", 23, "second independent"),
}


class Verdict(NamedTuple):
    """What became of one proposal.

    Attributes:
        id: of the row in the set.
        label: ``malicious`` or ``harmless``.
        kind: what sort of leak, attack or lesson.
        world: language of the shop whose secrets were guarded.
        debatable: ``yes`` for a harmless row that a strict reader may want refused.
        refused_by: first rule that fired, ``(chunk)`` where no chunk could be built, empty where it passed.
    """

    id: str
    label: str
    kind: str
    world: str
    debatable: str
    refused_by: str


def read_set(name: str = "first") -> list[dict[str, Any]]:
    """Return the rows of a set."""
    return [json.loads(line) for line in SETS[name].path.read_text("utf-8").splitlines()]


@cache
def shop(language: str, name: str = "first") -> ShopWorld:
    """Return the shop that a set's leaks of this language come from."""
    return ShopWorld(PRESET, SETS[name].seed, language)


@cache
def guard(language: str, name: str = "first") -> LeakFilter:
    """Return the leak filter of `shop`."""
    return LeakFilter(shop(language, name).secrets())


def refused_by(row: Mapping[str, Any], name: str = "first") -> str:
    """Return the first rule that refuses a row's proposal, or an empty string."""
    try:
        chunks = tuple(_chunk(item) for item in row["chunks"])
        present = tuple(_chunk(item) for item in row.get("skill", ()))
    except SkillFormatError:
        return "(chunk)"
    replaced = REPLACED[: row["targets"]]
    targets = tuple(chunk.id for chunk in replaced)
    proposal = Proposal(
        row["operator"], targets, chunks, row["root_cause"], expected_effect=row["expected_effect"], calls=(row["id"],)
    )
    proposal_filter = ProposalFilter(Skill("", (*replaced, *present)), guard(row["world"], name), Memory(round_index=1))
    if proposal_filter.compile(proposal_filter.screen([proposal]), limit=1):
        return ""
    return (
        next(iter(proposal_filter.refused.values())).rejections[0].rule
        if proposal_filter.refused
        else f"({proposal_filter.fallen[row['id']]})"
    )


def verdicts(name: str = "first") -> list[Verdict]:
    """Judge a whole set."""
    return [
        Verdict(
            *(row[key] for key in ("id", "label", "kind", "world")),
            "yes" if row.get("debatable") else "",
            refused_by(row, name),
        )
        for row in read_set(name)
    ]


def summary(found: Sequence[Verdict], name: str = "first") -> Iterator[tuple[str, str, str, float]]:
    """Yield rows (what, name, world, value): counts by kind and rule, shares with their Wilson intervals."""
    world, prefix = f"{PRESET}, seed {SETS[name].seed}", SETS[name].prefix
    bad, good = ([v for v in found if v.label == label] for label in ("malicious", "harmless"))
    for what, chosen in (
        ("caught", [v for v in bad if v.refused_by]),
        ("missed", [v for v in bad if not v.refused_by]),
    ):
        yield from ((f"{prefix} malicious: {what}", *row) for row in _counts((v.kind for v in chosen), world))
    refused = [v for v in good if v.refused_by]
    yield from ((f"{prefix} harmless: refused by", *row) for row in _counts((v.refused_by for v in refused), world))
    sure = [v for v in good if not v.debatable]
    for what, some in (("malicious", bad), ("harmless", good), ("harmless, none debatable", sure)):
        hits = sum(bool(v.refused_by) for v in some)
        low, high = wilson(hits, len(some))
        for column, value in (("proposals", len(some)), ("refused", hits), ("share", hits / len(some))):
            yield f"{prefix} {what}", column, world, round(value, 4)
        yield from ((f"{prefix} {what}", column, world, round(v, 4)) for column, v in (("low", low), ("high", high)))


def _chunk(item: Mapping[str, Any]) -> Chunk:
    return Chunk(item["title"], (item["body"] * item.get("times", 1)).strip())


def _counts(names: Iterable[str], world: str) -> Iterator[tuple[str, str, float]]:
    yield from ((name, world, float(count)) for name, count in sorted(Counter(names).items()))


def main() -> None:
    """Write one line per proposal and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, default="first", help="which set (default: first)")
    parser.add_argument("--out", type=Path, help="write one line per proposal")
    parser.add_argument("--missed", action="store_true", help="print every wrong verdict with its reason")
    arguments = parser.parse_args()
    found = verdicts(arguments.set)
    if arguments.out:
        write_csv(arguments.out, [verdict._asdict() for verdict in found])
    print(*summary(found, arguments.set), sep="\n")
    if arguments.missed:
        why = {row["id"]: row["why"] for row in read_set(arguments.set)}
        wrong = (v for v in found if bool(v.refused_by) != (v.label == "malicious"))
        print(*(f"{v.id}: {why[v.id]} {v.refused_by}" for v in wrong), sep="\n")


if __name__ == "__main__":
    main()
