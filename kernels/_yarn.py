"""The YaRN table of rotary embeddings, f32 [positions, rope_dim]: cosines, then sines.

Frequencies below the slow bound are divided by the scaling factor, those above the fast bound are
kept, in between they are blended linearly; all in f32, as SGLang computes them. Cosine and sine
are those of torch on the **CPU**; the correctly rounded ones differ (in 28 of the 512 values of
one recorded case).
"""

import functools
import hashlib
import math

import torch

from ._host import check_number

POSITIONS = 262_144
"""Positions of WeLMv4's table: 8 times the original 32,768."""

_SMALLEST, _LARGEST = 1e-9, 1e9
"""Numbers in between leave every frequency finite in f32."""

_SAMPLED = 4096
_SAMPLE_SHA256 = "08ee797f5089f579453b3a8765d751bb48e457a9d22ab46be74f30cc1877124c"
"""Of every 64th row of the table with the default arguments. 35 rows of it are recorded."""


def yarn_cos_sin(
    positions: int = POSITIONS,
    rope_dim: int = 64,
    *,
    theta: float = 500_000.0,
    scaling: float = 8.0,
    original_positions: int = 32_768,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> torch.Tensor:
    """Build the table on the CPU; move it to the GPU afterwards.

    Args:
        positions: number of rows, from 0 up.
        rope_dim: rotated dimensions, even.
        theta: base of the frequencies, above 1.
        scaling: factor by which positions are stretched, above 1e-9.
        original_positions: positions the model was trained on, from 1 up.
        beta_fast: rotations over the original positions above which a frequency is kept, above
            1e-9.
        beta_slow: rotations below which it is divided by `scaling`, above 1e-9.

    Returns:
        f32 [positions, rope_dim], contiguous, on the CPU.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument out of range.
        RuntimeError: torch's cosine or sine have other bits on this CPU than in the recordings.
    """
    _check_count("positions", positions, 0)
    _check_count("rope_dim", rope_dim, 2)
    if rope_dim % 2:
        raise ValueError(f"rope_dim: {rope_dim} is not accepted; an even number is")
    _check_count("original_positions", original_positions, 1)
    _check_real("theta", theta, 1)
    _check_real("scaling", scaling, _SMALLEST)
    _check_real("beta_fast", beta_fast, _SMALLEST)
    _check_real("beta_slow", beta_slow, _SMALLEST)
    _check_this_cpu()
    bounds = (beta_fast, beta_slow, original_positions)
    frequencies = _frequencies(rope_dim, theta, scaling, bounds)
    return _table(torch.arange(positions, dtype=torch.float32), frequencies)


def _check_count(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: got {type(value).__name__}; an int is accepted")
    if not low <= value <= _LARGEST:
        raise ValueError(f"{name}: {value} is not accepted; {low} to {_LARGEST:g} is")


def _check_real(name: str, value: object, low: float) -> None:
    if not low < check_number(name, value) <= _LARGEST:
        raise ValueError(
            f"{name}: {value!r} is not accepted; a number above {low:g} up to {_LARGEST:g} is"
        )


def _frequencies(
    rope_dim: int, theta: float, scaling: float, bounds: tuple[float, float, int]
) -> torch.Tensor:
    """f32 [rope_dim / 2], radians a position."""
    fast, slow, original = bounds
    exponents = torch.arange(0, rope_dim, 2, dtype=torch.float32) / rope_dim
    periods = theta**exponents
    kept, stretched = 1.0 / periods, 1.0 / (scaling * periods)
    low = max(math.floor(_dimension(fast, rope_dim, theta, original)), 0)
    high = min(math.ceil(_dimension(slow, rope_dim, theta, original)), rope_dim - 1)
    width = high - low or 0.001
    ramp = (torch.arange(rope_dim // 2, dtype=torch.float32) - low) / width
    keep = 1 - ramp.clamp(0, 1)
    return stretched * (1 - keep) + kept * keep


def _dimension(rotations: float, rope_dim: int, theta: float, original: int) -> float:
    """Where a frequency makes so many rotations over the original positions."""
    return rope_dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))


def _table(positions: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    angles = torch.outer(positions, frequencies)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


@functools.cache
def _check_this_cpu() -> None:
    """Compare rows of the default table with the bits that they must have."""
    positions = torch.arange(0, POSITIONS, POSITIONS // _SAMPLED, dtype=torch.float32)
    frequencies = _frequencies(64, 500_000.0, 8.0, (32.0, 1.0, 32_768))
    rows = _table(positions, frequencies).numpy().astype("<f4")
    found = hashlib.sha256(rows.tobytes()).hexdigest()
    if found != _SAMPLE_SHA256:
        raise RuntimeError(
            f"torch {torch.__version__} on this CPU gives other cosines and sines than those of "
            f"the recordings (SHA-256 {found[:12]}…, expected {_SAMPLE_SHA256[:12]}…); build the "
            "table on another machine and load it"
        )
