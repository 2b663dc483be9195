"""The shop as an editing domain: its streams, what a skill is worth there, its frozen worker, faults, and commands."""

import json
from dataclasses import dataclass, field

import pytest
from editor.answering import configured, scored, worth_of
from editor.editing import planted_editing

from intraskill.cli import main
from intraskill.editor.domain import Answer, Job, KnowsWorth
from intraskill.editor.domains.shop import shop
from intraskill.editor.domains.shop_rules import drafts, first_skill, rules_of
from intraskill.editor.domains.shop_worker import (
    ANCHORS,
    EVIDENCE,
    PROBES,
    Episodes,
    anchors_like,
    plain_shop,
    tasks_of,
)
from intraskill.editor.training import train_editor
from intraskill.editor.trials import Trials
from intraskill.environments.shopworld.lessons import HARMFUL, TAUGHT, USEFUL, lesson_chunk, phrasings
from intraskill.environments.shopworld.session import ShopSession
from intraskill.method.errors import ConfigError, EnvironmentFault, NothingToLearnError, SplitError
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.recipes.demonstrations import Draw, negated_chunk
from intraskill.rl.checkpoints import weights_hash
from intraskill.store.run_directory import read_jsonl

SMALL = {"preset": "tiny", "streams": 3, "held_out": 2, "units": 5, "probes": 4, "anchors": 3}
BARE = Skill("")


def skill_of(*rules):
    return Skill("# Shopping skill", tuple(lesson_chunk(rule) for rule in rules))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return shop(configured(**SMALL), tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def streams(bench):
    return {part: bench.domain.streams(part) for part in ("train", "held_out")}


def jobs_of(bench, skill, split=PROBES, count=6):
    return [Job(bench.domain.query(name), skill, 0) for name in list(tasks_of("tiny", 0, split))[:count]]


@dataclass
class Counting:
    worker: object
    asked: list = field(default_factory=list)

    @property
    def version(self):
        return self.worker.version

    def answer(self, jobs):
        self.asked += jobs
        return self.worker.answer(jobs)


def test_evidence_is_what_the_worker_did_and_anchors_and_probes_are_other_tasks(bench, streams):
    for part, world in (("train", 0), ("held_out", 50)):
        own = {split: set(tasks_of("tiny", world, split)) for split in (EVIDENCE, ANCHORS, PROBES)}
        assert [len(stream.units) for stream in streams[part]] == [5] * SMALL["streams" if part == "train" else part]
        failures = 0
        for stream in streams[part]:
            for unit in stream.units:
                assert unit.source == "experience" and unit.id in own[EVIDENCE]
                assert set(unit.anchors) <= own[ANCHORS]
                request = plain_shop("tiny", world).shop_task(unit.id.split("/")[1]).request
                assert unit.text.startswith(f"Task: {request}") and "1. search_home: search " in unit.text
                failures += bool(unit.anchors)
                assert bool(unit.anchors) == ("Reward: 1 " not in unit.text)
                assert unit.anchors or not unit.drafts
            assert len(stream.probes) == 4 and set(stream.probes) <= own[PROBES]
        assert failures
    ids = {part: {unit.id for stream in found for unit in stream.units} for part, found in streams.items()}
    assert ids["train"].isdisjoint(ids["held_out"])


def test_the_published_limits_cut_the_views(tmp_path):
    config = configured(**SMALL | {"streams": 1})
    config.editor.view_steps, config.editor.characters = 2, 120
    (stream,) = shop(config, tmp_path).domain.streams("train")
    assert all(len(unit.text) <= 120 for unit in stream.units)
    assert any("more steps)" in unit.text for unit in stream.units)


def test_held_out_streams_are_written_in_words_that_no_train_stream_shows():
    texts = {
        part: {
            chunk.body
            for seed in range(40)
            for chunk in (*first_skill(seed, part).chunks, *drafts("search_features", seed, part))
        }
        for part in (False, True)
    }
    assert texts[False].isdisjoint(texts[True])
    taught = [set(phrasings(rule)[0]) | set(phrasings(rule)[1]) for rule in TAUGHT]
    assert any(text not in set().union(*taught) for text in texts[True]), "decoys belong to the drafts"


def test_a_first_skill_lacks_one_to_three_useful_lessons_and_half_of_them_mislead():
    found = [rules_of(first_skill(seed, False)) for seed in range(200)]
    assert {len(rules & set(USEFUL)) for rules in found} == {1, 2, 3}
    assert 70 <= sum(bool(rules & set(HARMFUL)) for rules in found) <= 130


def test_anchors_are_like_the_task_that_failed_as_far_as_there_are_enough():
    failed, others = tasks_of("small", 0, EVIDENCE), tasks_of("small", 0, ANCHORS)
    for name in list(failed)[:20]:
        for anchor in anchors_like("small", 0, name, 4, "stream"):
            assert [others[anchor].features[key] for key in ("axes", "soft")] == [
                failed[name].features[key] for key in ("axes", "soft")
            ]


def test_episodes_are_played_once_and_a_torn_line_is_played_again(bench, streams, tmp_path):
    worker = Counting(bench.worker)
    jobs = jobs_of(bench, skill_of(*USEFUL))
    first = Episodes(worker, tmp_path / "episodes.jsonl").of(jobs)
    assert Episodes(worker, tmp_path / "episodes.jsonl").of(jobs) == first and len(worker.asked) == 6
    (log,) = tmp_path.iterdir()
    log.write_bytes(log.read_bytes()[:-9])
    assert Episodes(worker, tmp_path / "episodes.jsonl").of(jobs) == first
    assert worker.asked[6:] == jobs[-1:]
    again = shop(configured(**SMALL), bench.domain.episodes.path.parent)
    lines = len(read_jsonl(bench.domain.episodes.path.with_name("episodes.partial.jsonl")))
    assert again.domain.streams("train") == streams["train"] and lines == 5 * 5
    assert "_loaded" not in vars(again.worker), "no weights are read for evidence that is kept"


def test_worth_rises_with_every_missing_lesson_and_falls_with_the_harmful_one(bench):
    assert isinstance(bench.domain, KnowsWorth)
    value = bench.domain.value("world-0/stream-0")
    worths = [value(skill_of(*USEFUL[:count])) for count in range(5)]
    assert worths == sorted(worths) and worths[4] > worths[0] + 0.2
    assert value(skill_of(*USEFUL, "open_last")) < worths[4] - 0.2
    negated = Skill("", (*skill_of(*USEFUL).chunks, negated_chunk("open_last", Draw(0))))
    assert value(negated) == value(skill_of(*USEFUL, "stay_polite")) == worths[4]
    with pytest.raises(SplitError, match="no stream of this shop"):
        bench.domain.value("world-0/stream-3")
    with pytest.raises(SplitError, match="no task of the worlds 0 and 50"):
        bench.domain.query("world-1/shop-00000")


def test_the_tiny_policy_earns_more_with_the_useful_lessons_and_less_with_the_harmful_one(bench):
    def earned(skill):
        answers = bench.worker.answer(jobs_of(bench, skill, EVIDENCE, 20))
        return sum(bench.verifier.score(None, answer) for answer in answers) / 20

    bare, useful, misled = (earned(skill) for skill in (BARE, skill_of(*USEFUL), skill_of(*USEFUL, "open_last")))
    assert useful > bare + 0.15 and useful > misled + 0.1


def test_a_batch_answers_as_its_jobs_alone_and_leaves_the_weights_as_they_are(bench):
    jobs = jobs_of(bench, skill_of(*USEFUL[:2]), count=3) + jobs_of(bench, BARE, count=3)[::-1]
    policy = bench.worker._loaded[0].policy
    before = weights_hash(dict(policy.model.named_parameters()))
    together = bench.worker.answer(jobs)
    assert together == [bench.worker.answer([job])[0] for job in jobs]
    assert policy.trainable() == {} and weights_hash(dict(policy.model.named_parameters())) == before


def test_a_trial_is_asked_once_and_a_better_skill_is_worth_more_on_the_probes(bench, tmp_path):
    worker = Counting(bench.worker)
    trials = Trials(worker, bench.verifier, tmp_path / "trials.jsonl")
    found = scored(bench, trials, ["NOOP", "PRUNE 1", "PRUNE 1", "PRUNE 2"], anchors=2)
    asked = len(worker.asked)
    assert asked == len({(job.skill.hash, job.query.id) for job in worker.asked}) and asked >= 4
    assert all(one.reward in (0.0, 1.0) for one in found.rollouts)
    assert scored(bench, Trials(worker, bench.verifier, tmp_path / "trials.jsonl"), ["NOOP", "PRUNE 1"], anchors=2)
    assert len(worker.asked) == asked
    worths = worth_of(bench, trials, skill_of(*USEFUL))
    assert sum(one.after for one in worths) >= sum(one.before for one in worths)


def test_a_shop_that_breaks_is_a_fault_and_an_overlong_skill_earns_nothing(bench, tmp_path, monkeypatch):
    long = Skill("", tuple(Chunk(f"Rule {k}", " ".join(["Search the words of the request."] * 8)) for k in range(30)))
    jobs = jobs_of(bench, long, count=2)
    assert Trials(bench.worker, bench.verifier).scores(jobs) == (0.0, 0.0)

    def broken(self, action):
        raise EnvironmentFault("the catalogue is gone")

    monkeypatch.setattr(ShopSession, "step", broken)
    trials = Trials(bench.worker, bench.verifier, tmp_path / "trials.jsonl")
    assert trials.scores(jobs_of(bench, BARE, count=2)) == (None, None)
    assert "the catalogue is gone" in trials.faults[0] and list(tmp_path.iterdir()) == []
    with pytest.raises(NothingToLearnError, match="none of 15 episodes .* the catalogue is gone"):
        shop(configured(**SMALL), tmp_path).domain.streams("train")


def test_an_episode_that_faults_is_no_evidence_and_the_others_stay(bench, tmp_path):
    @dataclass
    class Half(Counting):
        def answer(self, jobs):
            kept = super().answer(jobs)
            return [Answer(fault="lost") if job.query.id == lost else one for job, one in zip(jobs, kept, strict=True)]

    jobs = jobs_of(bench, BARE, count=3)
    lost = jobs[1].query.id
    worker = Half(bench.worker)
    found = Episodes(worker, tmp_path / "episodes.jsonl").of(jobs)
    assert [one is None for one in found] == [False, True, False] and len(worker.asked) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": 3}, "editor.options.stream is no option, did you mean 'streams'"),
        ({"seed": 50}, "seed=50 is no world to learn from; give one from 0 to 49"),
        ({"part": "r_sum"}, "part='r_sum' is unknown; choose r_strict"),
        ({"preset": "paper"}, "preset='paper' is unknown; choose tiny or small"),
        ({"units": 0}, "units=0 is too low; the least is 1"),
        ({"units": "many"}, "units='many' is a str; give an int"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_built(tmp_path, options, message):
    with pytest.raises(ConfigError) as error:
        shop(configured(**options), tmp_path)
    assert message in str(error.value)


def test_the_version_depends_on_options_and_worker(tmp_path):
    def version(**more):
        return shop(configured(**SMALL | more), tmp_path).domain.version

    assert version() == version()
    assert len({version(), version(seed=1), version(units=4), version(part="r_loose"), version(temperature=1)}) == 5


def run(capsys, *words):
    status = main(["editor", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def options_of(**options):
    given = [f"editor.options.{key}={value}" for key, value in {**SMALL, **options}.items()]
    return ["editor.domain=shop", "editor.prompt_tokens=1900", *given]


def test_a_dry_run_names_a_wrong_domain_or_option(capsys, tmp_path):
    where = f"run_dir={tmp_path / 'run'}"
    assert run(capsys, "train", "--dry-run", where, *options_of())[0] == 0 and not (tmp_path / "run").exists()
    status, _, err = run(capsys, "train", "--dry-run", where, "editor.prompt_tokens=1900", "editor.domain=shopp")
    assert status != 0 and "editor.domain=shopp is no domain, did you mean 'shop'?" in err
    status, _, err = run(capsys, "train", "--dry-run", where, *options_of(), "editor.options.anchor=2")
    assert status != 0 and "did you mean 'anchors'?" in err


def test_traces_mend_what_is_missing_or_misleads_and_an_editor_is_warmed_up_on_them(capsys, editing_place, tmp_path):
    out = tmp_path / "traces.jsonl"
    words = [f"policy.path={editing_place / 'model'}", "editor.batch=1", "editor.terse=true", *options_of(streams=6)]
    status, said, err = run(capsys, "traces", "--number", 30, "--careless", 0, "--out", out, *words)
    assert (status, said) == (0, f"30 traces in {out}\n"), err
    answers = [json.loads(line)["answer"].split()[0] for line in out.read_text().splitlines()]
    assert {"NOOP", "CREATE"} <= set(answers) and {"PRUNE", "UPDATE"} & set(answers)
    assert len([name for name in answers if name != "NOOP"]) >= 6
    out.write_text("".join(out.read_text().splitlines(keepends=True)[:4]))
    sft = ["sft", "--traces", out, "--out", tmp_path / "start", "--epochs", 1, "--batch", 4]
    status, said, err = run(capsys, *sft, *words)
    assert status == 0 and (tmp_path / "start" / "model.safetensors").exists(), err


def test_training_evaluating_and_compiling_work_and_a_second_start_asks_nothing(editing_place, tmp_path, capsys):
    config = planted_editing(editing_place, "unused")
    config.run_dir, config.editor.domain, config.editor.options = str(tmp_path / "run"), "shop", SMALL
    config.editor.steps, config.editor.batch, config.editor.characters = 2, 1, 400
    config.editor.prompt_tokens, config.rollout.max_context = 980, 1024
    found = train_editor(config)
    assert found.trials.asked > 0 and found.trials.faults == []
    assert (found.root / "final" / "DONE").exists() and len(read_jsonl(found.root / "final" / "worth.jsonl")) == 2
    assert train_editor(config).trials.asked == 0
    status, out, err = run(capsys, "run", "--ckpt", tmp_path / "run", "--out", tmp_path / "skills")
    assert status == 0, err
    assert "world-50/stream-0: 5 steps" in out
