"""Which contexts training groups see, and what failures call for."""
