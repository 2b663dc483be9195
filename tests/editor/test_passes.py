"""A pass over evidence: every piece once, in order, within the prompt's limit; asked once; compared on probes."""

import json

import pytest
from editor.scripted import HARMFUL, HELPFUL, SKILL, USELESS, CountedWorker, WrittenDomain, unit, written_run

from intraskill.config.config import Config
from intraskill.editor.actions import ACTIONS, WRITES
from intraskill.editor.domain import Stream
from intraskill.editor.domains.planted import PlantedDomain
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import EvidenceLimits, Unit
from intraskill.editor.passes import Worth, compile_streams, summary, worth
from intraskill.editor.prompt import PromptSize, system_prompt
from intraskill.editor.setup import evidence_limits, size_with
from intraskill.editor.states import begin, next_state
from intraskill.method.errors import ArtifactError, EnvironmentFault, TooFewTasksError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.run_directory import PartialLog

WORDS = PromptSize(lambda text: len(text.split()))
LONG = Stream("long", tuple(unit(k) for k in range(5)), SKILL, ("p", "q"))
SHORT = Stream("short", (unit(9),), Skill(""), ("p",))


def prunes(state, sample):
    return "PRUNE 1" if state.skill.chunks else "PRUNE 1\nbecause"


def test_a_pass_reads_every_piece_once_in_order_and_follows_its_own_edits(tmp_path):
    run = written_run(tmp_path, WrittenDomain(held=(LONG, SHORT)), prunes, batch=2)
    long, short = compile_streams(run, [LONG, SHORT])
    assert [row["evidence"] for row in long.log] == [["u0", "u1"], ["u2", "u3"], ["u4"]]
    assert [(row["action"], row["invalid"]) for row in long.log] == [
        ("PRUNE", ""),
        ("PRUNE", ""),
        ("", "unexpected_text"),
    ]
    assert (long.skill.chunks, short.skill, len(short.log)) == ((), Skill(""), 1)
    assert run.learner.asked == [
        "long/pass-0/step-0",
        "short/pass-0/step-0",
        "long/pass-0/step-1",
        "long/pass-0/step-2",
    ]


def test_a_kept_log_is_not_asked_again_and_one_of_another_editor_is_refused(tmp_path):
    def opened(write=prunes):
        return written_run(tmp_path, WrittenDomain(held=(LONG, SHORT)), write), PartialLog(tmp_path / "edits.jsonl")

    run, log = opened()
    whole, seeds = compile_streams(run, [LONG, SHORT], log), run.learner.seeds
    lines = (tmp_path / "edits.partial.jsonl").read_bytes()
    assert all("by" in json.loads(line) for line in lines.splitlines())
    for kept in range(len(lines.splitlines())):
        (tmp_path / "edits.partial.jsonl").write_bytes(b"".join(lines.splitlines(keepends=True)[:kept]) + b'{"torn')
        run, log = opened()
        assert compile_streams(run, [LONG, SHORT], log) == whole
        assert run.learner.seeds.items() <= seeds.items(), "what is asked again is drawn again"
        assert len(run.learner.asked) == len(lines.splitlines()) - kept
        assert (tmp_path / "edits.partial.jsonl").read_bytes() == lines
    run, log = opened()
    run.learner.checkpoint = "other weights"
    with pytest.raises(ArtifactError, match="another editor, skill or evidence"):
        compile_streams(run, [LONG, SHORT], log)


def test_a_pass_stops_where_an_answer_breaks_instead_of_going_on_as_if_nothing_was_said(tmp_path):
    run = written_run(tmp_path, WrittenDomain(held=(LONG,)), lambda state, k: None if "step-2" in state.id else "NOOP")
    log = PartialLog(tmp_path / "edits.jsonl")
    with pytest.raises(EnvironmentFault, match="1 answer of the editor broke, 1: engine: lost"):
        compile_streams(run, [LONG], log)
    assert log.count() == 2


def test_worth_is_the_mean_over_probes_before_and_after_and_a_stream_without_probes_has_none(tmp_path):
    run = written_run(tmp_path, WrittenDomain(), prunes)
    run.config.editor.eval_repeats = 3
    bare = Stream("bare", (unit(0),), SKILL)
    better = Skill("", (USELESS, HELPFUL))
    found = worth(run, [LONG, bare, SHORT], [better, better, Skill("", (HARMFUL,))])
    assert found == [Worth("long", 0.25, 0.75, 2), Worth("short", 0.5, 0.25, 1)]
    assert sum(run.workbench.worker.calls.values()) == 3 * (2 + 2 + 1 + 1)
    assert max(run.workbench.worker.calls.values()) == 1


def test_a_probe_that_faults_on_one_side_leaves_the_mean_of_the_others_or_no_worth(tmp_path):
    broken = CountedWorker(lambda job: None if job.query.id == "p" and HELPFUL in job.skill.chunks else 0.5)
    run = written_run(tmp_path, WrittenDomain(), prunes, broken)
    better = Skill("", (HELPFUL,))
    assert worth(run, [LONG, SHORT], [better, better]) == [Worth("long", 0.5, 0.5, 1)]


def test_the_summary_is_the_mean_over_streams_with_intervals_and_needs_two():
    found = summary([Worth("a", 0.2, 0.6, 3), Worth("b", 0.4, 0.6, 3)])
    assert found["gain"].mean == pytest.approx(0.3)
    assert found["gain"].low < 0.2 < 0.4 < found["gain"].high
    assert (found["before"].mean, found["after"].mean) == (pytest.approx(0.3), pytest.approx(0.6))
    with pytest.raises(TooFewTasksError, match="held-out streams with a score: 1;"):
        summary([Worth("a", 0.2, 0.6, 3)])


@pytest.fixture(scope="module")
def measured(editing_place):
    """The codec and the size of prompts of a real tokenizer, with all instructions."""
    from transformers import AutoTokenizer

    from intraskill.rl.chat import ChatCodec

    tokenizer, environment = AutoTokenizer.from_pretrained(editing_place / "model"), EditorEnvironment(LeakFilter())
    codec = ChatCodec(tokenizer, (), system=environment.system)
    return codec, size_with(tokenizer, codec)


def test_no_whole_prompt_of_a_pass_exceeds_the_published_limit_and_none_leaves_room_for_the_next_piece(measured):
    codec, size = measured
    limits = evidence_limits(Config())
    assert limits == EvidenceLimits(batch=4, steps=8, characters=3000, tokens=8192)
    text, drafts = "w " * 1500, tuple(Chunk(f"Draft {k}", f"Number {k}.{f' Number {k}.' * 60}") for k in range(12))
    units = tuple(Unit(f"u{k}", "experience", text[: 400 + 217 * k], (), drafts[k : k + 1]) for k in range(12))
    chain, lengths = begin(Stream("s", units, SKILL), 0, order="source", seed=0), []
    while chain.rest:
        state = next_state(chain, PlantedDomain(), limits, size, anchors=0, seed=0)
        lengths.append((len(codec.prompt("", state.prompt)), len(state.units)))
        read = len(state.units)
        assert state.units == chain.rest[:read], "nothing is cut where it fits"
        if read < limits.batch and len(chain.rest) > read:
            more = chain.rest[: read + 1]
            assert size.of(SKILL, more, tuple(d for one in more for d in one.drafts)) > limits.tokens
        chain = chain.after(state.skill, read)
    assert max(length for length, _ in lengths) <= limits.tokens
    assert sum(count for _, count in lengths) == 12
    assert {count for _, count in lengths} - {4}, "some prompt was full before four pieces"


def test_one_piece_longer_than_the_context_is_cut_and_marked_and_the_whole_prompt_fits(measured):
    codec, size = measured
    limits = EvidenceLimits(tokens=1300)
    endless = Unit("u", "document", "Überall 12,5 % Rabatt; " * 4000, ("q",))
    state = next_state(begin(Stream("s", (endless,), SKILL), 0, order="source", seed=0), WrittenDomain(), limits, size,
                       anchors=1, seed=0)  # fmt: skip
    assert state.units[0].text.endswith("[…]")
    assert state.anchors[0].id == "q"
    assert 1250 < len(codec.prompt("", state.prompt)) <= 1300


@pytest.mark.parametrize("off", [("MERGE", "PRUNE"), ("NOOP",), ("CREATE", "UPDATE", "MERGE"), ("CREATE", "MERGE")])
def test_an_action_that_is_switched_off_is_neither_named_in_the_prompt_nor_taken(off):
    actions = tuple(name for name in ACTIONS if name not in off)
    text = system_prompt(actions)
    assert [name for name in ACTIONS if name in text] == list(actions)
    assert ("draft" in text) == bool({*WRITES} & {*actions})
    answers = {"CREATE": "CREATE\ndraft 1", "UPDATE": "UPDATE 1\ndraft 1", "MERGE": "MERGE 1 2\ndraft 1",
               "PRUNE": "PRUNE 1", "NOOP": "NOOP"}  # fmt: skip
    environment = EditorEnvironment(LeakFilter(), actions)
    stream = Stream("s", (unit(0, drafts=(HELPFUL,)),), SKILL)
    chain = begin(stream, 0, order="source", seed=0)
    state = next_state(chain, WrittenDomain(), EvidenceLimits(), WORDS, anchors=0, seed=0)
    for name, answer in answers.items():
        assert environment.attempt(state, answer).invalid == ("unknown_action" if name in off else ""), name
    assert EditorEnvironment(LeakFilter()).version != environment.version


def test_the_whole_prompt_names_all_actions_and_where_the_text_goes():
    assert "After CREATE, UPDATE and MERGE comes the new chunk" in system_prompt()
    assert "After CREATE and UPDATE comes" in system_prompt(("CREATE", "UPDATE", "NOOP"))
    assert "After UPDATE comes" in system_prompt(("UPDATE", "NOOP"))
