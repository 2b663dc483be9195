"""One tiny model, and policies with an adapter on it."""

from pathlib import Path

import pytest
import torch
from rl.toy import write_model

from intraskill.rl.policy import LoraSettings, Policy, load_policy

LORA = LoraSettings(4, 8, "all-linear")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def policy(model_dir: Path) -> Policy:
    return load_policy(model_dir, lora=LORA)


@pytest.fixture(scope="session")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide enough for vLLM, which wants heads of 32 or more on a CPU; its actions end now and then."""
    return write_model(tmp_path_factory.mktemp("wide"), hidden=128, ending=6.0)
