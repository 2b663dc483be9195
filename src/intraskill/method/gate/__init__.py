"""The randomised-mask, paired-delta gate and its statistics."""
