"""From words such as ``+exp=planted``, ``ablate=no_gate`` and ``grpo.lr=1e-4`` to a checked config.

The only module that knows Hydra.
"""

from collections.abc import Sequence

from intraskill.config.config import Config, check, flatten
from intraskill.config.option import nearest
from intraskill.config.quoting import quoted
from intraskill.config.shipped import CONFIGS
from intraskill.config.suggestions import did_you_mean
from intraskill.method.errors import ConfigError, offenders

MAPPINGS = ("env.options", "editor.options", "rollout.vllm.options", "policy.template_options")
"""Options that hold whatever a factory or an engine takes."""
GROUPS = {"exp": "experiment", "ablate": "ablation"}
"""Folders of configs/ from which a word takes a file, in the order in which they apply, and what a file is called."""
DEFAULT_EXPERIMENT, OWN_EXPERIMENT = "quickstart", "own"
OWN = ("env.name", "policy.path")
"""Whoever gives one of these brings a world or a model; the demo's draft, pages and limits are not meant for them."""


def experiment_of(overrides: Sequence[str]) -> str:
    """Return the experiment that the words of a command line mean.

    It is the one that ``+exp=`` names; without it ``own`` where something of `OWN` is given, else the demo.
    """
    return named(overrides, "exp") or (OWN_EXPERIMENT if own_words(overrides) else DEFAULT_EXPERIMENT)


def named(overrides: Sequence[str], key: str) -> str | None:
    """Return the file of configs/ that ``+exp=`` or ``ablate=`` names, or ``None``; ``key`` is one of `GROUPS`."""
    return dict(map(_split, overrides)).get(key)


def own_words(overrides: Sequence[str]) -> list[str]:
    """Return the options of `OWN` that the words give."""
    return [key for key, _ in map(_split, overrides) if key in OWN]


def _place(word: str) -> int:
    """Return what comes first: the experiment, then what is taken out of it, then single options in their order."""
    return list(GROUPS).index(key) if (key := _split(word)[0]) in GROUPS else len(GROUPS)


def _split(word: str) -> tuple[str, str]:
    """Return the option of a word and its value."""
    name, _, value = word.partition("=")
    return name.lstrip("+~"), value


def compose(overrides: Sequence[str], *, default: bool = True) -> Config:
    """Return the checked config of an experiment and overrides.

    Args:
        overrides: words of the command line; ``+exp=NAME`` names the experiment.
        default: take that of `experiment_of` when no word names one; else the defaults of the options alone.

    Raises:
        ConfigError: for an unknown key or experiment, with a suggestion, a value that does not fit, or an experiment
            that was made for another world than the one that is given.
    """
    words = [_checked(word) for word in overrides]
    if default and named(overrides, "exp") is None:
        words = [f"+exp={experiment_of(overrides)}", *words]
    composed = _composed(sorted(words, key=_place))
    if (ablation := named(words, "ablate")) and not any(_split(word)[0] == "run_dir" for word in words):
        composed.run_dir += f"_{ablation}"
    experiment = named(overrides, "exp")
    if experiment is not None and "env.name" in own_words(overrides):
        _refuse_other_world(experiment, composed)
    return check(composed)


def _composed(words: list[str]) -> Config:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    ConfigStore.instance().store(name="schema", node=Config)
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            composed = OmegaConf.to_object(hydra_compose("config", overrides=words))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_sentence(error.__cause__ or error)) from error
    assert isinstance(composed, Config)
    return composed


def _refuse_other_world(experiment: str, config: Config) -> None:
    """Refuse a world that an experiment was not made for while the experiment's options would reach it.

    Raises:
        ConfigError: naming them.
    """
    made_for, options = _composed([f"+exp={experiment}"]).env, config.env.options
    left = [key for key, value in made_for.options.items() if value is not None and options.get(key) == value]
    if left and made_for.name != config.env.name:
        raise ConfigError(
            f"+exp={experiment} is made for env.name={made_for.name} and sets {offenders(left)} of env.options for it; "
            f"for env.name={config.env.name} leave +exp={experiment} out: then +exp=own applies, which sets none"
        )


def override(base: Config, overrides: Sequence[str]) -> Config:
    """Return a checked config that differs from another one by overrides.

    Raises:
        ConfigError: for an unknown key, with a suggestion, or a value that does not fit.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if chosen := [word for word in overrides if _split(word)[0] in GROUPS]:
        raise ConfigError(f"{offenders(chosen)}: this configuration is chosen already; give single options, KEY=VALUE")
    words, merged = [_checked(word) for word in overrides], OmegaConf.structured(base)
    try:
        for word in OverridesParser.create().parse_overrides(words):
            if word.is_sweep_override():
                raise ConfigError(
                    f"{word.input_line}: one value at a time; a command on a run that exists sweeps nothing"
                )
            OmegaConf.update(merged, word.key_or_group, word.value(), merge=False, force_add=word.is_force_add())
        changed = OmegaConf.to_object(merged)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_sentence(error)) from error
    assert isinstance(changed, Config)
    return check(changed)


def _sentence(error: BaseException) -> str:
    """Return omegaconf's message as one sentence that begins with the option's name."""
    message, _, rest = str(error).partition("full_key:")
    key = f"{rest.split()[0]}: " if rest.split() else ""
    return key + " ".join(message.split())


def _checked(word: str) -> str:
    """Refuse an unknown key or experiment with a suggestion; spell the override as Hydra wants it."""
    if word.startswith("~"):
        raise ConfigError(f"{word}: ~ deletes a key, and no option can be deleted; write {word.lstrip('~')} to set it")
    key, value = _split(word)
    if key in GROUPS:
        files = sorted(path.stem for path in (CONFIGS / key).glob("*.yaml"))
        if value not in files:
            raise ConfigError(f"there is no {GROUPS[key]} {value!r}{nearest(value, files)}; choose {', '.join(files)}")
        return f"+{key}={value}"
    if key in MAPPINGS:
        raise ConfigError(f"{word}: give each option a word of its own, {key}.NAME=VALUE, such as {key}.seed=3")
    if key.startswith(tuple(f"{mapping}." for mapping in MAPPINGS)):
        return f"++{key}={value}"
    names = flatten(Config())
    if key not in names:
        raise ConfigError(f"there is no option {key!r}{did_you_mean(key, names)}; `intraskill options` lists them all")
    return f"{key}={_spelt(key, value)}"


def _spelt(key: str, value: str) -> str:
    """Return a value as Hydra reads it: a path with blanks or letters of other scripts is no word of its grammar."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        OverridesParser.create().parse_override(f"{key}={value}")
    except HydraException:
        if not value.startswith(("[", "{")):  # a list or mapping with a slip keeps Hydra's own complaint
            return quoted(value)
    return value
