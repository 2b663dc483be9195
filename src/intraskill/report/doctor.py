"""``intraskill doctor``: what a run of this config needs, and whether it is here."""

import importlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from intraskill.config.config import Config
from intraskill.editor.trained import trained_editor
from intraskill.environments.protocol import own_learner, system_of
from intraskill.method.errors import IntraSkillError
from intraskill.rl.distributed.launch import described, launched
from intraskill.rl.start import policy_directory
from intraskill.rounds.setup import environment_of
from intraskill.store.provenance import VERSIONED, version_of

_FREE_BYTES = 1 << 30

Finding = tuple[bool, str]


def examine(config: Config) -> list[Finding]:
    """Return one line per need, with whether it is met."""
    found: list[Finding] = [(sys.version_info >= (3, 11), f"Python {sys.version.split()[0]} (3.11 or newer)")]
    for package in VERSIONED:
        installed = version_of(package)
        found.append((installed is not None, f"{package} {installed or 'is missing: run make setup'}"))
    found += [_torch(config), _processes(config), _policy(config), _environment(config)]
    found += [*_calls(config), _disk(config)]
    if config.rollout.engine == "vllm":
        found.append(_importable("vllm"))
    elif config.rollout.engine == "vllm_server":
        found += [_vllm_server(config, url) for url in config.rollout.vllm.urls]
    if config.proposer.name == "openai":
        found.append(_key(config.proposer.api_key_env, config.proposer.base_url))
    if config.proposer.name == "skill_alpha":
        found.append(_editor(str(config.proposer.editor)))
    return found


def _key(variable: str, address: str) -> Finding:
    """A provider, reached by https, wants a key; a server of one's own may do without."""
    if os.environ.get(variable):
        return True, f"API key in ${variable}"
    if address.startswith("https:"):
        return False, f"API key in ${variable}"
    return True, f"no API key in ${variable}, which is right if the server at {address} asks for none"


def _editor(path: str) -> Finding:
    try:
        trained = trained_editor(path)
        policy_directory(trained.config.policy.path)
    except IntraSkillError as error:
        return False, str(error)
    return True, f"trained editor {path}, from the weights of {trained.config.policy.path}"


def _torch(config: Config) -> Finding:
    try:
        import torch
    except ImportError as error:
        return False, f"torch cannot be imported: {error}"
    wanted = config.policy.device
    here = wanted in ("auto", "cpu") or torch.cuda.is_available()
    device = "GPU" if torch.cuda.is_available() else "CPU only"
    return here, f"torch runs on {device}, {os.cpu_count()} cores; policy.device={wanted}"


def _processes(config: Config) -> Finding:
    try:
        return True, described(config.distributed, launched())
    except IntraSkillError as error:
        return False, str(error)


def _policy(config: Config) -> Finding:
    if config.env.name == "planted":
        return True, "the planted world needs no weights"
    try:
        directory = policy_directory(config.policy.path)
    except IntraSkillError as error:
        return False, str(error)
    weights = [path for path in directory.iterdir() if path.suffix == ".safetensors"]
    return bool(weights), f"weights in {directory}: {', '.join(path.name for path in weights) or 'none'}"


def _environment(config: Config) -> Finding:
    try:
        environment = environment_of(config)
        counts = ", ".join(
            f"{len(environment.tasks(split))} {split}" for split in ("train", "skill_validation", "test")
        )
    except IntraSkillError as error:
        return False, str(error)
    return True, f"environment {config.env.name}: {counts} tasks"


def _calls(config: Config) -> list[Finding]:
    """How the policy's chat template has actions written, with one example: what a run reads as an action."""
    from transformers import AutoTokenizer

    from intraskill.rl.chat import ChatCodec

    try:
        environment = environment_of(config)
        if own_learner(environment) is not None:
            return []
        tokenizer = AutoTokenizer.from_pretrained(policy_directory(config.policy.path), local_files_only=True)
        variables = config.policy.template_options
        codec = ChatCodec(tokenizer, environment.tools, system=system_of(environment), options=variables)
    except (IntraSkillError, OSError, ValueError) as error:
        return [(False, f"chat template: {error}")]
    try:
        shown = "PAGE" in codec.dialogue()
    except IntraSkillError as error:
        return [(True, codec.account), (True, f"the template cannot render a dialogue of two calls by itself: {error}")]
    whole = "whole" if shown else "without its page, which the template drops"
    return [(True, codec.account), (shown, f"a dialogue of request, call, page and call is rendered {whole}")]


def _disk(config: Config) -> Finding:
    place = Path(config.run_dir).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    return free > _FREE_BYTES and os.access(place, os.W_OK), f"{free / 2**30:.0f} GiB free and writable at {place}"


def _vllm_server(config: Config, url: str) -> Finding:
    from intraskill.rl.engines.vllm_server import VllmClient

    client = VllmClient(url, replace(config.rollout, vllm=replace(config.rollout.vllm, patience_s=3.0)))
    try:
        return True, f"{client.name} serves {client.admit()}"
    except IntraSkillError as error:
        return False, str(error)
    finally:
        client.close()


def _importable(name: str) -> Finding:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return False, f"{name} cannot be imported: {error}"
    return True, f"{name} can be imported"
