"""Task environments behind one protocol (`environments.protocol`)."""
