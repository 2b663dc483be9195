"""Worlds without any signal: a run goes on to its closing comparison, changes nothing and says so."""

import signal

import pytest
import statsmodels.regression.linear_model  # noqa: F401  # once here, not in every forked child
from planted_runs import content, planted_config
from rounds.test_resume import run_until

from intraskill.environments.planted import PlantedWorld
from intraskill.method.gate.holding import hold
from intraskill.method.gate.rules import Fate
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.report.screen import Look, print_blocks
from intraskill.report.summary import summarise
from intraskill.report.tables import report
from intraskill.rounds.loop import read_state, run

WORLDS = {"mastered": (5.0, 1.0), "hopeless": (-5.0, 0.0)}


def silent_config(root, baseline, estimator="paired_ols"):
    config = planted_config(root, baseline=baseline)
    config.gate.estimator = estimator
    draft = root.parent / "draft.md"
    root.parent.mkdir(exist_ok=True)
    draft.write_text(PlantedWorld().draft.render(), encoding="utf-8")
    config.coldstart.draft = str(draft)
    return config


@pytest.mark.parametrize(("baseline", "reward"), WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("estimator", ["paired_ols", "ancova"])
def test_a_world_without_signal_trains_to_its_closing_comparison_and_says_so(
    tmp_path, baseline, reward, estimator, capsys
):
    root = run(silent_config(tmp_path / "run", baseline, estimator))
    summary = summarise(root)
    assert summary["finished"] and {arm["mean"] for arm in summary["final"]["arms"].values()} == {reward}
    states = [read_state(root / f"round_{number:03d}") for number in range(3)]
    assert states[0].skill.ids and states[0].skill == states[1].skill == states[2].skill
    assert states[0].curriculum.exposure == states[2].curriculum.exposure
    assert set(states[2].curriculum.exposure) == set(states[2].skill.ids)
    for row in summary["rounds"]:
        assert row["no_information"].startswith("all 48 ") and row["edits"]["refused"] == 0
        for chunk in row["chunks"]:
            assert "beta" not in chunk
            assert chunk["status"] == ("active" if chunk["id"] in states[0].skill.ids else "waiting")
    judged = [entry for entry in states[2].ledger.entries if entry.round_index and entry.op]
    assert {entry.fate for entry in judged} <= {Fate.WAITING} and bool(judged) == (reward == 0.0)
    assert summary["steps_without_signal"] == {"count": 8, "of": 8}
    capsys.readouterr()
    print_blocks(report(summary, str(root)), Look(wide=True))
    said = capsys.readouterr().out.replace("\n", " ")
    assert "The gate of round 2 found no information: all 48" in said
    assert "8 of 8 training steps had no signal" in said


@pytest.mark.parametrize("baseline", [baseline for baseline, _ in WORLDS.values()], ids=WORLDS)
def test_a_run_without_signal_killed_in_between_ends_in_the_same_bytes(tmp_path, baseline):
    whole, killed = silent_config(tmp_path / "whole" / "run", baseline), silent_config(tmp_path / "run", baseline)
    whole.coldstart.draft = killed.coldstart.draft
    assert run_until(whole, 0) == 0
    syncs = int((tmp_path / "whole" / "run" / ".syncs").read_text())
    for share in (0.3, 0.6):
        assert run_until(killed, round(syncs * share / 2)) == -signal.SIGKILL
    assert run_until(killed, 0) == 0
    for root in (tmp_path / "whole" / "run", tmp_path / "run"):
        (root / ".syncs").unlink()
    expected, got = content(tmp_path / "whole" / "run"), content(tmp_path / "run")
    assert [name for name in {*got, *expected} if got.get(name) != expected.get(name)] == []


def test_contributions_measured_before_a_silent_gate_keep_their_exposure(tmp_path):
    """The baseline rises past 1 by the second round: the first gates measure, the later ones are silent."""
    root = run(planted_config(tmp_path / "run", drift=1.0))
    summary = summarise(root)
    first, *silent = summary["rounds"]
    assert "no_information" not in first and all("no_information" in row for row in silent)
    states = [read_state(root / f"round_{number:03d}") for number in range(3)]
    assert len(set(states[0].curriculum.exposure.values())) > 1
    assert states[2].curriculum.exposure == states[0].curriculum.exposure
    print_blocks(report(summary, str(root)))


def test_candidates_of_a_silent_gate_wait_and_may_be_proposed_again_at_once():
    world = PlantedWorld()
    missing = next(planted.chunk for planted in world.chunks if planted.missing)
    decision = hold(world.draft, [Edit((), (missing,))], 10, "all 48 rewards are 1")
    proposal = Proposal("ADD", (), (missing,), "it is missing")
    edit_id = proposal.to_edit().id
    assert decision.skill == world.draft and decision.taken == decision.retired == decision.held == ()
    assert decision.fates[edit_id] is decision.fates[missing.id] is Fate.WAITING
    assert "all 48 rewards are 1" in decision.reasons[edit_id]
    ledger = Ledger().record(1, proposal, decision.fates[edit_id], decision.reasons[edit_id])
    assert ledger.blocked_by(proposal, 2, rounds=9) is None
    small = hold(world.draft, [], 2, "all 48 rewards are 1")
    assert small.kept == world.draft.ids[:2] and small.retired == world.draft.ids[2:]
