"""Documents with rubrics: our rows and public chats, both end to end with an LLM worker and an LLM judge."""

import json

import pytest
from chat_server import answering
from editor.answering import SAMPLES, configured, scored, worth_of
from editor.test_judges import of_words

from intraskill.editor.domains.documents import documents, read_documents
from intraskill.editor.trials import Trials
from intraskill.method.errors import ArtifactError, ConfigError, SplitError
from intraskill.method.skill.skill import Chunk, Skill

LORE = "CREATE\n### Water\n\nAt dawn, never at noon; basil twice a day."
IDLE = "CREATE\n### Nothing\n\nThink."
LORE_SKILL = Skill("", (Chunk("All", "dawn noon day only closed"),))


def reply(messages):
    """A worker that knows what its skill says, and the judge."""
    if "<criteria>" in messages[1]["content"]:
        return of_words(messages)
    _, _, skill = messages[0]["content"].partition("# Skill")
    return " ".join(skill.split()).replace(".", " ") or "I do not know"


def bench_of(asked, root, path=SAMPLES / "garden.jsonl", **more):
    options = {"path": str(path), "worker": asked.endpoint(), "judge": asked.endpoint(), "held_out": 0.5} | more
    return documents(configured(**options), root)


def test_a_document_becomes_its_paragraphs_and_its_questions_anchors_and_probes(tmp_path):
    with answering(reply) as asked:
        domain = bench_of(asked, tmp_path).domain
        streams = [*domain.streams("train"), *domain.streams("held_out")]
        assert sorted(stream.id for stream in streams) == ["garden", "harbour"]
        assert [len(domain.streams(part)) for part in ("train", "held_out")] == [1, 1]
        for stream in streams:
            assert len(stream.units) == 2 and all(unit.source == "document" for unit in stream.units)
            assert len(stream.probes) == 1 and not set(stream.probes) & set(stream.units[0].anchors)
        query = domain.query("tide-low")
        assert query.text == "When may the ferry leave?" and query.text not in repr(streams)
        with pytest.raises(SplitError, match="no question"):
            domain.query("tide")
        assert set(domain.secrets.instructions) == {domain.query(p).text for s in streams for p in s.probes}


def test_the_document_is_shown_to_the_worker_only_when_asked_for(tmp_path):
    with answering(reply) as asked:
        plain, shown = (bench_of(asked, tmp_path / str(w), with_document=w).domain for w in (False, True))
        assert "high tide" not in plain.query("tide-low").text and "high tide" in shown.query("tide-low").text
        assert plain.version != shown.version == bench_of(asked, tmp_path / "x", with_document=True).domain.version


def test_an_edit_that_holds_what_the_document_says_is_rewarded_and_a_skill_is_worth_its_probes(tmp_path):
    with answering(reply) as asked:
        for seed in range(20):  # the split is drawn by address: take one where the garden is learnt from
            bench = bench_of(asked, tmp_path, seed=seed)
            if bench.domain.streams("train")[0].id == "garden":
                break
        trials = Trials(bench.worker, bench.verifier, tmp_path / "trials.jsonl")
        found = scored(bench, trials, [LORE, IDLE, "NOOP", "nonsense"])
        assert [one.reward for one in found.rollouts] == [1.0, 0.0, 0.0, 0.0] and found.control == (0.0,)
        (worth,) = worth_of(bench, trials, LORE_SKILL)
        assert (worth.stream, worth.before, worth.after) == ("harbour", 0.0, 1.0)
        assert trials.faults == []
        paid = len(asked.bodies)
        again = bench_of(asked, tmp_path, seed=seed)
        resumed = Trials(again.worker, again.verifier, tmp_path / "trials.jsonl")
        assert worth_of(again, resumed, LORE_SKILL) == [worth] and len(asked.bodies) == paid


def test_answers_are_judged_while_others_are_written_so_that_scoring_asks_nothing_more(tmp_path):
    with answering(reply) as asked:
        bench = bench_of(asked, tmp_path)
        jobs = scored(bench, Trials(bench.worker, bench.verifier), [LORE]).state.anchors
        assert jobs and len(asked.bodies) == 2 * 2  # control and edit, each answered and judged once


def test_public_chats_are_taken_apart_into_document_and_question():
    first, second, clinic = read_documents(SAMPLES / "chats.jsonl")
    assert first.question == "What does a pip score?" and second.question == "What does a double pip score?"
    assert (
        first.text
        == second.text
        == ("You teach the game of Pips.\n\nRules of Pips: a pip scores two.\n\nA double pip scores five.")
    )
    assert (clinic.document, clinic.question) == ("clinic", "When does it open?")
    assert clinic.text == "user: The clinic opens at nine.\n\nassistant: Noted."


def row(**more):
    given = {"id": "a", "document": "D.", "question": "Q?", "rubrics": ["R."]} | more
    return json.dumps({key: value for key, value in given.items() if value is not None})


def chat(question):
    return json.dumps({"messages": [{"role": "user", "content": question}], "rubrics": ["R."], "id": "c"})


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([row(), "{broken"], "1: line 2: "),
        ([row(), "", "[1]"], "line 3: a JSON object is needed"),
        ([row(rubrics=[])], "line 1: rubrics is empty"),
        ([row(rubrics=None)], "line 1: rubrics is empty"),
        ([row(), row()], "line 2: the id 'a' stands twice"),
        ([row(question=" ")], "question must be a text"),
        ([row(document=None)], "give document"),
        ([row(document=None, document_file="absent.md")], "absent.md does not exist"),
        ([row(documents="x")], "unknown keys documents"),
        ([row(document_id="d"), row(id="b", document="E.", document_id="d")], "two different texts"),
        ([chat("Rules.\n\nWhat now?")], "cannot be told from the task"),
        ([json.dumps({"messages": [{"role": "user"}], "rubrics": ["R."], "id": "c"})], "messages must be a chat"),
        ([""], "holds no row"),
    ],
)
def test_rows_that_cannot_be_used_are_named_with_their_lines(tmp_path, lines, words):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ArtifactError) as error:
        read_documents(path)
    assert words in str(error.value) and str(path) in str(error.value)


def test_wrong_options_are_named(tmp_path):
    with answering(reply) as asked:
        with pytest.raises(ConfigError, match=r"editor\.options\.gradng is no option, did you mean 'grading'\?"):
            bench_of(asked, tmp_path, gradng="all")
        with pytest.raises(ConfigError, match="choose all, share"):
            bench_of(asked, tmp_path, grading="most")
        with pytest.raises(ConfigError, match="give a bool"):
            bench_of(asked, tmp_path, with_document="yes")
        with pytest.raises(ConfigError, match=r"editor\.options\.judge\.base_url is missing"):
            bench_of(asked, tmp_path, judge=None)
        with pytest.raises(ArtifactError, match="does not exist"):
            bench_of(asked, tmp_path, path="absent.jsonl")
        with pytest.raises(ArtifactError, match=r"editor\.options\.path names no file"):
            bench_of(asked, tmp_path, path="")
        with pytest.raises(ConfigError, match="no share"):
            bench_of(asked, tmp_path, probes=1.0).domain.streams("train")
