"""The method, one idea per file: standard library and numpy only, no I/O, no torch, no clock."""
