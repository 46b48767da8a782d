"""Score a chunk of windows in every leg, and keep a few figures of each token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from exactness.errors import UsageError
from exactness.quality.legs import DEFAULT, LEGS, OWN, Leg
from exactness.quality.models import LanguageModel
from exactness.quality.norm_error import Watched
from exactness.quality.norms import Function
from exactness.quality.patched import Patched
from exactness.quality.windows import Chunk

if TYPE_CHECKING:
    from torch import Tensor

_LOGITS = 1 << 24
"""f64 log probabilities that are held at once."""


def score(
    model: LanguageModel,
    patched: Sequence[Patched],
    chunk: Chunk,
    step: Callable[[Leg], None] = lambda leg: None,
) -> dict[str, np.ndarray]:
    """The figures of a chunk, by name.

    Args:
        model: predicts.
        patched: its norms to replace.
        chunk: the windows.
        step: called when a leg has been scored.

    Returns:
        `window` int64 [counted]; for every leg `<key>.loss` f64 [counted] in nats, and for all but
        the first `<key>.divergence` f64, `<key>.changed` bool, `<key>.largest` f32 and
        `<key>.differing` int64 [counted], see `compared`; of the norms that were replaced `work`
        int64 [norms, 3], calls, rows and elements, and of the i-th one `norm.<i>` f64 [rows, 4],
        see `norm_error.FIGURES`.

    Raises:
        UsageError: a logit is NaN or infinite, or none of the norms is ever called.
    """
    import torch

    tokens = torch.from_numpy(chunk.tokens).to(model.device)
    counted = torch.from_numpy(chunk.counted).to(model.device)
    successors = tokens[:, 1:][counted]
    watched = [Watched(each, []) for each in patched]
    before = np.array([each.work for each in patched])
    figures: dict[str, np.ndarray] = {"window": chunk.window}
    first: Tensor | None = None
    for leg in LEGS:
        logits = model.logits(tokens[:, :-1], _functions(leg, watched))[counted]
        if not bool(torch.isfinite(logits).all()):
            where = f"leg {leg.key} of chunk {chunk.number}"
            raise UsageError(f"{model.name}: {where} has logits that are NaN or infinite")
        first = logits if first is None else first
        found = compared(logits, first, successors, is_first=leg is DEFAULT)
        figures |= {f"{leg.key}.{name}": values for name, values in found.items()}
        step(leg)
    figures["work"] = np.array([each.work for each in patched]) - before
    if not figures["work"].any():
        raise UsageError(f"{model.name} never calls {', '.join(e.norm.name for e in patched)}")
    figures |= {f"norm.{i}": each.figures() for i, each in enumerate(watched)}
    return figures


def _functions(leg: Leg, watched: Sequence[Watched]) -> Mapping[str, Function]:
    """What replaces the norms in a leg; inputs are looked at in the first."""
    if leg is OWN:
        return {}
    functions = {each.patched.norm.name: each.patched.function(leg) for each in watched}
    if leg is DEFAULT:
        return {
            each.patched.norm.name: each.around(functions[each.patched.norm.name])
            for each in watched
        }
    return functions


def compared(
    logits: Tensor, first: Tensor, successors: Tensor, *, is_first: bool
) -> dict[str, np.ndarray]:
    """The figures of a leg's predictions beside the first leg's.

    Args:
        logits: f32 [predictions, vocabulary].
        first: likewise, of the first leg.
        successors: int64 [predictions], what came.
        is_first: whether this is the first leg: only its loss is needed.

    Returns:
        Of every prediction its `loss` f64 and Kullback-Leibler `divergence` f64, in nats, whether
        the most likely token `changed`, the `largest` absolute difference of a logit, f32, and how
        many logits have `differing` bits, int64.
    """
    import torch

    rows = max(_LOGITS // logits.shape[-1], 1)
    parts = []
    for begin in range(0, len(logits), rows):
        here = slice(begin, begin + rows)
        parts.append(_compared(logits[here], first[here], successors[here], is_first))
    return {name: torch.cat([part[name] for part in parts]).cpu().numpy() for name in parts[0]}


def _compared(
    logits: Tensor, first: Tensor, successors: Tensor, is_first: bool
) -> dict[str, Tensor]:
    import torch

    log_q = torch.log_softmax(logits.double(), -1)
    loss = {"loss": -log_q.gather(-1, successors[:, None])[:, 0]}
    if is_first:
        return loss
    log_p = torch.log_softmax(first.double(), -1)
    return loss | {
        "divergence": (log_p.exp() * (log_p - log_q)).sum(-1),
        "changed": logits.argmax(-1) != first.argmax(-1),
        "largest": (logits - first).abs().amax(-1),
        "differing": (logits.view(torch.int32) != first.view(torch.int32)).sum(-1),
    }
