"""Tables and plots made from a finished run's artifacts."""
