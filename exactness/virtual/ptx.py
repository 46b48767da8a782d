"""Parse PTX text into typed instructions.

Written for what Triton (LLVM NVPTX) and nvcc print, inline assembly blocks with scoped registers
included. Grammar: PTX ISA manual (CUDA 13, PTX 9.0), chapters 4, 5 and 11.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from exactness.virtual.body import Body
from exactness.virtual.declarations import (
    VARIABLE,
    read_dimensions,
    read_params,
    read_variable,
)
from exactness.virtual.instructions import (
    Address,
    Decimal,
    Entry,
    Guard,
    Instruction,
    Integer,
    Location,
    Module,
    NotRegister,
    Operand,
    Pair,
    Param,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)
from exactness.virtual.literals import type_bytes
from exactness.virtual.reader import Reader

__all__ = [
    "Address",
    "Decimal",
    "Entry",
    "Guard",
    "Instruction",
    "Integer",
    "Location",
    "Module",
    "NotRegister",
    "Operand",
    "Pair",
    "Param",
    "Register",
    "Special",
    "Symbol",
    "Variable",
    "Vector",
    "parse",
    "type_bytes",
]

_DIRECTIVE = re.compile(r"\.(\w+)")
_ENTRY = re.compile(
    r"((?:\.(?:visible|weak|extern)\s+)*)\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*"
    r"(?:\(([^)]*)\))?\s*"
)
_PERFORMANCE = re.compile(
    r"\.(reqntid|maxntid|minnctapersm|maxnreg|maxnctapersm|reqnctapercluster"
    r"|maxclusterrank|explicitcluster|noreturn|pragma|abi_preserve)\b\s*([^\n.{]*)"
)


@lru_cache(maxsize=128)
def parse(text: str) -> Module:
    """Parse a PTX module; the latest are remembered, since modules are immutable.

    Args:
        text: the PTX, as Triton's `asm["ptx"]` or `nvcc -ptx` gives it.

    Returns:
        The module, its kernels under `entries`.

    Raises:
        PTXSyntaxError: with the line and what could not be read.
    """
    return _Parser(text).module()


class _Parser(Reader):
    """A module while it is read: its header, variables and kernels so far."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.header = {"version": "", "target": "", "address_size": "64"}
        self.variables: list[Variable] = []
        self.entries: dict[str, Entry] = {}
        self.functions: dict[str, Entry] = {}

    def module(self) -> Module:
        """Read the whole text."""
        while self.skip_space():
            match = _DIRECTIVE.match(self.text, self.position)
            if match is None:
                raise self.error("a directive was expected")
            self.top_level(match[1])
        # Module variables may be declared after the kernel that uses them.
        shared = tuple(v for v in self.variables if v.space == "shared")
        constants = tuple(v for v in self.variables if v.space in ("global", "const"))
        functions: dict[str, Entry] = {}

        def completed(entry: Entry) -> Entry:
            variables = shared + entry.variables
            return replace(entry, variables=variables, constants=constants, functions=functions)

        functions.update((name, completed(entry)) for name, entry in self.functions.items())
        entries = {name: completed(entry) for name, entry in self.entries.items()}
        return Module(
            version=self.header["version"],
            target=self.header["target"].split(",")[0].strip(),
            address_size=int(self.header["address_size"]),
            entries=entries,
            shared=shared,
            constants=constants,
            files=self.files,
            functions=functions,
        )

    def top_level(self, word: str) -> None:
        """Read one directive outside of a kernel."""
        if word in self.header:
            self.header[word] = self.take_line().split(None, 1)[1].strip()
        elif word in ("file", "loc", "pragma"):
            self.take_line()
        elif word == "section":
            self.position = self.text.index("{", self.position)
            self.take_braces()
        elif (match := self.take(VARIABLE)) is not None:
            self.variables.append(read_variable(match))
        elif (match := self.take(_ENTRY)) is not None:
            self.function(match)
        else:
            raise self.error("this directive is unknown")

    def function(self, match: re.Match[str]) -> None:
        """Read a kernel or a device function; declarations without a body are skipped."""
        limits: dict[str, str] = {}
        while self.skip_space() and (limit := self.take(_PERFORMANCE)) is not None:
            limits[limit[1]] = limit[2]
            self.skip_space()
            if self.text.startswith(";", self.position):
                self.position += 1
        if self.text.startswith(";", self.position):
            self.position += 1
            return
        body = Body(self)
        body.read()
        name = match[4]
        known = self.functions if match[2] == "func" else self.entries
        known[name] = Entry(
            name=name,
            params=read_params(match[5] or ""),
            body=tuple(body.instructions),
            labels=body.labels,
            registers=body.registers,
            variables=tuple(body.variables),
            reqntid=read_dimensions(limits.get("reqntid")),
            maxntid=read_dimensions(limits.get("maxntid")),
            cluster=read_dimensions(limits.get("reqnctapercluster")),
            target=self.header["target"].split(",")[0].strip(),
            returns=read_params(match[3] or ""),
        )
