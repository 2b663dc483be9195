"""One validation gate: planned, run, assessed, kept."""
