"""What sealed rounds say about a skill, and skills to and from other tools."""
