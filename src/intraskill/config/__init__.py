"""Every option with its meaning, unit, range and default; free of heavy imports."""
