"""The shipped tiny editor: its traces and its recipe."""
