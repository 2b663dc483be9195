"""What samples from the policy: torch, constrained torch, vLLM in process or on servers."""
