"""A scripted editor as proposer: what it says reaches the gate, or is counted by the reason why it does not."""

import dataclasses
from collections import Counter

import pytest
from editor.answering import rollout as answered
from method_records import chunk, skill
from shop_rollouts import failed, rollout, search

from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import EvidenceLimits
from intraskill.editor.prompt import PromptSize
from intraskill.editor.proposing import Editor, EditorProposer
from intraskill.method.errors import EnvironmentFault
from intraskill.method.gate.rules import Fate
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import Skill
from intraskill.proposers.analysis_records import rollout_id
from intraskill.proposers.proposal_filter import Memory
from intraskill.proposers.trace2skill import Analysis, propose_batch
from intraskill.rounds.review import answers_line

OPEN, ROUND = LeakFilter(Secrets()), Memory(round_index=1)
SKILL = skill("ab")
NEW = "### Care\n\nRead the label before you buy."


class Scripted:
    """Answers a state with what a function of its prompt says."""

    checkpoint, conditions = "weights-1", {"prompt": "prompt-1"}

    def __init__(self, environment, say):
        self.environment, self.say, self.prompts, self.seeds = environment, say, [], []

    def run(self, episodes):
        prompts = [self.environment.state(episode.task.id).prompt for episode in episodes]
        self.prompts += prompts
        self.seeds += [episode.seed for episode in episodes]
        said = [self.say(prompt) for prompt in prompts]
        return tuple(answered(one) if isinstance(one, str) else one for one in said)


class Drafting:
    """A proposer that names its rollouts as a world's own one may."""

    name, reducer, prompts_hash = "drafting", None, ""

    def analyse(self, rollouts, skill):
        named = [f"{one.task_id}#{one.sample}" for one in rollouts]
        return Analysis((Proposal("ADD", (), (chunk("drafted"),), "why", tuple(named)),))


def editing(say, *, batch=2, tokens=5000, most=100, drafter=None, seed=0):
    """Return the proposer and its learner; ``say`` is an answer, or a function of the prompt."""
    environment = EditorEnvironment(OPEN)
    learner = Scripted(environment, say if callable(say) else lambda prompt: say)
    size = PromptSize(lambda text: len(text.split()))
    editor = Editor(environment, learner, EvidenceLimits(batch=batch, tokens=tokens), size, drafter)
    return EditorProposer("skill_alpha:scripted", lambda: editor, seed, most), learner


def played(*rewards, sample=0):
    """One failed or solved rollout per reward, each of a task of its own."""
    return [
        rollout(f"Find shoe {i}", [search(f"shoe {i}")], failed(r_success=float(r)), task_id=f"t{i}", sample=sample)
        for i, r in enumerate(rewards)
    ]


def propose(proposer, evidence, current=SKILL, leak_filter=OPEN, memory=ROUND, limit=6):
    return propose_batch(evidence, current, proposer, leak_filter, limit=limit, memory=memory)


@pytest.mark.parametrize(
    ("answer", "op", "targets"),
    [
        (f"CREATE\n{NEW}", "ADD", ""),
        (f"UPDATE 2\n{NEW}", "REWRITE", "b"),
        (f"MERGE 1 2\n{NEW}", "MERGE", "ab"),
        ("PRUNE 1", "DELETE", "a"),
        ("<think>\nWhich one?\n</think>\nPRUNE 1", "DELETE", "a"),
    ],
)
def test_every_kind_of_action_goes_to_the_gate_as_its_operator(answer, op, targets):
    evidence = played(0, 0)
    found = propose(editing(answer)[0], evidence)
    (edit,) = found.edits
    assert (edit.op, edit.removes) == (op, tuple(chunk(name).id for name in targets))
    assert [one.title for one in edit.adds] == (["Care"] if "Care" in answer else [])
    assert edit.support == tuple(sorted(map(rollout_id, evidence)))
    (record,) = found.records
    assert (record.kind, record.outcome, record.diagnosis) == ("edit", "proposed", answer)
    assert [one.fate for one in record.proposals] == ["to_gate"] and record.proposals[0].edit_id == edit.id
    assert found.proposals[0].calls == (record.id,) and set(record.inputs) == set(edit.support)
    assert (found.counts["asked"], found.counts["mapped"], found.analyst) == (1, 1, "skill_alpha:scripted")


CUT = dataclasses.replace(answered(f"CREATE\n{NEW}"), truncated=True)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("", "empty"),
        ("I would add a rule.", "unknown_action"),
        ("PRUNE 1\nPRUNE 2", "two_actions"),
        ("PRUNE", "targets"),
        (f"MERGE 1\n{NEW}", "empty_merge"),
        (f"MERGE 1 1\n{NEW}", "repeated_target"),
        ("CREATE", "missing_text"),
        ("NOOP\nbecause", "unexpected_text"),
        ("CREATE\ndraft 1", "no_such_draft"),
        ("CREATE\nno section", "bad_chunk"),
        ("PRUNE 3", "no_such_chunk"),
        (f"UPDATE 1\n{chunk('a').render()}", "unchanged"),
        (CUT, "too_long"),
    ],
)
def test_every_kind_of_invalid_answer_is_counted_and_proposes_nothing(answer, kind):
    proposer, _ = editing(lambda prompt: answer if "shoe 0" in prompt else "NOOP", batch=1)
    found = propose(proposer, played(0, 0, 1))
    counts = found.counts
    assert found.proposals == found.refused == ()
    assert (counts["asked"], counts["noop"], counts["invalid"], counts[f"invalid/{kind}"]) == (3, 2, 1, 1)
    assert [name for name in counts if name.startswith("invalid/")] == [f"invalid/{kind}"]
    outcomes = {record.inputs[0].partition("#")[0]: record.outcome for record in found.records}
    assert outcomes == {"t0": f"invalid/{kind}", "t1": "noop", "t2": "noop"}


def test_answers_add_up_and_every_one_is_about_the_same_frozen_skill():
    said = iter([f"UPDATE 1\n{NEW}", "UPDATE 1\n### Else\n\nAsk for the seller.", "NOOP", "PRUNE 9", "PRUNE 2"])
    proposer, learner = editing(lambda prompt: next(said), batch=1)
    found = propose(proposer, played(0, 0, 0, 0, 0))
    counts = found.counts
    assert counts["asked"] == counts["mapped"] + counts["noop"] + counts["invalid"] == 5
    shown = {prompt.partition("# Evidence")[0] for prompt in learner.prompts}
    assert len(shown) == 1 and chunk("a").body in shown.pop()
    assert Counter(edit.op for edit in found.edits) == {"REWRITE": 1, "DELETE": 1} and counts["rival"] == 1


def test_what_the_leak_filter_refuses_is_refused_with_its_reason_as_for_any_proposer():
    leak_filter = LeakFilter(Secrets(product_ids=("b100",)))
    proposer, _ = editing("CREATE\n### Care\n\nOpen b100 at once.")
    found = propose(proposer, played(0, 0), leak_filter=leak_filter)
    assert found.edits == () and found.counts["invalid"] == 0 and found.counts["rejected_by_firewall"] == 1
    assert found.refused[0].reason.startswith("product_id")
    assert found.records[0].proposals[0].fate == "rejected_by_firewall"


def test_a_loser_stays_away_and_only_additions_pass_the_cold_start():
    proposer, _ = editing("PRUNE 2")
    lost = Ledger().record(1, propose(proposer, played(0)).proposals[0], Fate.NON_POSITIVE)
    again = propose(proposer, played(0), memory=Memory(lost, 2, rounds=2))
    assert again.edits == () and again.counts["blocked_by_ledger"] == 1
    assert propose(proposer, played(0), memory=Memory()).counts["not_at_start"] == 1


def test_equal_answers_of_several_batches_become_one_candidate_with_all_their_support():
    evidence = played(0, 0, 0, 0, 0)
    found = propose(editing(f"CREATE\n{NEW}", batch=2)[0], evidence)
    assert found.counts["asked"] == 3 and found.counts["merged"] == 2
    assert set(found.proposals[0].support) == set(map(rollout_id, evidence))


def test_the_same_rollouts_in_any_order_give_the_same_prompts_seeds_and_proposals():
    evidence = [*played(0, 0, 1, 0), *played(1, 0, sample=1)]
    (first, asked), (second, again) = editing(f"CREATE\n{NEW}"), editing(f"CREATE\n{NEW}")
    assert propose(first, evidence) == propose(second, evidence[::-1])
    assert asked.prompts == again.prompts and asked.seeds == again.seeds and len(set(asked.seeds)) == 3
    other, elsewhere = editing(f"CREATE\n{NEW}", seed=1)
    propose(other, evidence)
    assert set(elsewhere.seeds).isdisjoint(asked.seeds)
    propose(first, evidence, current=skill("a"))
    assert set(asked.seeds[3:]).isdisjoint(asked.seeds[:3]), "another skill is asked about with other draws"


def test_failures_are_read_first_and_what_is_left_out_is_counted():
    broken = dataclasses.replace(played(0)[0], reward=None, parts={}, fault="server gone")
    proposer, learner = editing("NOOP", batch=4, most=3)
    found = propose(proposer, [*played(1, 1, 0, 0), broken])
    assert (found.counts["faults"], found.counts["over_budget"]) == (1, 1)
    (prompt,) = learner.prompts
    assert "shoe 2" in prompt and "shoe 3" in prompt and ("shoe 0" in prompt) != ("shoe 1" in prompt)


def test_a_batch_holds_no_more_than_the_limits_allow_and_loses_nothing():
    proposer, learner = editing("NOOP", batch=4)
    propose(proposer, played(*[0] * 10))
    assert sorted(prompt.count("Task:") for prompt in learner.prompts) == [2, 4, 4]
    small, shorter = editing("NOOP", batch=4, tokens=60)
    propose(small, played(*[0] * 10))
    assert all(len(prompt.split()) <= 60 for prompt in shorter.prompts)
    assert sum(prompt.count("Task:") for prompt in shorter.prompts) == 10


def test_a_skill_that_fills_the_prompt_is_counted_and_stops_no_run():
    long = Skill("word " * 50 + "word", SKILL.chunks)
    proposer, learner = editing("NOOP", tokens=60)
    found = propose(proposer, played(0, 0, 0), current=long)
    assert found.counts["no_room"] == 3 and found.counts["asked"] == 0 and learner.prompts == []


def test_drafts_come_with_the_failures_that_they_answer_and_may_be_taken():
    proposer, learner = editing(lambda prompt: "CREATE\ndraft 1" if "# Drafts" in prompt else "NOOP", batch=1)
    assert propose(proposer, played(0, 1)).counts["noop"] == 2
    drafting, learner = editing(learner.say, batch=1, drafter=Drafting())
    found = propose(drafting, played(0, 1, 0))
    assert [edit.adds for edit in found.edits] == [(chunk("drafted"),)] and found.counts["noop"] == 1
    assert all(("# Drafts" in prompt) == ("Reward: 0" in prompt) for prompt in learner.prompts), "as in its training"


def test_an_action_is_shown_as_its_call_in_two_words():
    proposer, learner = editing("NOOP")
    propose(proposer, played(0))
    assert "1. search_home: search shoe 0 -> executed" in learner.prompts[0]


def test_whoever_watches_is_told_what_became_of_the_answers():
    said = iter(["NOOP", "PRUNE 7", "hm", "PRUNE 8", "PRUNE 1"])
    found = propose(editing(lambda prompt: next(said), batch=1)[0], played(0, 0, 0, 0, 0))
    line = "skill_alpha:scripted gave 5 answers: 1 edit, 1 NOOP, 3 invalid (2 no_such_chunk, 1 unknown_action)"
    assert answers_line(found) == line
    found.counts["no_room"] = 2
    assert answers_line(found) == f"{line}; no prompt beside the skill has room for 2 rollouts"


def test_an_answer_that_broke_technically_stops_the_pass_and_nothing_to_read_asks_nobody():
    broken = dataclasses.replace(answered("NOOP"), reward=None, parts={}, fault="out of memory")
    with pytest.raises(EnvironmentFault, match="1 answer of the editor broke.*out of memory"):
        propose(editing(broken)[0], played(0))

    def unreachable():
        raise AssertionError("loaded")

    assert EditorProposer("n", unreachable, 0, 5).analyse([], SKILL).proposals == ()


def test_a_run_is_bound_to_the_weights_the_prompts_and_the_limits():
    (one, _), (same, _), (limits, _) = editing("NOOP"), editing("NOOP"), editing("NOOP", batch=3)
    (weights, learner), (prompts, other) = editing("NOOP"), editing("NOOP")
    learner.checkpoint, other.conditions = "weights-2", {"prompt": "prompt-2"}
    hashes = [proposer.prompts_hash for proposer in (one, limits, weights, prompts)]
    assert same.prompts_hash == hashes[0] and len(set(hashes)) == 4
