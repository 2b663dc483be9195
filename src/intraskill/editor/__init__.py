"""Skill-α: a policy that learns to edit skills, with a rollback reward (arXiv 2608.01678)."""
