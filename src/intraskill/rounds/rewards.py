"""What a config says of rewards, held against what its environment pays: names of parts, and thresholds."""

from dataclasses import replace

from intraskill.config.config import Config
from intraskill.config.option import there_are
from intraskill.environments.protocol import Environment, payment_of
from intraskill.method.errors import ConfigError
from intraskill.method.rewards import SUCCESS_PART, UNIT, Payment


def names_parts(config: Config) -> bool:
    """Whether a config names a reward part."""
    return bool(config.grpo.part or config.frontier.part)


def paid_by(config: Config, environment: Environment) -> Payment:
    """Return what the environment pays, once the config fits it.

    Raises:
        ConfigError: for a reward part that it does not have, a range that is none, or a proposer that cannot read it.
    """
    payment = payment_of(environment)
    for option, name in (("grpo.part", config.grpo.part), ("frontier.part", config.frontier.part)):
        if name and name not in payment.parts:
            known = there_are(name, payment.parts)
            raise ConfigError(f"{option}={name} is no reward part of env.name={config.env.name}{known}")
    if config.proposer.name == "skill_alpha" and payment.bounds != UNIT:
        low, high = payment.bounds
        raise ConfigError(
            f"proposer.name=skill_alpha reads rewards from 0 to 1, and env.name={config.env.name} pays from {low:g} to "
            f"{high:g}; choose another proposer, or pay from 0 to 1"
        )
    return payment


def in_reward_units(config: Config, payment: Payment) -> Config:
    """Return a config whose thresholds are in the units of the environment's rewards; options give them as shares.

    A mean or a reward is a share of the way from the lowest to the highest reward, a difference or a spread one of the
    distance between them.
    """
    if payment.bounds == UNIT:
        return config
    from intraskill.method.gate.power import PUBLISHED_SIGMA

    low, high = payment.bounds
    width = high - low
    least, spread = (0.0, 1.0) if config.frontier.part == SUCCESS_PART else (low, width)
    sigma = PUBLISHED_SIGMA if config.gate.sigma is None else config.gate.sigma
    return replace(
        config,
        frontier=replace(
            config.frontier,
            max_mean=least + spread * config.frontier.max_mean,
            max_std=spread * config.frontier.max_std,
        ),
        triage=replace(
            config.triage, solved=high if config.triage.solved == 1.0 else low + width * config.triage.solved
        ),
        gate=replace(
            config.gate,
            effect=width * config.gate.effect,
            negligible=width * config.gate.negligible,
            sigma=width * sigma,
        ),
        curriculum=replace(config.curriculum, saturation=width * config.curriculum.saturation),
    )
