"""A run: every chunk in every leg, finished chunks kept, figures joined at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exactness import environment
from exactness.catalogue import Catalogue
from exactness.machines import Machine
from exactness.quality.legs import REORDERED, VARIANT, Leg
from exactness.quality.models import LanguageModel
from exactness.quality.patched import Patched
from exactness.quality.patches import USUAL, Patch, bound
from exactness.quality.result import Figures, Replaced, Result, Setting
from exactness.quality.scoring import score
from exactness.quality.store import Store
from exactness.quality.verdict import Verdict
from exactness.quality.windows import Text, Windows

MOST = 65536
"""Predictions unless another number is asked for."""


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes:
        text: the file to score.
        context: predictions of a window; the model's usual number if None.
        stride: tokens from a window to the next; `context` if None.
        most: predictions at most.
        patches: rules for the norms; the usual ones if empty.
    """

    text: Path
    context: int | None = None
    stride: int | None = None
    most: int = MOST
    patches: tuple[Patch, ...] = ()


class Run:
    """A model, its norms and a text, ready to be scored.

    Attributes:
        setting: what the figures are made from.
        patched: the norms that are replaced.
        windows: of the text.
    """

    def __init__(
        self, request: Request, model: LanguageModel, catalogue: Catalogue, machine: Machine
    ) -> None:
        """Raises UsageError where the request cannot be met."""
        text = Text.read(request.text)
        self._model, self._root = model, catalogue.project.root
        self.patched = bound(model, request.patches, catalogue, machine)
        tokens = model.tokens(text, request.most + 1)
        context = request.context or min(model.context, model.limit or model.context)
        stride = request.stride or context
        self.windows = Windows.over(
            tokens, context, stride, request.most, model.vocabulary, model.limit
        )
        self.setting = Setting(
            model=_without_folder(model.name),
            model_sha256=model.digest,
            text=text.path.name,
            text_sha256=hashlib.sha256(text.content).hexdigest(),
            context=context,
            stride=stride,
            patches=tuple(str(patch) for patch in request.patches or USUAL),
            device=model.device,
            kernels=_kernels(self.patched, machine),
            dtype=model.dtype,
            tokens=self.windows.predictions,
            tokens_sha256=hashlib.sha256(self.windows.read.tobytes()).hexdigest(),
            text_tokens=int(tokens.ids.size),
            text_complete=tokens.complete,
            chunk=self.windows.chunk,
        )
        names = list(dict.fromkeys(each.claim.name for each in self.patched))
        self._sources = {
            entry.claim.name: catalogue.source_hash(entry)
            for entry in catalogue.select(tuple(names))
        }

    @property
    def identity(self) -> dict[str, Any]:
        """What a run that goes on must share with the one that was stopped.

        What was asked for comes first, so that it is named before what follows from it.
        """
        found = environment.collect()
        return {
            **asdict(self.setting),
            "chunks": self.windows.chunks,
            "norms": {
                each.norm.name: {
                    "claim": each.claim.name,
                    "variant": each.variant.name if each.variant else "",
                    "eps": each.norm.eps,
                    "scale": each.norm.scale.value,
                }
                for each in self.patched
            },
            "sources": self._sources,
            "machine": found.machine,
            "packages": found.packages,
            "exactness": found.exactness,
        }

    def chunks(self, store: Store, step: Callable[[Leg], None]) -> list[int]:
        """Score what is not finished.

        Args:
            store: keeps the chunks.
            step: called when a leg of a chunk has been scored.

        Returns:
            The numbers of the chunks that were scored now.

        Raises:
            UsageError: a logit is NaN or infinite.
        """
        missing = self.missing(store)
        for number in missing:
            store.write(number, score(self._model, self.patched, self.windows[number], step))
        return missing

    def missing(self, store: Store) -> list[int]:
        """The numbers of the chunks that are not finished."""
        return [n for n in range(self.windows.chunks) if not store.has(n)]

    def result(self, store: Store, seconds: float) -> Result:
        """Join the chunks.

        Args:
            store: has all of them.
            seconds: that they took.
        """
        figures = Figures([store.read(number) for number in range(self.windows.chunks)])
        comparisons = figures.comparisons()
        return Result(
            setting=self.setting,
            environment=environment.collect(self._root).to_dict(),
            perplexity=figures.perplexity(),
            comparisons=comparisons,
            replaced=self._replaced(figures.work()),
            norms=figures.norms([each.norm.name for each in self.patched]),
            verdict=Verdict.of(comparisons, self.opt_in),
            series=figures.series((VARIANT.key, REORDERED.key)),
            opt_in=self.opt_in,
            seconds=seconds,
        )

    @property
    def opt_in(self) -> str:
        """What the variants are called."""
        return ", ".join(dict.fromkeys(p.variant.name for p in self.patched if p.variant))

    def _replaced(self, work: Sequence[Sequence[int]]) -> list[Replaced]:
        return [
            Replaced(
                name=each.norm.name,
                scale=each.norm.scale.value,
                eps=each.norm.eps,
                claim=each.claim.name,
                variant=each.variant.name if each.variant else "",
                calls=calls,
                rows=rows,
                width=elements // max(rows, 1),
            )
            for each, (calls, rows, elements) in zip(self.patched, work, strict=True)
        ]


def _without_folder(name: str) -> str:
    """A hub name as it is, a folder's own name: where it lies says nothing about the result."""
    return Path(name).resolve().name if Path(name).is_dir() else name


def _kernels(patched: Sequence[Patched], machine: Machine) -> str:
    """What runs the kernels, and why a reference stands for one."""
    reasons = {each.claim.name: machine.refuses(each.claim) for each in patched}
    refused = "; ".join(f"{name} by its reference: {why}" for name, why in reasons.items() if why)
    return f"{machine.name}; {refused}" if refused else machine.name
