"""Train the language model that `exactness ppl` scores; minutes on an H200.

    apt-get install bible-kjv
    bible -f 'Gen1:1-Rev22:21' > build/quality/kjv.txt
    python scripts/train_quality_model.py --text build/quality/kjv.txt --out exactness/quality/data

Writes model.safetensors (bf16), heldout.txt, training.json (the loss curve) and README.md (the
model card). Batches, weights and dropout come from the seed; the bits of the result still depend on
the GPU and the versions of its libraries, so the weights are shipped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from exactness import environment
from exactness.quality import byte_model, corpus
from exactness.quality.byte_model import Shape
from exactness.writing import write_atomically

BETAS, WEIGHT_DECAY, CLIP, DROPOUT = (0.9, 0.95), 0.1, 1.0, 0.1
WARMUP, SHOWN = 200, 250


def main() -> None:
    options = arguments()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    texts = corpus.read(options.text)
    shape = Shape()
    print(f"{sum(map(math.prod, shape.weights().values())):,} parameters, {asdict(shape)}")
    print(
        f"text: {len(texts.train):,} bytes, {len(texts.validation):,} and {len(texts.held_out):,}"
    )
    started = time.perf_counter()
    weights, curve = trained(shape, texts, options)
    seconds = time.perf_counter() - started
    byte_model.save(options.out / "model.safetensors", shape, weights)
    write_atomically(options.out / "heldout.txt", texts.held_out)
    final = rounded_losses(options.out / "model.safetensors", texts, options.device)
    record = {
        "shape": asdict(shape),
        "steps": options.steps,
        "batch": options.batch,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "curve": curve,
        "final_nats_per_byte": final,
        "environment": environment.collect().to_dict(),
    }
    write_atomically(options.out / "training.json", (json.dumps(record, indent=1) + "\n").encode())
    write_atomically(options.out / "README.md", card(record, texts, options).encode())
    print(f"trained in {seconds:.0f} s; nats per byte of the rounded weights: {final}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help=f"output of {corpus.COMMAND}")
    parser.add_argument("--out", type=Path, required=True, help="folder that is written")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=64, help="windows of a step")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default)
    return parser.parse_args()


def trained(
    shape: Shape, texts: corpus.Corpus, options: argparse.Namespace
) -> tuple[dict[str, Tensor], list[dict[str, float]]]:
    drawn = byte_model.drawn(shape, options.seed)
    weights = {name: w.to(options.device).requires_grad_() for name, w in drawn.items()}
    matrices = [w for w in weights.values() if w.ndim == 2]
    vectors = [w for w in weights.values() if w.ndim == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors}]
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, weight_decay=0.0)
    curve, summed = [], torch.zeros((), device=options.device)
    for step, tokens in enumerate(batches(texts.train, shape, options), 1):
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * rate(step, options.steps)
        loss = mean_loss(shape, weights, tokens, DROPOUT)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        optimizer.step()
        summed += loss.detach()
        if step % SHOWN == 0 or step == options.steps:
            point = {
                "step": step,
                "train": round(float(summed) / (step - (step - 1) // SHOWN * SHOWN), 4),
                "validation": round(text_loss(shape, weights, texts.validation), 4),
            }
            print(point, flush=True)
            curve.append(point)
            summed.zero_()
    return {name: weight.detach() for name, weight in weights.items()}, curve


def rate(step: int, steps: int) -> float:
    """Rises over the first steps, then falls along a cosine to a tenth."""
    if step < WARMUP:
        return step / WARMUP
    return 0.55 + 0.45 * math.cos(math.pi * (step - WARMUP) / max(steps - WARMUP, 1))


def batches(text: bytes, shape: Shape, options: argparse.Namespace) -> Iterator[Tensor]:
    """int64 [batch, context + 1], from places that are drawn."""
    everything = torch.from_numpy(np.frombuffer(text, np.uint8).copy()).to(options.device)
    generator = torch.Generator().manual_seed(options.seed)
    reach = torch.arange(shape.context + 1, device=options.device)
    for _ in range(options.steps):
        last = len(text) - shape.context
        start = torch.randint(last, (options.batch, 1), generator=generator)
        yield everything[start.to(options.device) + reach].long()


def mean_loss(shape: Shape, weights: dict[str, Tensor], tokens: Tensor, dropout: float) -> Tensor:
    """Nats per byte, the products in bf16."""
    with torch.autocast(tokens.device.type, torch.bfloat16):
        scores = byte_model.logits(shape, weights, tokens[:, :-1], dropout=dropout)
    return functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())


@torch.no_grad()
def text_loss(shape: Shape, weights: dict[str, Tensor], text: bytes) -> float:
    """Nats per byte over windows that do not overlap."""
    device = weights["embedding"].device
    count = (len(text) - 1) // shape.context
    everything = torch.from_numpy(np.frombuffer(text, np.uint8).copy()).to(device).long()
    windows = everything.unfold(0, shape.context + 1, shape.context)[:count]
    parts = [mean_loss(shape, weights, part, 0.0) * len(part) for part in windows.split(64)]
    return float(sum(parts)) / count


def rounded_losses(path: Path, texts: corpus.Corpus, device: str) -> dict[str, float]:
    """What the file that was written reaches."""
    shape, weights = byte_model.load(path, device)
    return {
        "validation": round(text_loss(shape, weights, texts.validation), 4),
        "held_out": round(text_loss(shape, weights, texts.held_out), 4),
    }


CARD = """# A small language model of bytes

For `exactness ppl`: a causal language model whose attention normalises every query head over
{head_dim} dimensions without a weight, as DeepSeek V4's does. It is a measuring instrument for that
norm, not a model to use.

| | |
|---|---|
| parameters | {parameters:,}, bf16 |
| shape | {layers} layers, width {width}, {heads} query heads of {head_dim} dimensions, one shared \
key-value head, rotary embedding of the last {rope_dim}, feed-forward {hidden}, context {context} |
| vocabulary | 256 byte values |
| text | King James Version, Debian package bible-kjv-text 4.38, printed by `{command}` \
(SHA-256 {printed}); public domain: the package's copyright file says that its copyright has \
expired |
| trained on | {train:,} bytes; all books but Ezekiel (held out) and Hosea (validation) |
| held out | `heldout.txt`, Ezekiel, {held_out:,} bytes, SHA-256 {held_out_sha} |
| training | {steps} steps of {batch} windows of {context} bytes, AdamW, learning rate \
{learning_rate}, dropout {dropout}, seed {seed}, {seconds} s on {machine} |
| nats per byte | {validation} on Hosea, {held_out_loss} on Ezekiel, rounded weights |
| made by | `scripts/train_quality_model.py`; the loss curve is in `training.json` |

Weights and card are under the licence of this project; the text is in the public domain.
"""


def card(record: dict, texts: corpus.Corpus, options: argparse.Namespace) -> str:
    shape = record["shape"]
    machine = record["environment"]
    return CARD.format(
        **shape,
        parameters=sum(map(math.prod, Shape(**shape).weights().values())),
        command=corpus.COMMAND,
        printed=corpus.PRINTED_SHA256,
        train=len(texts.train),
        held_out=len(texts.held_out),
        held_out_sha=hashlib.sha256(texts.held_out).hexdigest(),
        steps=options.steps,
        batch=options.batch,
        learning_rate=options.learning_rate,
        dropout=DROPOUT,
        seed=options.seed,
        seconds=record["seconds"],
        machine=machine["gpu"] or machine["cpu"],
        validation=record["final_nats_per_byte"]["validation"],
        held_out_loss=record["final_nats_per_byte"]["held_out"],
    )


if __name__ == "__main__":
    main()
