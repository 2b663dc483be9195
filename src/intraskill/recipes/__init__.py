"""How shipped and start weights are made: demonstrations, fitting, supervised warm starts."""
