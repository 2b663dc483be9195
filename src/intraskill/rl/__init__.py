"""Rollouts, GRPO updates and checkpoints of one policy."""
