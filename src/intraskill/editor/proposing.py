"""A trained editor as the proposer of a run: one action per batch of evidence, each against the frozen skill S_t.

In training and compiling an edit is followed by the next one. Here every action is a hypothesis about the same skill,
and what becomes of it is decided as for any other proposal: proposal filter, leak filter, ledger, gate
(docs/skill_alpha.md; method §6.3).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from intraskill.config.config import Config
from intraskill.editor.actions import ActionError, parse_action
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.evidence import EvidenceLimits, Unit, arranged, experience_unit, spelt
from intraskill.editor.passes import answers_to
from intraskill.editor.prompt import PromptSize
from intraskill.editor.scoring import answer_of
from intraskill.editor.setup import editor_environment, prompt_size
from intraskill.editor.states import Chain, EditState, next_units
from intraskill.editor.trained import TrainedEditor, trained_editor
from intraskill.method.errors import ConfigError
from intraskill.method.leakage.filter import Secrets
from intraskill.method.randomness import child_seed, content_hash
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.proposers.analysis_records import AnalysisRecord, call_id, rollout_id
from intraskill.proposers.llm import full_success
from intraskill.proposers.trace2skill import Analysis, Proposer
from intraskill.rl.learner import Learner
from intraskill.rl.start import policy_directory, start_policy
from intraskill.store.provenance import draft_of


@dataclass(frozen=True, slots=True)
class Editor:
    """An editor that can be asked.

    Attributes:
        environment: its prompts and its actions.
        learner: its weights.
        limits: how much one prompt holds.
        size: measures prompts.
        drafter: writes the drafts that come with the evidence, or ``None``.
    """

    environment: EditorEnvironment
    learner: Learner
    limits: EvidenceLimits
    size: PromptSize
    drafter: Proposer | None = None


@dataclass(frozen=True)
class EditorProposer:
    """Reads rollouts in batches; see `intraskill.proposers.trace2skill.Proposer`.

    Attributes:
        name: what the report calls it.
        load: returns the editor; called when it is first asked, as an evaluation of the run asks nothing.
        seed: of the run.
        most: most rollouts read per pass; failures come first.
    """

    name: str
    load: Callable[[], Editor]
    seed: int
    most: int
    reducer: None = None
    usage: None = None

    @cached_property
    def editor(self) -> Editor:
        """The editor, loaded once."""
        return self.load()

    @property
    def prompts_hash(self) -> str:
        """Hash of weights, prompts and limits; a run is bound to it."""
        learner = self.editor.learner
        return content_hash(learner.checkpoint, sorted(learner.conditions.items()), repr(self.editor.limits))

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Return one proposal per batch whose answer is a valid edit; every other answer is counted by its reason.

        Raises:
            EnvironmentFault: when an answer broke technically.
        """
        scored = sorted((rollout for rollout in rollouts if rollout.fault is None), key=_canonical)
        read = scored[: self.most]
        counts = Counter(faults=len(rollouts) - len(scored), over_budget=len(scored) - len(read), no_room=0)
        if not read:
            return Analysis((), dict(counts))
        states = self._states(read, skill, counts)
        answers = answers_to(self.editor.environment, self.editor.learner, states, self.seed, "propose")
        records = [self._record(state, answer) for state, answer in zip(states, answers, strict=True)]
        counts.update(asked=len(records), noop=0, invalid=0)
        for record in records:
            kind = record.outcome.partition("/")[0]
            counts.update({kind, record.outcome} - {"proposed"})
        return Analysis(tuple(p for record in records for p in record.proposed), dict(counts), tuple(records))

    def _states(self, rollouts: Sequence[Rollout], skill: Skill, counts: Counter[str]) -> list[EditState]:
        """Pack the rollouts into edit states of one skill, mixed by an address so that a batch shows several tasks."""
        editor, address = self.editor, content_hash(skill.hash, list(map(rollout_id, rollouts)))
        drafts = drafts_of(editor.drafter, rollouts, skill)
        units = [_unit(rollout, editor.limits, chunks) for rollout, chunks in zip(rollouts, drafts, strict=True)]
        chain = Chain(address, skill, arranged(units, "shuffled", child_seed(self.seed, address)))
        states = []
        while chain.rest:
            try:
                batch = next_units(chain, editor.limits, editor.size)
            except ConfigError:  # skill and drafts fill the prompt; the gate may shorten the skill again
                counts["no_room"] += 1
                chain = chain.after(skill, 1)
                continue
            states.append(EditState(f"{chain.id}/step-{chain.step}", skill, batch, ()))
            chain = chain.after(skill, len(batch))
        return states

    def _record(self, state: EditState, answer: Rollout) -> AnalysisRecord:
        """Read one answer; the proposal filter judges its text, so that a refusal enters the ledger like any other."""
        read, text = tuple(unit.id for unit in state.units), answer_of(answer)
        name = call_id("edit", read[0], [state.id, state.prompt])
        record = AnalysisRecord(name, "edit", self.name, inputs=read, diagnosis=text)
        try:
            if answer.truncated:
                raise ActionError("too_long", "the answer was cut at rollout.max_new_tokens of the editor's training")
            action = parse_action(text, drafts=state.drafts, actions=self.editor.environment.actions)
            edit = action.to_edit(state.skill)
        except ActionError as error:
            return replace(record, outcome=f"invalid/{error.kind}", private_notes=str(error))
        if edit is None:
            return replace(record, outcome="noop")
        return record.proposing(
            [Proposal(edit.op, edit.removes, edit.adds, f"{action.name} by {self.name}", tuple(sorted(set(read))))]
        )


def drafts_of(drafter: Proposer | None, rollouts: Sequence[Rollout], skill: Skill) -> list[tuple[Chunk, ...]]:
    """Return, for every rollout, the texts that a proposer would add because of it, each once; none for a success.

    In an editor's training only failures bring drafts. A world's own proposer may name a rollout by its task, or by
    task and sample, instead of by `rollout_id`.
    """
    found: dict[str, dict[str, Chunk]] = {}
    for proposal in () if drafter is None else drafter.analyse(rollouts, skill).proposals:
        for name in proposal.support:
            found.setdefault(name, {}).update({chunk.id: chunk for chunk in proposal.chunks})

    def written(rollout: Rollout) -> tuple[Chunk, ...]:
        names = (rollout_id(rollout), f"{rollout.task_id}#{rollout.sample}", rollout.task_id)
        return tuple(next((found[name] for name in names if name in found), {}).values())

    return [() if full_success(rollout.parts, rollout.reward) else written(rollout) for rollout in rollouts]


def _canonical(rollout: Rollout) -> tuple[float, str, tuple[str, ...]]:
    """Failures first; by id and actions then, so that the order in which rollouts arrive does not matter."""
    return rollout.reward or 0.0, rollout_id(rollout), tuple(turn.action for turn in rollout.turns)


def _unit(rollout: Rollout, limits: EvidenceLimits, drafts: Sequence[Chunk]) -> Unit:
    unit = experience_unit(replace(rollout, turns=tuple(map(spelt, rollout.turns))), limits, drafts=drafts)
    assert unit is not None, "a rollout without a fault has a reward"
    return replace(unit, id=rollout_id(rollout))


def editor_proposer(config: Config, drafter: Proposer) -> EditorProposer:
    """Return the proposer that asks ``proposer.editor``; its files are read when it is first asked.

    Args:
        config: of the run.
        drafter: the proposer whose texts come as drafts, where ``proposer.drafts`` wants them.
    """

    def load() -> Editor:
        trained = trained_editor(str(proposer.editor))
        wanted = trained.takes_drafts if proposer.drafts is None else proposer.drafts
        return _load_editor(trained, config, drafter if wanted else None)

    proposer = config.proposer
    return EditorProposer(f"skill_alpha:{Path(str(proposer.editor)).name}", load, config.seed, proposer.max_calls)


def _load_editor(trained: TrainedEditor, config: Config, drafter: Proposer | None) -> Editor:
    """Load an editor for a run: its prompts are those of its training, device and temperature those of the run.

    It samples in this process with the torch engine, whatever it was trained with.

    Raises:
        ConfigError: when its start weights are gone, its prompts are written differently by now, or the run's draft
            leaves no room for evidence.
        CheckpointError: for weights that are corrupt or of another model.
    """
    from intraskill.rl.engines.torch_engine import TorchEngine
    from intraskill.rl.trainer import TorchLearner

    own, run = trained.config, config.policy
    own = replace(own, threads=config.threads, workers=1, policy=replace(own.policy, device=run.device))
    limits, where = trained.limits, f"proposer.editor={trained.path}"
    try:
        policy_directory(own.policy.path)
    except ConfigError as error:
        raise ConfigError(f"{where}: the weights that it was trained from are gone; {error}") from error
    # Without secrets: what this environment's leak filter finds is a feedback code that nobody reads, see `_record`.
    environment = editor_environment(own, Secrets())
    own.rollout = replace(own.rollout, max_turns=1, constrained=False)
    policy = start_policy(own)
    # An engine of its own: a trainer's temperature is above 0, and the likeliest answer is that of 0.
    engine = TorchEngine(
        policy,
        stop_id=int(policy.tokenizer.eos_token_id),
        temperature=config.proposer.temperature,
        max_new_tokens=own.rollout.max_new_tokens,
    )
    learner = TorchLearner(policy, environment, own, engine=engine)
    if trained.checkpoint is not None:
        learner.load(trained.checkpoint)
    here = learner.conditions["prompt"]
    if trained.prompt not in ("", here):
        raise ConfigError(
            f"{where} was trained on other prompts than this version writes ({trained.prompt} there, {here} here); "
            "train it again"
        )
    size = prompt_size(learner, environment)
    if (taken := size.of(draft_of(config), (), ())) >= limits.tokens:
        raise ConfigError(
            f"{where} reads prompts of {limits.tokens} tokens, and coldstart.draft={config.coldstart.draft} with the "
            f"instructions takes {taken} of them; shorten the draft, or use an editor of longer prompts"
        )
    return Editor(environment, learner, limits, size, drafter)
