"""HTTP towards servers that may misbehave: one bounded exchange, one policy of repetition, keys that never show."""
