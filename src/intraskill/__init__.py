"""IntraSkill: train an agent with GRPO while one written skill evolves beside it."""

__version__ = "0.1.0"
