"""Parse PTX text into typed instructions.

Written for what Triton (LLVM NVPTX) and nvcc print, inline assembly blocks with scoped registers
included. Grammar: PTX ISA manual (CUDA 13, PTX 9.0), chapters 4, 5 and 11.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from exactness.virtual.errors import PTXSyntaxError
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
from exactness.virtual.source_lines import location_table, strip_comments

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

_NAME = r"[%A-Za-z_$][\w$]*(?:\.[xyz]\b)?"
_SPACE = re.compile(r"[\s]*")
_DIRECTIVE = re.compile(r"\.(\w+)")
_LABEL = re.compile(rf"({_NAME})\s*:")
_STATEMENT = re.compile(r"[^;]*;")
_INSTRUCTION = re.compile(
    rf"(?:@(?P<not>!?)\s*(?P<guard>{_NAME})\s+)?(?P<opcode>[a-z]\w*)(?P<modifiers>[\w.:]*)"
    r"(?P<operands>.*);",
    re.DOTALL,
)
_ADDRESS = re.compile(rf"\[\s*({_NAME}|-?\w+)\s*(?:\+\s*(-?\s*\w+)|-\s*(\w+))?\s*\]")
_NUMBER = re.compile(r"[-+~]?\s*(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT_BITS = re.compile(r"(-?)0([fFdD])([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?$|-?\d+[eE][-+]?\d+$")
_ENTRY = re.compile(
    r"((?:\.(?:visible|weak|extern)\s+)*)\.(entry|func)\s*(?:\([^)]*\)\s*)?([\w$]+)\s*"
    r"(?:\(([^)]*)\))?\s*"
)
_VARIABLE = re.compile(
    r"((?:\.(?:extern|visible|weak|common)\s+)*)\.(shared|local|global|const)\s+"
    r"(?:\.attribute\([^)]*\)\s*)?(?:\.align\s+(\d+)\s+)?(?:\.(v[248])\s+)?\.([a-z]\w*)\s+([\w$]+)"
    r"\s*((?:\[\s*\w*\s*\])*)\s*(?:=\s*(.*?))?\s*;",
    re.DOTALL,
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s*(\.ptr)?(?:\s+\.(?:global|shared|const|local))?"
    r"(?:\s*\.align\s+(\d+))?\s+([\w$]+)\s*(?:\[\s*(\d+)\s*\])?"
)
_PERFORMANCE = re.compile(
    r"\.(reqntid|maxntid|minnctapersm|maxnreg|maxnctapersm|reqnctapercluster"
    r"|maxclusterrank|explicitcluster|noreturn|pragma|abi_preserve)\b\s*([^\n.{]*)"
)


def type_bytes(name: str) -> int:
    """Bytes of a PTX type: "b32" is 4, "f16x2" 4, "pred" 1."""
    if name == "pred":
        return 1
    match = re.fullmatch(r"[a-z]+?(\d+)(?:x(\d))?", name)
    if match is None:
        raise PTXSyntaxError(f"type .{name} is unknown")
    return int(match[1]) * int(match[2] or 1) // 8


def parse(text: str) -> Module:
    """Parse a PTX module.

    Args:
        text: the PTX, as Triton's `asm["ptx"]` or `nvcc -ptx` gives it.

    Returns:
        The module, its kernels under `entries`.

    Raises:
        PTXSyntaxError: with the line and what could not be read.
    """
    return _Parser(text).module()


class _Parser:
    """The position in the text, and what has been read."""

    def __init__(self, text: str) -> None:
        self.files, self.locations = location_table(text)
        self.text = strip_comments(text)
        self.position = 0
        self.counted = 0
        self.line = 1
        self.header = {"version": "", "target": "", "address_size": "64"}
        self.variables: list[Variable] = []
        self.entries: dict[str, Entry] = {}

    def error(self, what: str) -> PTXSyntaxError:
        """An error at the present position."""
        rest = self.text[self.position :].strip().split("\n", 1)[0][:80]
        return PTXSyntaxError(f"PTX line {self.current_line()}: {what}: {rest!r}")

    def current_line(self) -> int:
        """The line of the present position; positions are asked for in ascending order."""
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        return self.line

    def skip_space(self) -> bool:
        """Move to the next token; False at the end of the text."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return self.position < len(self.text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match `pattern` here and move past it."""
        match = pattern.match(self.text, self.position)
        if match is not None:
            self.position = match.end()
        return match

    def take_line(self) -> str:
        """The rest of the line."""
        end = self.text.find("\n", self.position)
        end = len(self.text) if end < 0 else end
        line = self.text[self.position : end]
        self.position = end
        return line

    def take_braces(self) -> None:
        """Skip a balanced `{ … }` block."""
        depth = 0
        for match in re.compile(r"[{}]").finditer(self.text, self.position):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                self.position = match.end()
                return
        raise self.error("a brace is not closed")

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
        entries = {
            name: replace(entry, variables=shared + entry.variables, constants=constants)
            for name, entry in self.entries.items()
        }
        return Module(
            version=self.header["version"],
            target=self.header["target"].split(",")[0].strip(),
            address_size=int(self.header["address_size"]),
            entries=entries,
            shared=shared,
            constants=constants,
            files=self.files,
        )

    def top_level(self, word: str) -> None:
        """Read one directive outside of a kernel."""
        if word in self.header:
            self.header[word] = self.take_line().split(None, 1)[1].strip()
        elif word in ("file", "loc", "pragma", "branchtargets"):
            self.take_line()
        elif word == "section":
            self.position = self.text.index("{", self.position)
            self.take_braces()
        elif (match := self.take(_VARIABLE)) is not None:
            self.variables.append(_variable(match))
        elif (match := self.take(_ENTRY)) is not None:
            self.function(match)
        else:
            raise self.error("this directive is unknown")

    def function(self, match: re.Match[str]) -> None:
        """Read a kernel; device functions are skipped (a call to one raises when decoded)."""
        limits: dict[str, str] = {}
        while self.skip_space() and (limit := self.take(_PERFORMANCE)) is not None:
            limits[limit[1]] = limit[2]
            self.skip_space()
            if self.text.startswith(";", self.position):
                self.position += 1
        if self.text.startswith(";", self.position):
            self.position += 1
            return
        if match[2] == "func":
            return self.take_braces()
        body = _Body(self)
        body.read()
        name = match[3]
        self.entries[name] = Entry(
            name=name,
            params=tuple(_param(m) for m in _PARAM.finditer(match[4] or "")),
            body=tuple(body.instructions),
            labels=body.labels,
            registers=body.registers,
            variables=tuple(body.variables),
            reqntid=_dimensions(limits.get("reqntid")),
            maxntid=_dimensions(limits.get("maxntid")),
            target=self.header["target"].split(",")[0].strip(),
        )


class _Body:
    """A kernel's body while it is read, with its stack of scopes."""

    def __init__(self, parser: _Parser) -> None:
        self.parser = parser
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0
        self.operands: dict[str, Operand] = {}

    def read(self) -> None:
        """Read from the opening brace to its closing one."""
        parser = self.parser
        while parser.skip_space():
            head = parser.text[parser.position]
            if head == "{":
                parser.position += 1
                self.open_scope()
            elif head == "}":
                parser.position += 1
                self.scopes.pop()
                self.operands.clear()
                if not self.scopes:
                    return
            else:
                self.statement(head)
        raise parser.error("the kernel's closing brace is missing")

    def open_scope(self) -> None:
        """Enter a block; the labels it will define are known at once, since branches go forward."""
        self.scope_count += 1
        self.scopes.append({})
        self.operands.clear()
        if len(self.scopes) > 1:
            for name in _labels_of_block(self.parser.text, self.parser.position):
                self.declare(name)

    def declare(self, name: str) -> str:
        """The unique name of `name` declared in the innermost scope."""
        unique = name if len(self.scopes) == 1 else f"{name}@{self.scope_count}"
        self.scopes[-1][name] = unique
        return unique

    def resolve(self, name: str) -> str:
        """The unique name that `name` means here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def statement(self, head: str) -> None:
        """Read a directive, a label or an instruction."""
        parser = self.parser
        if head == ".":
            self.directive()
        elif (label := parser.take(_LABEL)) is not None:
            self.labels[self.resolve(label[1])] = len(self.instructions)
        else:
            self.instruction()

    def directive(self) -> None:
        """Read a declaration; position and pragma lines are skipped."""
        parser = self.parser
        match = _DIRECTIVE.match(parser.text, parser.position)
        word = match[1] if match else ""
        if word in ("loc", "file"):
            parser.take_line()
        elif word in ("pragma", "branchtargets", "calltargets", "callprototype", "param"):
            parser.take(_STATEMENT)
        elif word == "reg" and (registers := parser.take(_REGISTERS_STATEMENT)) is not None:
            for name in _register_names(registers[2]):
                self.registers[self.declare(name)] = registers[1]
            self.operands.clear()
        elif (variable := parser.take(_VARIABLE)) is not None:
            self.variables.append(_variable(variable))
        else:
            raise parser.error("this directive is unknown")

    def instruction(self) -> None:
        """Read up to the semicolon."""
        parser = self.parser
        line = parser.current_line()
        statement = parser.take(_STATEMENT)
        match = _INSTRUCTION.fullmatch(statement[0]) if statement is not None else None
        if match is None or statement is None:
            raise parser.error("this instruction cannot be read")
        guard = None
        if match["guard"]:
            guard = Guard(Register(self.resolve(match["guard"])), bool(match["not"]))
        try:
            operands = tuple(self.operand(part) for part in _split(match["operands"]))
        except ValueError as error:
            raise PTXSyntaxError(f"PTX line {line}: {error} in {statement[0]!r}") from None
        self.instructions.append(
            Instruction(
                opcode=match["opcode"],
                modifiers=tuple(w.strip(":") for w in match["modifiers"].split(".") if w),
                operands=operands,
                guard=guard,
                location=parser.locations.get(line),
                text=" ".join(statement[0].split()),
                line=line,
            )
        )

    def operand(self, text: str) -> Operand:
        """One operand; remembered, since registers come up many times."""
        found = self.operands.get(text)
        if found is None:
            found = self.operands[text] = self.read_operand(text)
        return found

    def read_operand(self, text: str) -> Operand:
        """Classify an operand by its form."""
        if text.startswith("{"):
            return Vector(tuple(self.operand(part) for part in _split(text[1:-1])))
        if text.startswith("["):
            return self.address(text)
        if "|" in text:
            first, second = text.split("|")
            return Pair(self.operand(first.strip()), self.operand(second.strip()))
        if text.startswith("!"):
            return NotRegister(Register(self.resolve(text[1:].strip())))
        if text[0].isdigit() or text[0] in "-+~.":
            return _literal(text)
        if not re.fullmatch(_NAME, text):
            raise ValueError(f"operand {text!r} cannot be read")
        name = self.resolve(text)
        if name in self.registers:
            return Register(name)
        return Special(text) if text.startswith("%") else Symbol(name)

    def address(self, text: str) -> Address:
        """`[base]`, `[base + offset]` or `[base - offset]`."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(f"address {text!r} cannot be read")
        base = self.operand(match[1])
        if not isinstance(base, Register | Symbol | Integer):
            raise ValueError(f"address {text!r} has no base that holds an address")
        offset = _integer(match[2]) if match[2] else 0
        return Address(base, -_integer(match[3]) if match[3] else offset)


_REGISTERS_STATEMENT = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*);")


def _labels_of_block(text: str, start: int) -> list[str]:
    """Labels defined between an opened brace and its closing one, inner blocks left out."""
    depth, names = 0, []
    for match in _BLOCK_TOKEN.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0:
            names.append(match[1])
    return names


_BLOCK_TOKEN = re.compile(rf"[{{}}]|(?<![\w:])({_NAME})\s*:(?!:)")


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    if "{" not in text and "[" not in text:
        return [part.strip() for part in text.split(",") if part.strip()]
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _integer(text: str) -> int:
    """A PTX integer literal."""
    text = text.replace(" ", "").rstrip("U")
    if text.startswith("~"):
        return ~_integer(text[1:])
    negative, digits = text.startswith("-"), text.lstrip("+-")
    if re.fullmatch(r"0[0-7]+", digits):
        value = int(digits, 8)
    else:
        value = int(digits, 0)
    return -value if negative else value


def _literal(text: str) -> Operand:
    """A literal operand."""
    if (match := _FLOAT_BITS.fullmatch(text)) is not None:
        width = 32 if match[2] in "fF" else 64
        bits = int(match[3], 16)
        return Integer(bits ^ (1 << (width - 1)) if match[1] else bits, width)
    if _NUMBER.fullmatch(text):
        return Integer(_integer(text))
    if _DECIMAL.fullmatch(text):
        return Decimal(float(text))
    raise ValueError(f"literal {text!r} cannot be read")


def _register_names(text: str) -> list[str]:
    """Names declared by `.reg`; `%r<5>` stands for %r0 … %r4."""
    names: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([%\w$]+)\s*(?:<\s*(\d+)\s*>)?\s*", part)
        if match is None:
            raise PTXSyntaxError(f"register declaration {part.strip()!r} cannot be read")
        count = match[2]
        names += [match[1]] if count is None else [f"{match[1]}{i}" for i in range(int(count))]
    return names


def _param(match: re.Match[str]) -> Param:
    size = type_bytes(match[2])
    align = int(match[1]) if match[1] else size
    return Param(match[5], match[2], size * int(match[6] or 1), align, bool(match[3]))


def _dimensions(text: str | None) -> tuple[int, int, int] | None:
    if text is None:
        return None
    values = [int(part) for part in text.replace(",", " ").split()]
    x, y, z = ([*values, 1, 1, 1])[:3]
    return x, y, z


def _variable(match: re.Match[str]) -> Variable:
    """A variable declaration; several dimensions multiply, `[]` gives size 0."""
    element = type_bytes(match[5]) * int((match[4] or "v1")[1:])
    size = element
    for dimension in re.findall(r"\[\s*(\w*)\s*\]", match[7]):
        size *= _integer(dimension) if dimension else 0
    initial = _initial_bytes(match[8], match[5]) if match[8] else None
    return Variable(match[6], match[2], int(match[3] or element), size, initial)


def _initial_bytes(text: str, type_name: str) -> bytes | None:
    """The bytes of an initialiser of plain literals; None when it names symbols."""
    import struct

    size, data = type_bytes(type_name), b""
    for part in text.replace("{", " ").replace("}", " ").split(","):
        try:
            literal: Any = _literal(part.strip())
        except ValueError:
            return None
        if isinstance(literal, Decimal):
            data += struct.pack("<f" if size == 4 else "<d", literal.value)
        else:
            data += (literal.value % (1 << (8 * size))).to_bytes(size, "little")
    return data
