"""One learner made of several processes."""
