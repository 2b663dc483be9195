"""Judge the firewall by a red-team set that was written and committed before its author had read the firewall.

    python scripts/firewall_independent.py [--out VERDICTS.csv] [--missed]

Each row of `tests/method/red_team_independent.jsonl` is one proposal with its operator. It goes the way of an analyst's
proposal, through `intraskill.runtime.sieve`, beside the chunks that it names as present (``skill``) or replaces, with
the secrets of the small shop of seed 11 in the row's language. Every ``leak`` is a real secret of that shop; a test
says so. `--out` takes one line per proposal: what refused it, or nothing.

Only a firewall that was not changed after a look at the set is measured out of sample. `docs/trace2skill.md` names its
commit, and `docs/results/firewall_independent.csv` keeps its verdicts: write those of later versions to another file.
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
from intraskill.environments.shopworld.secrets import shop_secrets
from intraskill.method.errors import SkillFormatError
from intraskill.method.firewall import Firewall
from intraskill.method.proposals import Proposal
from intraskill.method.skill import Chunk, Skill
from intraskill.runtime.sieve import Memory, Sieve

ROOT = Path(__file__).parents[1]
SET = ROOT / "tests" / "method" / "red_team_independent.jsonl"
PRESET, SEED = "small", 11
# A proposal needs chunks to replace; these say nothing that any row could copy.
REPLACED = (Chunk("Parcels", "Keep the receipt of each parcel."), Chunk("Thanks", "Say thank you at the end."))


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


def read_set() -> list[dict[str, Any]]:
    """Return the rows of the set."""
    return [json.loads(line) for line in SET.read_text("utf-8").splitlines()]


@cache
def shop(language: str) -> ShopWorld:
    """Return the shop that the leaks of this language come from."""
    return ShopWorld(PRESET, SEED, language)


@cache
def guard(language: str) -> Firewall:
    """Return the firewall of `shop`."""
    return Firewall(shop_secrets(shop(language)))


def refused_by(row: Mapping[str, Any]) -> str:
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
    sieve = Sieve(Skill("", (*replaced, *present)), guard(row["world"]), Memory(round_index=1))
    if sieve.compile(sieve.screen([proposal]), limit=1):
        return ""
    return next(iter(sieve.refused.values())).rejections[0].rule if sieve.refused else f"({sieve.fallen[row['id']]})"


def verdicts() -> list[Verdict]:
    """Judge the whole set."""
    return [
        Verdict(
            row["id"], row["label"], row["kind"], row["world"], "yes" if row.get("debatable") else "", refused_by(row)
        )
        for row in read_set()
    ]


def summary(found: Sequence[Verdict]) -> Iterator[tuple[str, str, str, float]]:
    """Yield rows (what, name, world, value): counts by kind and rule, shares with their Wilson intervals."""
    world = f"{PRESET}, seed {SEED}"
    bad, good = ([v for v in found if v.label == label] for label in ("malicious", "harmless"))
    for what, chosen in (
        ("caught", [v for v in bad if v.refused_by]),
        ("missed", [v for v in bad if not v.refused_by]),
    ):
        yield from ((f"independent malicious: {what}", *row) for row in _counts((v.kind for v in chosen), world))
    refused = [v for v in good if v.refused_by]
    yield from (("independent harmless: refused by", *row) for row in _counts((v.refused_by for v in refused), world))
    sure = [v for v in good if not v.debatable]
    for what, some in (("malicious", bad), ("harmless", good), ("harmless, none debatable", sure)):
        hits = sum(bool(v.refused_by) for v in some)
        low, high = wilson(hits, len(some))
        for name, value in (("proposals", len(some)), ("refused", hits), ("share", hits / len(some))):
            yield f"independent {what}", name, world, round(value, 4)
        yield from ((f"independent {what}", name, world, round(v, 4)) for name, v in (("low", low), ("high", high)))


def _chunk(item: Mapping[str, Any]) -> Chunk:
    return Chunk(item["title"], (item["body"] * item.get("times", 1)).strip())


def _counts(names: Iterable[str], world: str) -> Iterator[tuple[str, str, float]]:
    yield from ((name, world, float(count)) for name, count in sorted(Counter(names).items()))


def main() -> None:
    """Write one line per proposal and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write one line per proposal")
    parser.add_argument("--missed", action="store_true", help="print every wrong verdict with its reason")
    arguments = parser.parse_args()
    found = verdicts()
    if arguments.out:
        write_csv(arguments.out, [verdict._asdict() for verdict in found])
    print(*summary(found), sep="\n")
    if arguments.missed:
        why = {row["id"]: row["why"] for row in read_set()}
        wrong = (v for v in found if bool(v.refused_by) != (v.label == "malicious"))
        print(*(f"{v.id}: {why[v.id]} {v.refused_by}" for v in wrong), sep="\n")


if __name__ == "__main__":
    main()
