"""docs/research/scaling.md: its tables and result file are those of the model, which counts what torch counts."""

import csv
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "research" / "scaling.md"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("scaling_model")


def test_the_tables_of_the_document_are_those_of_the_model(model: ModuleType) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- table: (.+?) -->", text)) == sorted(model.tables())
    assert model.filled(text) == text
    forged = re.sub(r"\| 4\.21 10\^9 \|", "| 4.22 10^9 |", text)
    assert forged != text and model.filled(forged) == text


def test_the_result_file_is_the_model(model: ModuleType) -> None:
    with (ROOT / "docs" / "results" / "scaling_model.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == [f"{row[3]:.6g}" for row in model.rows_of_all()]
    assert {row["basis"] for row in rows} <= {"counted", "measured", "computed", "assumed"}


def test_the_weights_are_counted_as_torch_counts_them(model: ModuleType) -> None:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig

    config = Qwen3_5TextConfig(hidden_size=model.D, intermediate_size=model.MLP, tie_word_embeddings=True)
    with torch.device("meta"):
        found = AutoModelForCausalLM.from_config(config)
    count = sum(p.numel() for p in found.parameters())
    assert model.parameters() == count
    assert model.parameters() != sum(p.numel() for p in found.model.layers.parameters())
