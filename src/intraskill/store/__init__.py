"""What is on disk: run directories, records, metrics, provenance, skill folders."""
