"""What a word may mean that is no option: the names that other trainers use, and misspelt ones."""

import difflib
from collections.abc import Collection

ALIASES: dict[str, tuple[str, ...]] = {
    "api_key": ("proposer.api_key_env",),
    "batch_size": ("grpo.groups_per_step", "grpo.micro_batch_tokens", "rollout.batch"),
    "beta": ("grpo.kl_beta",),
    "clip_range": ("grpo.clip_low", "grpo.clip_high"),
    "dataset": ("env.name", "env.options"),
    "env": ("env.name",),
    "ent_coef": ("grpo.entropy_coef",),
    "epochs": ("rounds", "grpo.steps_per_round"),
    "epsilon": ("grpo.clip_low",),
    "epsilon_high": ("grpo.clip_high",),
    "gradient_accumulation_steps": ("grpo.micro_batch_tokens",),
    "gradient_checkpointing": ("grpo.checkpoint_activations",),
    "iterations": ("rounds",),
    "kl_coef": ("grpo.kl_beta",),
    "learning_rate": ("grpo.lr",),
    "llm": ("proposer.name", "proposer.model"),
    "logging": ("tracking.name",),
    "loss_type": ("grpo.loss",),
    "max_completion_length": ("rollout.max_new_tokens",),
    "max_length": ("rollout.max_context",),
    "max_prompt_length": ("rollout.max_context",),
    "max_steps": ("grpo.steps_per_round", "rollout.max_turns"),
    "max_tokens": ("rollout.max_new_tokens", "rollout.max_context"),
    "model": ("policy.path", "proposer.model"),
    "model_name_or_path": ("policy.path",),
    "n_rollouts": ("grpo.group_size",),
    "num_generations": ("grpo.group_size",),
    "num_iterations": ("grpo.updates_per_batch",),
    "num_train_epochs": ("rounds", "grpo.steps_per_round"),
    "num_workers": ("workers",),
    "output_dir": ("run_dir",),
    "per_device_train_batch_size": ("grpo.micro_batch_tokens",),
    "ppo_epochs": ("grpo.updates_per_batch",),
    "report_to": ("tracking.name",),
    "save_steps": ("grpo.save_every_steps",),
    "skill": ("coldstart.draft",),
    "steps": ("grpo.steps_per_round", "editor.steps"),
    "torch_dtype": ("policy.dtype",),
    "use_vllm": ("rollout.engine",),
    "wandb": ("tracking.name",),
    "warmup": ("grpo.warmup_steps",),
}
"""The last part of a name elsewhere → options here."""


def suggest(word: str, names: Collection[str], most: int = 1) -> list[str]:
    """Return the options that a word may mean, the likeliest first.

    An alias, or the last part of an option's name, gives all that bear it; any other word the ``most`` nearest names.

    Args:
        word: such as ``learning_rate``, ``lr`` or ``grpo.lrr``.
        names: of all options, such as ``grpo.lr``.
        most: how many near names are tried.
    """
    meanings = {name: [name] for name in names}
    for name in names:
        leaf = name.rpartition(".")[2]
        if leaf != name:
            meanings.setdefault(leaf, []).append(name)
    meanings |= {alias: [*meanings.get(alias, []), *options] for alias, options in ALIASES.items()}
    word = word.lower().replace("-", "_")
    leaf = word.rpartition(".")[2]
    near = [leaf] if leaf in meanings else difflib.get_close_matches(word, meanings, n=most, cutoff=0.6)
    return list(dict.fromkeys(name for spelling in near for name in meanings[spelling]))


def did_you_mean(word: str, names: Collection[str]) -> str:
    """Return ``, did you mean 'NAME'?`` for a word that is no option, and nothing when no name is near."""
    options = suggest(word, names)
    return f", did you mean {' or '.join(map(repr, options))}?" if options else ""
