"""The leak filter: refuses text that gives a task, a goal or an answer away."""
