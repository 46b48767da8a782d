"""What a foreign kernel got and gave: named tensors and parameters from a user's file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exactness.bits import Bits
from exactness.claim import Claim
from exactness.errors import UsageError
from exactness.files import TensorFile, open_tensors
from exactness.which.accepted import check_accepted
from exactness.which.fit import Misfit, check_fit, check_parameter


@dataclass(frozen=True)
class Given:
    """A file of inputs and outputs, and parameters said beside it.

    Attributes:
        file: tensors by name; those without dimensions may be parameters (`numpy.savez`).
        said: parameters of the command line, which outrank the file's.
    """

    file: TensorFile
    said: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path, settings: Sequence[str] = ()) -> Given:
        """Open a .safetensors, .npz, .npy or .pt file.

        Args:
            path: the file.
            settings: `name=value` each; the value is read as JSON, else as text.

        Raises:
            UsageError: unreadable, or a setting without a name or a value.
        """
        said: dict[str, Any] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not (name.isidentifier() and equals and text):
                raise UsageError(f"--set {setting!r} is not accepted; NAME=VALUE is")
            said[name] = _value(text)
        return cls(open_tensors(path), said)

    @property
    def path(self) -> Path:
        """The file."""
        return self.file.path

    def outputs(self, claim: Claim) -> dict[str, Bits]:
        """The outputs of a claim that the file holds."""
        return {name: self.file[name] for name in claim.output_names if name in self.file}

    def unnamed(self, claim: Claim) -> frozenset[str]:
        """Tensors of the file that are no argument, output or parameter of a claim."""
        named = {*claim.inputs.tensors, *parameters_of(claim), *claim.output_names}
        return frozenset(self.file) - named

    def arguments(self, claim: Claim) -> dict[str, Any]:
        """The arguments for a claim: the file's tensors, and its parameters.

        Raises:
            Misfit: a tensor is missing, or has another format or shape than the claim takes.
        """
        missing = [name for name in claim.inputs.tensors if name not in self.file]
        if missing:
            raise Misfit(f"needs {missing[0]!r}; the file has {', '.join(self.file) or 'nothing'}")
        tensors = {name: self.file[name] for name in claim.inputs.tensors}
        check_fit(claim.inputs, tensors)
        return {**tensors, **self.parameters(claim)}

    def parameters(self, claim: Claim) -> dict[str, Any]:
        """The claim's defaults, the file's parameters, the command line's.

        Raises:
            Misfit: a parameter of another kind than the claim's, or one that its kernel refuses.
        """
        values = parameters_of(claim)
        given = {name: self.parameter(name) for name in values if self.gives(name)}
        checked = {name: check_parameter(name, v, values[name]) for name, v in given.items()}
        check_accepted(claim, checked)
        return {**claim.inputs.defaults(), **checked}

    def described(self, parameters: Mapping[str, Any]) -> str:
        """Parameters in use, and whether they were given."""
        return ", ".join(
            f"{name}={value}" + ("" if self.gives(name) else " (the default)")
            for name, value in parameters.items()
        )

    def gives(self, name: str) -> bool:
        """Whether the command line or the file says a parameter."""
        return name in self.said or name in self.file or name in self.file.metadata

    def parameter(self, name: str) -> Any:
        """A parameter that is given."""
        if name in self.said:
            return self.said[name]
        if name in self.file:
            return self.file[name].values().tolist()
        return _value(self.file.metadata[name])


def parameters_of(claim: Claim) -> dict[str, tuple[Any, ...]]:
    """Values of each parameter: those that the claim draws, else that of its recordings."""
    recorded = {name: (value,) for name, value in claim.parameters.items()}
    return {**recorded, **claim.inputs.parameters}


def _value(text: str) -> Any:
    """JSON where it is JSON (Python's True and False too), else the text."""
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except (ValueError, RecursionError):
        return text
