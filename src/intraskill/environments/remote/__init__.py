"""Clients of shops that run in another process: three HTTP dialects behind one session."""
