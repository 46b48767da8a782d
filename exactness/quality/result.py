"""The result of a run: computed from its chunks, stored as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from exactness.jsonable import jsonable
from exactness.quality.legs import DEFAULT, LEGS, MUST_EQUAL, Leg
from exactness.quality.norm_error import NormError
from exactness.quality.statistics import Comparison, perplexity
from exactness.quality.verdict import Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Replaced:
    """A norm that was replaced.

    Attributes:
        name: of the norm.
        scale: what its row is multiplied by.
        eps: added to the mean square.
        claim: computes it.
        variant: of the second leg; empty if it stays at the default.
        calls: calls of it, in all legs.
        rows: rows of these calls.
        width: elements of a row.
    """

    name: str
    scale: str
    eps: float
    claim: str
    variant: str
    calls: int
    rows: int
    width: int


@dataclass(frozen=True)
class Setting:
    """What the result was made from.

    Attributes:
        model: its name.
        model_sha256: of its weights and configuration.
        text: file.
        text_sha256: of its bytes.
        context: predictions of a window.
        stride: tokens from a window to the next.
        patches: rules for the norms.
        device: where the model ran.
        kernels: what ran the kernels.
        dtype: of weights and activations.
        tokens: predictions that count.
        tokens_sha256: of the int64 tokens that are read.
        text_tokens: tokens of the text, as far as they were counted.
        text_complete: whether they were all counted.
        chunk: windows that were scored together.
    """

    model: str
    model_sha256: str
    text: str
    text_sha256: str
    context: int
    stride: int
    patches: tuple[str, ...]
    device: str
    kernels: str
    dtype: str
    tokens: int
    tokens_sha256: str
    text_tokens: int
    text_complete: bool
    chunk: int


@dataclass(frozen=True, eq=False)
class Series:
    """What the pictures are drawn from.

    Attributes:
        difference: f64 [tokens], loss of the variant less that of the default, nats.
        divergence: key of a leg to f64 [tokens], nats.
    """

    difference: np.ndarray
    divergence: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Result:
    """All figures.

    Attributes:
        setting: what they were made from.
        environment: machine and software.
        perplexity: of the first leg.
        comparisons: of the other legs, by key.
        replaced: the norms that were replaced.
        norms: their errors.
        verdict: in words.
        series: figures of each token; not stored.
        opt_in: what the variant is called.
        seconds: time that the chunks of this process took.
    """

    setting: Setting
    environment: Mapping[str, Any]
    perplexity: float
    comparisons: Mapping[str, Comparison]
    replaced: Sequence[Replaced]
    norms: Sequence[NormError]
    verdict: Verdict
    series: Series
    opt_in: str
    seconds: float

    @property
    def exit_status(self) -> int:
        """1 if a leg that must equal the first one does not."""
        return 0 if all(self.comparisons[leg.key].is_zero for leg in MUST_EQUAL) else 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "setting": asdict(self.setting),
            "environment": self.environment,
            "perplexity": self.perplexity,
            "legs": [{"key": leg.key, "title": leg.title, **self._leg(leg)} for leg in LEGS],
            "replaced": [asdict(each) for each in self.replaced],
            "norms": [asdict(each) for each in self.norms],
            "opt_in": self.opt_in,
            "verdict": jsonable(self.verdict),
            "seconds": self.seconds,
        }

    def _leg(self, leg: Leg) -> dict[str, Any]:
        if leg is DEFAULT:
            return {"perplexity": self.perplexity}
        comparison = self.comparisons[leg.key]
        return {
            **asdict(comparison),
            "is_zero": comparison.is_zero,
            "is_distinguishable": comparison.ratio.is_distinguishable,
            "tokens_needed": comparison.ratio.tokens_needed,
        }

    def to_json(self) -> str:
        """The plain data as JSON."""
        return json.dumps(jsonable(self.to_dict()), indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, eq=False)
class Figures:
    """The chunks of a run, joined."""

    parts: Sequence[Mapping[str, np.ndarray]]

    def __getitem__(self, name: str) -> np.ndarray:
        """The figures called `name` of all tokens."""
        return np.concatenate([part[name] for part in self.parts])

    def comparison(self, key: str) -> Comparison:
        """A leg beside the first."""
        return Comparison.of(
            self[f"{DEFAULT.key}.loss"],
            self[f"{key}.loss"],
            self[f"{key}.divergence"],
            self[f"{key}.changed"],
            self[f"{key}.largest"],
            self[f"{key}.differing"],
            self["window"],
        )

    def comparisons(self) -> dict[str, Comparison]:
        """All legs beside the first."""
        return {leg.key: self.comparison(leg.key) for leg in LEGS if leg is not DEFAULT}

    def perplexity(self) -> float:
        """Of the first leg."""
        return perplexity(self[f"{DEFAULT.key}.loss"])

    def series(self, legs: Sequence[str]) -> Series:
        """What the pictures are drawn from: the second leg, and the divergence of `legs`."""
        difference = self[f"{legs[0]}.loss"] - self[f"{DEFAULT.key}.loss"]
        return Series(difference, {key: self[f"{key}.divergence"] for key in legs})

    def norms(self, names: Sequence[str]) -> list[NormError]:
        """The errors of the norms."""
        return [
            NormError.of(name, [part[f"norm.{i}"] for part in self.parts])
            for i, name in enumerate(names)
        ]

    def work(self) -> list[list[int]]:
        """Calls, rows and elements of each norm."""
        total: np.ndarray = np.sum([part["work"] for part in self.parts], axis=0)
        found: list[list[int]] = total.tolist()
        return found
