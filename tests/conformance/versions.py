"""Programs that a later Triton compiles to other arithmetic than the recorded one (Triton 3.6).

Strict: from the named version on, a program listed here must differ from its recording, and every
other program must equal it. Found by replaying all programs under 3.6.0, 3.7.1, 3.8.0 and 3.9.0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

Version = tuple[int, int]


@dataclass(frozen=True)
class Divergence:
    """From Triton ``since`` on, programs whose name fully matches ``names`` compute otherwise."""

    since: Version
    reason: str
    names: str


DIVERGENCES: Sequence[Divergence] = (
    Divergence(
        (3, 7),
        "the lanes of a three-dimensional tile run along dimensions 2, 1, 0; before, 2, 0, 1",
        r"sum_cube_f32-axis=[01]-.*",
    ),
    Divergence(
        (3, 8),
        "a thread adds its elements in pairs; before, one after the other",
        r"sum_cube_f32-axis=2-.*|sum_row_f32-n=(256|1024|2048)-.*"
        r"|reduce_f32-axis=0-warps=(1|2|4|8)|reduce_f32-axis=1-.*|reduce_(b?f16|f64)-axis=0-.*"
        r"|welford_symmetric-.*|layer_norm-n=500-fusion=off|rms_norm_f32-n=96-.*-fusion=on",
    ),
    Divergence(
        (3, 8),
        "-x flips the sign; before it was 0 - x, which is +0 for x = +0",
        r"basic_(f64|f32|f16|bf16)",
    ),
    Divergence((3, 9), "another polynomial for erf", r"erf_f32-.*"),
)


def divergence(name: str, version: Version) -> Divergence | None:
    """Return why a program is expected to differ under a Triton version, or None."""
    for entry in DIVERGENCES:
        if version >= entry.since and re.fullmatch(entry.names, name):
            return entry
    return None
