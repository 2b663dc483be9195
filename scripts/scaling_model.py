"""Memory and time of Qwen3.5-4B in the published configuration on 1, 4, 8 and 64 GPUs: arithmetic, no model is run.

python scripts/scaling_model.py      # writes docs/results/scaling_model.csv and the tables of docs/research/scaling.md

Every row says what it rests on: counted (from the architecture), measured (a result file of this repository, on a CPU),
computed (from the two), or assumed. Nothing here was measured on a GPU.
"""

import csv
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "research" / "scaling.md"
RESULTS = ROOT / "docs" / "results"
GPUS = (1, 4, 8, 64)
GB = 1e9

# The architecture: vocabulary, hidden size and the share of linear attention are public; the other sizes are the
# defaults of transformers' Qwen3_5TextConfig with the 4B's hidden size, and its MLP width is assumed.
V, D, MLP = 248_320, 2_560, 9_216
LINEAR, FULL = 24, 8
KEYS, VALUES, KERNEL = 16 * 128, 32 * 128, 4
QUERIES, GROUPS = 16 * 256, 4 * 256
LORA_RANK = 16

# A GPU of the H100 class, and what of it is assumed to be reached.
CARD_GB, FLOPS, BANDWIDTH, NVLINK, NETWORK = 80, 0.35 * 989e12, 0.6 * 3.35e12, 300e9, 40e9
NODE = 8
THINKING, ACTIONS = 256, 6
"""Sampled tokens per action, and actions per episode: assumptions, no Qwen3.5-4B was run here."""

# configs/exp/shopsim.yaml
G, GROUPS_PER_STEP, OVERSAMPLE, STEPS, ROUNDS, GATE_TASKS, MICRO_TOKENS = 8, 16, 2.0, 20, 4, 400, 32_768

Row = tuple[str, str, str, float, str, str]


def layers() -> list[tuple[int, list[tuple[int, int]], int]]:
    """Return, per kind of layer: how many, its linear maps (in, out), and its other weights."""
    mlp = [(D, MLP), (D, MLP), (MLP, D)]
    linear = [(D, 2 * KEYS + VALUES), (D, VALUES), (D, 32), (D, 32), (VALUES, D), *mlp]
    full = [(D, 2 * QUERIES), (D, GROUPS), (D, GROUPS), (QUERIES, D), *mlp]
    return [(LINEAR, linear, (2 * KEYS + VALUES) * KERNEL + 2 * 32 + 128 + 2 * D), (FULL, full, 2 * 256 + 2 * D)]


def parameters() -> int:
    """Return the weights of the text model, head and embedding tied."""
    return V * D + D + sum(n * (sum(a * b for a, b in maps) + rest) for n, maps, rest in layers())


def adapter() -> int:
    """Return the weights of a LoRA adapter on every linear map."""
    return sum(n * LORA_RANK * sum(a + b for a, b in maps) for n, maps, _ in layers())


def activations() -> tuple[float, float, float]:
    """Return bytes per token kept for the backward pass: everything, layer inputs only, one layer's everything."""
    linear = 2 * (4 * D + 2 * (2 * KEYS + VALUES) + 3 * VALUES + 3 * MLP)
    full = 2 * (4 * D + 2 * QUERIES + 2 * GROUPS + 2 * QUERIES + 3 * MLP)
    return LINEAR * linear + FULL * full, 2 * D * (LINEAR + FULL), float(max(linear, full))


def tokens() -> dict[str, float]:
    """Return the token counts of a prompt and an episode: measured with the real tokenizer, thinking assumed."""
    with (RESULTS / "shopsim_tokens.csv").open(newline="", encoding="utf-8") as file:
        found = {(r["language"], r["renderer"], r["what"]): float(r["median"]) for r in csv.DictReader(file)}
    prompt = found["en", "structured", "prompt at most"]
    pages = found["en", "structured", "episode without thinking: lexical shopper"]
    return {"prompt": prompt, "pages": pages, "sampled": float(THINKING * ACTIONS)}


def memory() -> list[Row]:
    """Bytes per GPU that do not depend on the batch, by what is trained and how it is shared."""
    n, a = parameters(), adapter()
    kinds = {  # bytes of weights, gradients and both moments
        "LoRA, bfloat16": (2 * n + 4 * a, 4 * a, 8 * a),
        "full, bfloat16": (2 * n, 2 * n, 4 * n),
        "full, float32": (4 * n, 4 * n, 8 * n),
    }
    rows: list[Row] = []
    for kind, sizes in kinds.items():
        for gpus in GPUS:
            for strategy in ("ddp", "fsdp") if gpus > 1 else ("one process",):
                held = [size / (gpus if strategy == "fsdp" else 1) / GB for size in sizes]
                for name, value in zip(("weights", "gradients", "AdamW"), held, strict=True):
                    rows.append(("memory", f"{kind}, {strategy}, {gpus} GPUs", name, value, "GB", "computed"))
                rows.append(("memory", f"{kind}, {strategy}, {gpus} GPUs", "sum", sum(held), "GB", "computed"))
    return rows


def batch_memory() -> list[Row]:
    """Bytes that depend on the batch."""
    t = tokens()
    whole, inputs, one = activations()
    context = t["prompt"] + t["pages"] + t["sampled"]
    key_values, state = FULL * 2 * GROUPS * 2, LINEAR * (32 * 128 * 128 * 4 + (2 * KEYS + VALUES) * KERNEL * 2)
    group = t["prompt"] + G * (t["pages"] + t["sampled"])
    return [
        ("batch", "activations", "per token, all kept", whole / 1e6, "MB", "computed"),
        ("batch", "activations", "per token, recomputed", inputs / 1e6, "MB", "computed"),
        ("batch", "activations", "micro-batch, all kept", MICRO_TOKENS * whole / GB, "GB", "computed"),
        ("batch", "activations", "micro-batch, recomputed", MICRO_TOKENS * (inputs + one) / GB, "GB", "computed"),
        ("batch", "activations", "a group, dense, tokens", G * context, "tokens", "computed"),
        ("batch", "activations", "a group, shared prefix, tokens", group, "tokens", "computed"),
        ("batch", "head", "plain, logits of a micro-batch, float32", MICRO_TOKENS * V * 4 / GB, "GB", "computed"),
        ("batch", "head", "fused, frozen, 1,024 tokens, float32", 20.6 * 2**20 / GB, "GB", "measured"),
        ("batch", "head", "fused, trained, 1,024 tokens, float32", 32.4 * 2**20 / GB, "GB", "measured"),
        ("batch", "head", "fused on CUDA, seven tiles of 2^26 logits", 7 * 2**26 * 4 / GB, "GB", "computed"),
        ("batch", "rollouts", "keys and values per token", key_values / 1e3, "kB", "computed"),
        ("batch", "rollouts", "linear-attention state per episode", state / 1e6, "MB", "computed"),
        ("batch", "rollouts", "one episode at its end", (context * key_values + state) / 1e6, "MB", "computed"),
        ("batch", "rollouts", "256 episodes", 256 * (context * key_values + state) / GB, "GB", "computed"),
    ]


def longest_share(gpus: int) -> float:
    """Tokens that the busiest GPU forwards in an update; beyond one group per GPU a group is cut, prefix repeated."""
    t = tokens()
    suffix = t["pages"] + t["sampled"]
    if gpus <= GROUPS_PER_STEP:
        return math.ceil(GROUPS_PER_STEP / gpus) * (t["prompt"] + G * suffix)
    return t["prompt"] + math.ceil(G / math.ceil(gpus / GROUPS_PER_STEP)) * suffix


def timing() -> list[Row]:
    """Seconds of one step, and hours of the run."""
    t, n = tokens(), parameters()
    episodes = GROUPS_PER_STEP * OVERSAMPLE * G
    key_values, state = FULL * 2 * GROUPS * 2, LINEAR * 32 * 128 * 128 * 4
    middle = t["prompt"] + (t["pages"] + t["sampled"]) / 2
    rows: list[Row] = []
    for gpus in GPUS:
        rate = NVLINK if gpus <= NODE else NETWORK
        here = math.ceil(episodes / gpus)
        prefill = 2 * n * (GROUPS_PER_STEP * OVERSAMPLE * t["prompt"] + episodes * t["pages"]) / gpus / FLOPS
        decode = t["sampled"] * (2 * n + here * (middle * key_values + 2 * state)) / BANDWIDTH
        share = (gpus - 1) / gpus
        micro = longest_share(gpus) / MICRO_TOKENS
        for kind, factor, ddp_bytes in (("LoRA", 6, 4 * adapter()), ("full", 8, 4 * n)):
            update = factor * n * longest_share(gpus) / FLOPS
            sent = {"ddp": 2 * share * ddp_bytes}
            gathered = 2 * n if kind == "LoRA" else 4 * n
            sent["fsdp"] = share * math.ceil(micro) * (4 * gathered + 2 * ddp_bytes)
            label = f"{kind}, {gpus} GPUs"
            step = prefill + decode + update + sent["ddp"] / rate
            gates = (ROUNDS + 1) * 3 * GATE_TASKS / episodes * (prefill + decode)
            hours = (ROUNDS * STEPS * step + gates) / 3600
            for name, value, unit in (
                ("prefill", prefill, "s"), ("decode", decode, "s"), ("update", update, "s"),
                ("ddp sent", sent["ddp"] / GB, "GB"), ("ddp exchange", sent["ddp"] / rate, "s"),
                ("fsdp sent", sent["fsdp"] / GB, "GB"), ("fsdp exchange", sent["fsdp"] / rate, "s"),
                ("step, ddp", step, "s"), ("run, ddp", hours, "h"),
            ):  # fmt: skip
                rows.append(("time", label, name, value, unit, "computed"))
    return rows


def facts() -> list[Row]:
    """What everything else is computed from."""
    t = tokens()
    return [
        ("facts", "model", "weights", parameters() / GB, "10^9", "counted"),
        ("facts", "model", "embedding and head, tied", V * D / GB, "10^9", "counted"),
        ("facts", "model", "LoRA weights, rank 16", adapter() / 1e6, "10^6", "counted"),
        ("facts", "texts", "prompt at most", t["prompt"], "tokens", "measured"),
        ("facts", "texts", "pages of an episode", t["pages"], "tokens", "measured"),
        ("facts", "texts", "sampled in an episode", t["sampled"], "tokens", "assumed"),
        ("facts", "GPU", "memory", float(CARD_GB), "GB", "assumed"),
        ("facts", "GPU", "matrix work reached", FLOPS / 1e12, "TFLOP/s", "assumed"),
        ("facts", "GPU", "memory traffic reached", BANDWIDTH / 1e12, "TB/s", "assumed"),
        ("facts", "GPU", "between GPUs of a machine", NVLINK / GB, "GB/s", "assumed"),
        ("facts", "GPU", "between machines, per GPU", NETWORK / GB, "GB/s", "assumed"),
    ]


def number(value: float) -> str:
    """Return three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows))


def wide(rows: Sequence[Row], first: str, names: Sequence[str]) -> str:
    """Return one line per subject and one column per quantity."""
    found = {(subject, name): number(value) for _, subject, name, value, _, _ in rows}
    units = {name: unit for _, _, name, _, unit, _ in rows}
    subjects = list(dict.fromkeys(subject for _, subject, *_ in rows))
    head = [first, *(f"{name}, {units[name]}" for name in names)]
    return table(head, [[subject, *(found[subject, name] for name in names)] for subject in subjects])


def long(rows: Sequence[Row]) -> str:
    """Return one line per row."""
    return table(
        ["what", "quantity", "value", "basis"],
        [[s, q, f"{number(v)} {unit}", basis] for _, s, q, v, unit, basis in rows],
    )


def tables() -> dict[str, str]:
    """Return every table of the document by name."""
    return {
        "facts": long(facts()),
        "memory": wide(memory(), "trained, shared, GPUs", ("weights", "gradients", "AdamW", "sum")),
        "batch": long(batch_memory()),
        "time": wide(
            timing(), "trained, GPUs", ("prefill", "decode", "update", "ddp exchange", "step, ddp", "run, ddp")
        ),
        "traffic": wide(timing(), "trained, GPUs", ("ddp sent", "ddp exchange", "fsdp sent", "fsdp exchange")),
    }


def filled(text: str) -> str:
    """Return the document with its tables as they are now."""
    for name, content in tables().items():
        pattern = rf"(<!-- table: {name} -->\n).*?(\n<!-- end -->)"
        text = re.sub(pattern, lambda found: found[1] + content + found[2], text, flags=re.DOTALL)  # noqa: B023
    return text


def rows_of_all() -> list[Row]:
    """Return every row of the result file."""
    return [*facts(), *memory(), *batch_memory(), *timing()]


def main() -> None:
    """Write the result file and the tables."""
    with (RESULTS / "scaling_model.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "what", "quantity", "value", "unit", "basis"])
        writer.writerows([*row[:3], f"{row[3]:.6g}", *row[4:]] for row in rows_of_all())
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
