"""The knobs of whoever writes candidate edits; free of heavy imports, so that a configuration can be read."""

from dataclasses import dataclass

from intraskill.runtime.knobs import knob


@dataclass
class ProposerConfig:
    """Who writes candidate edits (Trace2Skill)."""

    name: str = knob("rules", "analyst", choices=("rules", "openai", "none"))
    max_candidates: int = knob(6, "most edits that one gate tests", "[0, 64]")
    stay_away_rounds: int = knob(2, "rounds for which a losing edit may not return", "[0, 1000]")
    max_calls: int = knob(100, "most rollouts that an LLM reads per round; failures come first", "[1, inf)")
    max_decisions: int = knob(20, "most decisions of an LLM's live trial of its fix of one failure", "[1, 1000]")
    language: str = knob("auto", "of an LLM's prompts; auto: the environment's", choices=("auto", "en", "zh"))
    base_url: str = knob("http://127.0.0.1:8000/v1", "OpenAI-compatible endpoint")
    model: str = knob("", "model name at the endpoint")
    api_key_env: str = knob("OPENAI_API_KEY", "environment variable that holds the key; the key is never written")
