"""What else a gate's rows can say; nothing here decides."""
