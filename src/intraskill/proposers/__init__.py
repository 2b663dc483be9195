"""Who proposes edits of the skill, and the filter that every proposal passes."""
