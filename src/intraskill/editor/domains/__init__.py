"""Domains of skill editing: planted worlds, the shop, documents with rubrics, workbooks, tool dialogues."""
