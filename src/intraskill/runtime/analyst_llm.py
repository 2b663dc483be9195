"""The analyst that asks an LLM (`proposer.name=openai`): once on a success, in a dialogue with a trial on a failure.

It is given what the policy could see, and the reward parts; it never sees a goal. What it answers is a candidate
like any other: screen, REDUCE, ledger and gate come after it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from intraskill.environments.protocol import Environment
from intraskill.method.rollouts import Rollout
from intraskill.method.skill import Skill
from intraskill.runtime.analysis_records import AnalysisRecord, rollout_id
from intraskill.runtime.analyst_failure import FailureAnalyst
from intraskill.runtime.analyst_success import analyse_success
from intraskill.runtime.live_trial import full_success
from intraskill.runtime.llm import JsonClient, Usage
from intraskill.runtime.prompts import Prompts, language_of, load_prompts
from intraskill.runtime.proposer_settings import ProposerConfig
from intraskill.runtime.reduce_llm import LlmReducer
from intraskill.runtime.trace2skill import Analysis


@dataclass(frozen=True, slots=True)
class LlmAnalyst:
    """Reads each rollout on its own; see `intraskill.runtime.trace2skill.Analyst`.

    Attributes:
        client: endpoint and cache.
        prompts: of one language.
        environment: where failures are tried again.
        max_calls: most rollouts read per pass; failures come first.
        max_decisions: most decisions of one live trial.
    """

    client: JsonClient
    prompts: Prompts
    environment: Environment
    max_calls: int = 100
    max_decisions: int = 20

    @property
    def name(self) -> str:
        """The model's name."""
        return f"llm:{self.client.endpoint.model}"

    @property
    def reducer(self) -> LlmReducer:
        """The same model unites the proposals."""
        return LlmReducer(self.client, self.prompts)

    @property
    def prompts_hash(self) -> str:
        """Hash of every prompt; a run is bound to it."""
        return self.prompts.hash

    @property
    def usage(self) -> Usage:
        """What the client has spent."""
        return self.client.usage

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Read the rollouts, failures first; a wrong answer is re-asked once, then the rollout is dropped and counted.

        Raises:
            EndpointError: when the endpoint gives no answer.
        """
        scored = sorted((r for r in rollouts if r.fault is None), key=lambda r: (r.reward or 0.0, rollout_id(r)))
        asked = scored[: self.max_calls]
        failures = FailureAnalyst(self.client, self.prompts, self.environment, self.max_decisions)

        def read(rollout: Rollout) -> AnalysisRecord:
            if full_success(rollout.parts, rollout.reward):
                return analyse_success(self.client, self.prompts, rollout, skill)
            return failures.analyse(rollout, skill)

        answers = self.client.each(asked, read)
        records = tuple(record for record in answers if isinstance(record, AnalysisRecord))
        counts = Counter(record.outcome for record in records if record.outcome != "proposed")
        counts["bad_answer"] += len(answers) - len(records)
        counts["parsed"] = len(answers) - counts["bad_answer"]
        counts.update(faults=len(rollouts) - len(scored), over_budget=len(scored) - len(asked))
        proposals = tuple(proposal for record in records for proposal in record.proposed)
        return Analysis(proposals, dict(counts), records)


def llm_analyst(client: JsonClient, environment: Environment, settings: ProposerConfig) -> LlmAnalyst:
    """Return the analyst that the configuration's ``proposer`` section asks for.

    Args:
        client: endpoint and cache.
        environment: where failures are tried again; its language chooses the prompts unless the settings do.
        settings: the section.

    Raises:
        ConfigError: for a language without prompts.
    """
    prompts = load_prompts(language_of(environment, settings.language))
    return LlmAnalyst(client, prompts, environment, settings.max_calls, settings.max_decisions)
