"""Each of the five operators as an experiment with a known answer: taken when it helps, refused when it does not."""

import importlib.util
from pathlib import Path

import pytest
from method_records import edit, ids, pairs_of, skill
from planted_runs import planted_config

from intraskill.environments.planted import PlantedChunk, PlantedEdit, PlantedWorld
from intraskill.method.errors import ConfigError
from intraskill.method.gate.decision import decide
from intraskill.method.gate.designs import states
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.rules import Fate, GateRule
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.edits import slots
from intraskill.method.skill.skill import BARE, Skill
from intraskill.rounds.loop import read_state, run

SCRIPT = Path(__file__).parents[2] / "scripts" / "operator_power.py"
SPEC = importlib.util.spec_from_file_location("operator_power", SCRIPT)
assert SPEC and SPEC.loader
power = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(power)

STRONG, GATES = 0.2, 12
MOST, FEW = 0.75, 0.25
"""A strong edit is taken in at least, a harmful one in at most, this share of the twelve seeded gates."""
EXACT = 1e-9
FAILED = Rollout("planted-train-0000", BARE, "w", 0, (1,), (2,), (1,), (0.0,), 0.0)


@pytest.fixture(scope="module")
def shares() -> dict[str, dict[tuple[str, str], float]]:
    found = {}
    for truth in ("helps", "harms"):
        counts = power.taken_shares(
            dict.fromkeys(power.OPERATORS, truth), interaction=0.0, pairs=400, gates=GATES, seed=1, change=STRONG
        )
        found[truth] = {key: taken / GATES for key, taken in counts.items()}
    return found


@pytest.mark.parametrize("operator", power.OPERATORS)
def test_a_strong_edit_is_taken_when_it_helps_and_refused_when_it_harms(shares, operator) -> None:
    for policy in ("positive_topk", "probability"):
        assert shares["helps"][operator, policy] >= MOST, policy
        assert shares["harms"][operator, policy] <= FEW, policy
        assert not shares["harms"][operator, policy] >= MOST
    assert shares["harms"][operator, "fdr"] == 0.0
    assert shares["helps"][operator, "fdr"] >= shares["harms"][operator, "fdr"]


@pytest.mark.parametrize(
    ("removes", "adds", "shown"),
    [
        ("", "X", ["", "X"]),
        ("a", "X", ["", "a", "X"]),
        ("a", "", ["", "a"]),
        ("ab", "X", ["", "a", "b", "ab", "X"]),
        ("a", "XY", ["", "a", "X", "Y", "XY"]),
    ],
)
def test_the_masks_of_each_operator_show_the_states_of_its_experiment(removes, adds, shown) -> None:
    change = edit(removes, adds)
    slot = slots(skill(removes), [change])[0]
    assert set(states(slot)) == {frozenset(ids(names)) for names in shown}


@pytest.mark.parametrize("w", [-0.12, 0.0, 0.12])
def test_the_sum_of_a_merged_pair_is_the_fitted_one_and_sees_two_thirds_of_their_interaction(w) -> None:
    """Each state of the slot twice, no noise: a and b are worth 0.1 each, together 0.2 + w."""
    rows = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1)] * 2
    for merged, truly_better in ((0.2 + w + 0.02, True), (0.2 + w - 0.02, False)):
        delta = [0.0, 0.1, 0.1, 0.2 + w, merged] * 2
        found = fit(pairs_of([[bool(x) for x in row] for row in rows], delta, "abX"))
        assert found.beta_J[:2].sum() == pytest.approx(0.2 + 2 * w / 3, abs=EXACT)
        taken = bool(decide(skill("ab"), [edit("ab", "X")], found, GateRule(9)).taken)
        assert taken == (merged > 0.2 + 2 * w / 3)
        assert (taken == truly_better) == (w == 0.0 or (w > 0.0) == truly_better), "and errs by up to a third of w"


EDITED = PlantedWorld(
    chunks=(
        PlantedChunk("One", 0.05),
        PlantedChunk("Two", 0.05),
        PlantedChunk("Bad", -0.3),
        PlantedChunk("Both", 0.5, missing=True),
        PlantedChunk("Alone", 0.1, missing=True),
    ),
    edits=(PlantedEdit(("One", "Two"), ("Both",)), PlantedEdit(("Bad",))),
)


def test_a_planted_edit_is_proposed_while_it_fits_and_its_new_text_never_alone() -> None:
    found = EDITED.propose([FAILED], EDITED.draft)
    assert [(p.op, [c.title for c in p.chunks]) for p in found] == [
        ("ADD", ["Alone"]),
        ("MERGE", ["Both"]),
        ("DELETE", []),
    ]
    merged = Skill("", tuple(c for c in EDITED.draft.chunks if c.title != "One"))
    assert [p.op for p in EDITED.propose([FAILED], merged)] == ["ADD", "DELETE"]
    assert EDITED.propose([], EDITED.draft) == ()
    assert [p.op for p in EDITED.propose([FAILED], Skill(""))] == ["ADD"] * 3


def test_edits_are_part_of_the_version_and_a_world_without_them_keeps_the_old_one() -> None:
    plain = PlantedWorld(chunks=EDITED.chunks)
    assert plain.version != EDITED.version
    assert PlantedWorld().version == "d6ed8055f056af2e", "every planted result in docs/results was made in this world"


def test_planted_edits_of_unknown_or_no_titles_are_refused() -> None:
    with pytest.raises(ConfigError, match="these must exist, 1: Nowhere"):
        PlantedWorld(edits=({"removes": ["Nowhere"]},))
    with pytest.raises(ConfigError, match="removes something"):
        PlantedEdit((), ("Alone",))


ONE, TWO, BOTH = "Read the whole request", "Compare before choosing", "Read it whole and then compare"


def test_a_run_merges_what_the_planted_world_says(tmp_path) -> None:
    options = {
        "chunks": [
            {"title": ONE, "effect": 0.15},
            {"title": TWO, "effect": 0.15},
            {"title": BOTH, "effect": 0.55, "missing": True},
        ],
        "edits": [{"removes": [ONE, TWO], "adds": [BOTH]}],
        "learning_rate": 0.01,
        "tasks_per_split": {"train": 40, "skill_validation": 300, "model_dev": 10, "audit": 8, "test": 20},
    }
    config = planted_config(tmp_path / "run", **options)
    config.frontier.max_mean, config.rounds = 0.6, 1
    root = run(config)
    assert [c.title for c in read_state(root / "round_000").skill.chunks] == [ONE, TWO]
    state = read_state(root / "round_001")
    assert [c.title for c in state.skill.chunks] == [BOTH]
    assert [(e.op, e.fate) for e in state.ledger.entries if e.round_index == 1] == [("MERGE", Fate.SELECTED)]
    assert len(state.ledger.entries[-1].replaced) == 2
