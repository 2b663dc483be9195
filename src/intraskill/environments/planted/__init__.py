"""A world with known true contributions, and its learner: no model, milliseconds."""

from intraskill.environments.planted.learner import PlantedLearner
from intraskill.environments.planted.world import PlantedChunk, PlantedEdit, PlantedSession, PlantedWorld

__all__ = ["PlantedChunk", "PlantedEdit", "PlantedLearner", "PlantedSession", "PlantedWorld"]
