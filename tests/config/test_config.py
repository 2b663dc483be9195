"""Every shipped YAML composes, and every value that makes no sense is one clear sentence."""

import pytest

from intraskill.config.config import RETIRED, Config, check, flatten, unflatten
from intraskill.config.option import options
from intraskill.config.overrides import compose, experiment_of
from intraskill.config.shipped import CONFIGS
from intraskill.config.suggestions import ALIASES, suggest
from intraskill.method.errors import ConfigError

EXPERIMENTS = sorted(path.stem for path in (CONFIGS / "exp").glob("*.yaml"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_composes_and_passes_its_checks(name):
    assert compose([f"+exp={name}"]).run_dir == f"runs/{name}"


def test_the_published_experiment_has_the_published_numbers():
    config = compose(["+exp=shopsim"])
    grpo, curriculum, rollout = config.grpo, config.curriculum, config.rollout
    assert (grpo.group_size, grpo.groups_per_step, grpo.oversample, grpo.lr) == (8, 16, 2.0, 1e-6)
    assert (config.rounds, grpo.steps_per_round) == (4, 20)
    assert (curriculum.skill_free_prob, curriculum.rho_min, curriculum.rho_max) == (0.20, 0.20, 0.90)
    assert (config.proposer.max_candidates, config.gate.top_k, config.gate.tasks) == (6, 10, 400)
    assert (rollout.temperature, rollout.max_new_tokens, rollout.max_turns, rollout.max_context) == (
        0.6,
        4096,
        30,
        24576,
    )
    assert config.env.options["split_sizes"]["train"] == 3726 and config.coldstart.max_drafts == 16


def test_plain_grpo_is_the_quickstart_without_any_skill():
    plain, quick = compose(["+exp=plain_grpo"]), compose([])
    differing = {key for key, value in flatten(plain).items() if flatten(quick)[key] != value}
    without_skill = {"run_dir", "curriculum.assisted", "coldstart.tasks", "proposer.name", "frontier.max_tasks"}
    assert differing - {"coldstart.draft"} == without_skill and plain.coldstart.draft is None


def test_the_default_experiment_is_the_quickstart():
    assert compose([]) == compose(["+exp=quickstart"])
    assert compose([]) != compose(["+exp=planted"])


def test_every_option_says_what_it_means_and_numbers_say_their_range():
    for name, value, metadata in options(Config()):
        assert len(metadata["doc"]) >= 10 or metadata["choices"], name
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        assert not numeric or metadata["interval"], name


def test_a_config_survives_flattening():
    config = compose(["+exp=shopsim", "seed=7"])
    assert unflatten(flatten(config)) == config
    with pytest.raises(ConfigError, match="grpo.gone is no option"):
        unflatten({"grpo.gone": 1})


def test_a_retired_option_is_read_only_at_the_value_that_this_version_behaves_as():
    assert set(RETIRED).isdisjoint(flatten(Config()))
    assert unflatten(flatten(Config()) | RETIRED) == Config()
    with pytest.raises(ConfigError, match="grpo.prefix_tree is no option"):
        unflatten({"grpo.prefix_tree": True})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("curriculum.skill_free_prob=0", r"skill_free_prob=0\.0 is outside \(0, 1\)"),
        ("curriculum.skill_free_prob=1", r"outside \(0, 1\)"),
        ("curriculum.rho_max=1.0", r"rho_max=1\.0 is outside \(0, 1\)"),
        ("curriculum.rho_min=0.95", r"rho_min=0\.95 exceeds curriculum\.rho_max"),
        ("gate.inclusion=1", r"gate\.inclusion=1\.0 is outside"),
        ("grpo.group_size=1", r"group_size=1 is outside \[2"),
        ("grpo.loss=ppo", "is not one of grpo, dr_grpo"),
        ("grpo.loss=cispo", "clip_high=0.28 caps every weight"),
        ("triage.min_valid=9", "exceeds triage.reruns"),
        ("proposer.name=openai", "needs proposer.model"),
        ("rollout.max_context=16", "leaves no room"),
        ("grpo.steps_per_round=0", "trains nothing"),
        ("gate.tasks=1", r"gate\.tasks=1 is outside \[2"),
        ("final.tasks=1", r"final\.tasks=1 gives no interval"),
        ("seed=abc", "seed: .*could not be converted"),
        ("seed=-1", r"seed=-1 is outside \[0"),
        ("run_dir=' '", "run_dir is empty"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_clear_sentence(override, message):
    with pytest.raises(ConfigError, match=message) as caught:
        compose([override])
    assert "\n" not in str(caught.value)


def test_the_gap_controller_needs_the_measured_gap_and_a_start_inside_its_bounds():
    config = Config()
    config.curriculum.controller, config.gate.full_arm = "gap", False
    with pytest.raises(ConfigError, match="needs gate.full_arm"):
        check(config)
    config.gate.full_arm, config.curriculum.skill_free_prob = True, 0.9
    with pytest.raises(ConfigError, match="must lie in"):
        check(config)
    config.curriculum.skill_free_prob = 0.2
    assert check(config) is config


@pytest.mark.parametrize(
    ("override", "suggestion"),
    [
        ("grpo.lrr=1", "grpo.lr"),
        ("rollout.temprature=1", "rollout.temperature"),
        ("skill_free_prob=0.3", "curriculum.skill_free_prob"),
        ("+exp=quikstart", "quickstart"),
    ],
)
def test_an_unknown_key_gets_a_did_you_mean(override, suggestion):
    with pytest.raises(ConfigError, match=f"did you mean '{suggestion}'"):
        compose([override])


def test_what_other_trainers_call_an_option_leads_to_options_that_exist():
    names = flatten(Config())
    assert {target for targets in ALIASES.values() for target in targets} <= set(names)
    assert not set(ALIASES) & set(names), "an alias that is an option hides it"
    assert suggest("learning_rate", names) == suggest("grpo.learning-rate", names) == ["grpo.lr"]
    assert suggest("num_generations", names) == ["grpo.group_size"] and suggest("lr", names) == ["grpo.lr"]
    assert suggest("temprature", names) == ["rollout.temperature", "proposer.temperature"]
    assert suggest("learing_rate", names) == ["grpo.lr"] and suggest("xyzzy", names) == []


def test_an_experiment_may_be_named_without_its_plus_and_options_of_the_world_are_free():
    config = compose(["exp=planted", "env.options.baseline=0.1"])
    assert config.env.name == "planted" and config.env.options == {"baseline": 0.1}


@pytest.mark.parametrize(
    ("words", "experiment"),
    [
        ([], "quickstart"),
        (["seed=3", "grpo.lr=1e-4", "env.seed=2", "coldstart.draft=mine.md"], "quickstart"),
        (["env.name=my.module:World"], "own"),
        (["policy.path=/models/qwen"], "own"),
        (["+exp=quickstart", "policy.path=/models/qwen"], "quickstart"),
        (["exp=planted", "env.name=planted"], "planted"),
    ],
)
def test_nothing_of_the_demo_reaches_a_world_or_a_model_of_one_s_own(words, experiment):
    assert experiment_of(words) == experiment
    config = compose(words)
    demo = experiment == "quickstart"
    assert (config.coldstart.draft == "skills/shopping_draft.md") == (demo and "coldstart.draft=mine.md" not in words)
    assert (config.env.options.get("language") == "plain") == demo
    assert (config.rollout.max_context == 640) == demo
