"""`exactness record`: run a claim's baseline and keep its bits.

Only the baseline is ever recorded, never our own reference or kernel: a recording of those would
agree with them whatever they compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from exactness import environment, golden
from exactness.bits import Bits
from exactness.catalogue import Catalogue, imported
from exactness.claim import Claim
from exactness.errors import UsageError
from exactness.inputs import Example
from exactness.inputs.patterns import FAMILIES
from exactness.project import Project
from exactness.writing import check_writable


def run(
    name: str,
    start: Path,
    out: Path | None,
    device: str | None,
    force: bool,
    families: Sequence[str] = (),
) -> int:
    """Record and say what was written; the exit status.

    Raises:
        UsageError: unknown claim or family, no baseline, no GPU, or the file exists or
            cannot be written.
    """
    project = Project.find(start)
    catalogue = Catalogue(project)
    claim = catalogue.select((name,))[0].claim
    path = out or project.golden / f"{claim.name}.safetensors"
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force replaces it, --out names another file")
    check_writable(path)
    baseline = _baseline(claim, catalogue)
    chosen = _device(device)
    tensors: dict[str, Bits] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for key, example in _examples(claim, families or ("normal",)):
        tensors |= {f"{key}/{n}": b for n, b in _record(claim, baseline, example, chosen).items()}
        parameters[key] = dict(example.parameters)
    if not tensors:
        raise UsageError(f"claim {claim.name} has no cases to record; give it `cases`")
    golden.write(
        path,
        tensors,
        environment.collect(project.root).to_dict(),
        parameters,
        claim=claim.name,
        baseline=str(claim.baseline),
        device=chosen,
    )
    click.echo(f"recorded {len(parameters)} cases of {claim.baseline} on {chosen} in {path}")
    return 0


def _examples(claim: Claim, families: Sequence[str]) -> Iterator[tuple[str, Example]]:
    """The claim's cases, seeded by their keys; a family other than normal is part of the key."""
    unknown = [family for family in families if family not in FAMILIES]
    if unknown:
        raise UsageError(f"--family {unknown[0]!r} is unknown; known are {', '.join(FAMILIES)}")
    prefix = claim.golden[0] if claim.golden else claim.name
    for case in claim.cases:
        label = "_".join(f"{key}{value}" for key, value in case.items())
        for family in families:
            key = f"{prefix}/{label}" + (f"_{family}" if family != "normal" else "")
            yield key, claim.inputs.example(key, family=family, **case)


def _device(chosen: str | None) -> str:
    if chosen != "cpu" and environment.collect().gpu is None:
        raise UsageError("no CUDA GPU was found; --device cpu records on this CPU")
    return chosen or "cuda"


def _baseline(claim: Claim, catalogue: Catalogue) -> Any:
    if claim.baseline is None:
        raise UsageError(
            f'claim {claim.name} names no baseline; give it baseline="module:function", or '
            '"file:function" below the folder of references'
        )
    file = claim.baseline.partition(":")[0]
    of_project = (catalogue.project.references / f"{file}.py").is_file()
    found = catalogue.reference(claim.baseline) if of_project else imported(claim.baseline)
    ours = (claim.kernel, catalogue.reference(claim.reference))
    if found in ours:
        raise UsageError(
            f"the baseline of claim {claim.name} is its own kernel or reference; recording it "
            "would prove nothing"
        )
    return found


def _record(claim: Claim, baseline: Any, example: Example, device: str) -> dict[str, Bits]:
    """Inputs and named outputs of one run of the baseline."""
    inputs = {name: Bits.of(draw.tensor("cpu")) for name, draw in example.tensors.items()}
    arguments = example.arguments(device)
    result = baseline(**arguments)
    results = result if isinstance(result, tuple) else (result,)
    if len(results) < len(claim.outputs):
        raise UsageError(
            f"the baseline of claim {claim.name} returned {len(results)} results; "
            f"expected {', '.join(claim.outputs)}"
        )
    named = dict(zip(claim.outputs, results, strict=False))
    named |= {output: arguments[argument] for argument, output in claim.mutates.items()}
    return {**inputs, **{name: Bits.of(tensor) for name, tensor in named.items()}}
