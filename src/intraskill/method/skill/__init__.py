"""The skill document, its edits and proposals."""
