"""How cuBLAS sums: `F.linear` on inputs that cancel, and which splits of K explain the result.

    python scripts/record_projections.py record OUTPUT.safetensors     # on a GPU
    python scripts/record_projections.py explain OUTPUT.safetensors    # anywhere

Many sums nearly cancel, so that the bf16 result shows each part's rounding and the order of adding.
Inputs are drawn from seeds; only outputs are kept.
`explain` prints, for each product, the splits that reproduce all of its bits; it exits 1 when one
has none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from exactness import environment, golden
from exactness.bits import Bits, decode, encode
from exactness.formats import bf16
from exactness.golden import GoldenFile
from exactness.hopper.tensor_core import kind_of, matmul
from exactness.inputs.patterns import FAMILIES, generator, seed_of
from exactness.rounding import round_to

SHAPES = {"linear_gate": (2048, 6), "linear_gate_up": (2048, 256), "linear_down": (128, 2048)}
"""K and columns, by the prefix of the recordings."""

TOKENS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128)
LARGE = (129, 192, 255, 256, 257, 384, 511, 512, 513, 768, 1024, 2048, 4096)

Order = Callable[[np.ndarray], np.ndarray]


def draws(tokens: int) -> int:
    """Products of so many rows that are recorded, so that small ones show as much as others."""
    return max(128 // tokens, 1)


def operands(prefix: str, tokens: int, draw: int) -> tuple[Bits, Bits]:
    """x, whose rows cancel, and a weight with every second row a constant.

    Half of the rows of x hold each value beside its near negative; the others normal values and
    one pair ±M, which swallows what is added to M before −M comes.
    """
    depth, columns = SHAPES[prefix]
    rng = generator(seed_of(f"{prefix}/T{tokens}/{draw}"))
    x = FAMILIES["cancelling"](rng, bf16, (tokens, depth))
    weight = FAMILIES["log_spaced"](rng, bf16, (columns, depth))
    weight[::2] = FAMILIES["constant"](rng, bf16, (depth,))
    masked = np.arange(tokens)[rng.integers(0, 2, tokens) == 1]
    x[masked] = FAMILIES["normal"](rng, bf16, (masked.size, depth))
    for row in masked:
        place = rng.choice(depth, 2, replace=False)
        mask = np.ldexp(1.0, int(rng.integers(16, 40)))
        x[row, place] = encode(np.array([mask, -mask]), bf16)
    return Bits(x, bf16), Bits(weight, bf16)


def record(path: Path) -> int:
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device; run this on a Hopper GPU", file=sys.stderr)
        return 2
    tensors, parameters = {}, {}
    for prefix in SHAPES:
        for tokens in TOKENS + LARGE:
            key = f"{prefix}_cancelling/T{tokens}"
            for draw in range(draws(tokens)):
                x, weight = (bits.torch("cuda") for bits in operands(prefix, tokens, draw))
                out, again = (torch.nn.functional.linear(x, weight) for _ in range(2))
                if not torch.equal(out.view(torch.int16), again.view(torch.int16)):
                    print(f"{prefix} T={tokens}: two calls differ", file=sys.stderr)
                # Columns are independent; a few of them are enough.
                kept = out[:, : max(16384 // tokens, 2)].contiguous()
                tensors[f"{key}/out{draw}"] = Bits.of(kept)
            parameters[key] = {"tokens": tokens}
    golden.write(path, tensors, environment.collect().to_dict(), parameters, baseline="F.linear")
    print(f"recorded {len(tensors)} products in {path}")
    return 0


def _sequential(parts: np.ndarray) -> np.ndarray:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _pairwise(parts: np.ndarray) -> np.ndarray:
    while len(parts) > 1:
        odd = parts[-1:] if len(parts) % 2 else parts[:0]
        pairs = len(parts) // 2 * 2
        parts = np.concatenate([parts[0:pairs:2] + parts[1:pairs:2], odd])
    return parts[0]


def _halving(parts: np.ndarray) -> np.ndarray:
    while len(parts) > 1:
        half = -(-len(parts) // 2)
        low = parts[:half].copy()
        low[: len(parts) - half] += parts[half:]
        parts = low
    return parts[0]


ORDERS: Mapping[str, Order] = {
    "ascending": _sequential,
    "descending": lambda parts: _sequential(parts[::-1]),
    "pairwise": _pairwise,
    "halving": _halving,
}


def candidates(x: np.ndarray, weight: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Every way to sum, in words, and its result."""
    kind, depth = kind_of(bf16, bf16), x.shape[1]
    yield "one chain", round_to(matmul(x, weight.T, kind=kind), bf16)
    if depth == 2048 and x.shape[0] == 1:
        yield "no tensor core, 8 warps", round_to(_by_warps(x * weight)[None], bf16)
    for width in range(32, depth, 32):
        chains = [
            matmul(x[:, k : k + width], weight[:, k : k + width].T, kind=kind)
            for k in range(0, depth, width)
        ]
        for form, rounded in (("bf16", True), ("f32", False)):
            parts = np.stack([round_to(c, bf16) for c in chains] if rounded else chains)
            for name, add in ORDERS.items():
                yield f"parts of {width} in {form}, {name}", round_to(add(parts), bf16)


def _by_warps(products: np.ndarray) -> np.ndarray:
    """f32 [columns, 2048] to [columns]: pairs, a butterfly in each of 8 warps, then the warps."""
    pairs = products.reshape(-1, 8, 128, 2)
    sums = pairs[..., 0] + pairs[..., 1]
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    four = sums[:, :4, 0] + sums[:, 4:, 0]
    return _sequential(four.T)


def explanations(prefix: str, tokens: int, outputs: Mapping[str, Bits]) -> dict[str, int]:
    """How many results each way to sum gets wrong."""
    wrong: dict[str, int] = {}
    for draw in range(draws(tokens)):
        out = decode(outputs[f"out{draw}"].patterns, bf16)
        x, weight = (decode(b.patterns, bf16) for b in operands(prefix, tokens, draw))
        for name, result in candidates(x, weight[: out.shape[1]]):
            differing = int((result.view(np.int32) != out.view(np.int32)).sum())
            wrong[name] = wrong.get(name, 0) + differing
    return wrong


def explain(path: Path, prefixes: list[str], least: int, tokens: int) -> int:
    unexplained = 0
    for case in GoldenFile(path).cases:
        prefix, count = case.prefix.removesuffix("_cancelling"), int(case.parameters["tokens"])
        if (prefixes and prefix not in prefixes) or not least <= count <= tokens:
            continue
        wrong = explanations(prefix, count, case.load())
        found = [name for name, differing in wrong.items() if differing == 0]
        nearest = min(wrong, key=lambda name: wrong[name])
        unexplained += not found
        none = f"none; nearest, with {wrong[nearest]:,} other results, {nearest}"
        print(f"{prefix:16} T={count:<5}: {'; '.join(found) or none}", flush=True)
    return int(unexplained > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["record", "explain"])
    parser.add_argument("path", type=Path, help="the recording")
    parser.add_argument("--only", action="append", default=[], choices=SHAPES)
    parser.add_argument(
        "--from", dest="least", type=int, default=1, help="explain from so many rows"
    )
    parser.add_argument("--tokens", type=int, default=512, help="explain up to so many rows")
    arguments = parser.parse_args()
    if arguments.action == "record":
        return record(arguments.path)
    return explain(arguments.path, arguments.only, arguments.least, arguments.tokens)


if __name__ == "__main__":
    sys.exit(main())
