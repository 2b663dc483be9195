"""Questions to an OpenAI-compatible endpoint: client, wire, cache, budget."""
