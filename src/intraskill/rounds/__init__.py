"""The loop and its stages, each of which writes one readable artifact."""
