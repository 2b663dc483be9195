"""A world with known true contributions, and its learner: no model, milliseconds."""

from intraskill.environments.planted.learner import PlantedLearner
from intraskill.environments.planted.world import PlantedChunk, PlantedSession, PlantedWorld

__all__ = ["PlantedChunk", "PlantedLearner", "PlantedSession", "PlantedWorld"]
