"""One tiny model per test session."""

from pathlib import Path

import pytest
import torch
from rl.toy import write_model

from intraskill.rl.policy import Policy, load_policy


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def policy(model_dir: Path) -> Policy:
    return load_policy(model_dir)
