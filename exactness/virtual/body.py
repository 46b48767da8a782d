"""Parse the body of a kernel: scopes, declarations, labels, instructions."""

from __future__ import annotations

import re

from exactness.virtual.declarations import VARIABLE, read_params, read_variable
from exactness.virtual.errors import PTXSyntaxError
from exactness.virtual.instructions import (
    Address,
    Guard,
    Instruction,
    Integer,
    NotRegister,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)
from exactness.virtual.literals import integer, literal, split
from exactness.virtual.reader import Reader

_NAME = r"[%A-Za-z_$][\w$]*(?:\.[xyz]\b)?"
_LABEL = re.compile(rf"({_NAME})\s*:")
_BRANCH_TARGETS = re.compile(rf"({_NAME})\s*:\s*\.branchtargets\s([^;]*);")
_STATEMENT = re.compile(r"[^;]*;")
_INSTRUCTION = re.compile(
    rf"(?:@(?P<not>!?)\s*(?P<guard>{_NAME})\s+)?(?P<opcode>[a-z]\w*)(?P<modifiers>[\w.:]*)"
    r"(?P<operands>.*);",
    re.DOTALL,
)
_ADDRESS = re.compile(rf"\[\s*({_NAME}|-?\w+)\s*(?:\+\s*(-?\s*\w+)|-\s*(\w+))?\s*\]")
_DIRECTIVE = re.compile(r"\.(\w+)")
_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+([^;]*);")
_BLOCK_TOKEN = re.compile(rf"[{{}}]|(?<![\w:])({_NAME})\s*:(?!:)")


class Body:
    """A kernel's body while it is read, with its stack of scopes."""

    def __init__(self, parser: Reader) -> None:
        self.parser = parser
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.label_lists: dict[str, Vector] = {}
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
        elif (labels := parser.take(_BRANCH_TARGETS)) is not None:
            targets = tuple(Symbol(self.resolve(name)) for name in split(labels[2]))
            self.label_lists[self.resolve(labels[1])] = Vector(targets)
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
        elif word in ("pragma", "calltargets", "callprototype"):
            parser.take(_STATEMENT)
        elif word == "param":
            self.call_params()
        elif word == "reg" and (registers := parser.take(_REGISTERS)) is not None:
            for name in _register_names(registers[2]):
                self.registers[self.declare(name)] = registers[1]
            self.operands.clear()
        elif (variable := parser.take(VARIABLE)) is not None:
            self.variables.append(read_variable(variable))
        else:
            raise parser.error("this directive is unknown")

    def call_params(self) -> None:
        """Variables that carry arguments and results of a call: private to the thread."""
        statement = self.parser.take(_STATEMENT)
        for param in read_params(statement[0] if statement else ""):
            name = self.declare(param.name)
            self.variables.append(Variable(name, "local", param.align, param.size))
        self.operands.clear()

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
            operands = tuple(self.operand(part) for part in split(match["operands"]))
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
        if text.startswith(("{", "(")):
            return Vector(tuple(self.operand(part) for part in split(text[1:-1])))
        if text.startswith("["):
            base, *coordinates = split(text[1:-1])
            if coordinates:  # a tensor map and the coordinates in it
                return Vector((self.address(f"[{base}]"), *self.elements(coordinates[0])))
            return self.address(text)
        if "|" in text:
            first, second = text.split("|")
            return Pair(self.operand(first.strip()), self.operand(second.strip()))
        if text.startswith("!"):
            return NotRegister(Register(self.resolve(text[1:].strip())))
        if text[0].isdigit() or text[0] in "-+~.":
            return literal(text)
        if not re.fullmatch(_NAME, text):
            raise ValueError(f"operand {text!r} cannot be read")
        name = self.resolve(text)
        if name in self.registers:
            return Register(name)
        if name in self.label_lists:
            return self.label_lists[name]
        return Special(text) if text.startswith("%") else Symbol(name)

    def elements(self, text: str) -> tuple[Operand, ...]:
        """The parts of a vector operand."""
        vector = self.operand(text)
        return vector.elements if isinstance(vector, Vector) else (vector,)

    def address(self, text: str) -> Address:
        """`[base]`, `[base + offset]` or `[base - offset]`."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ValueError(f"address {text!r} cannot be read")
        base = self.operand(match[1])
        if not isinstance(base, Register | Symbol | Integer):
            raise ValueError(f"address {text!r} has no base that holds an address")
        offset = integer(match[2]) if match[2] else 0
        return Address(base, -integer(match[3]) if match[3] else offset)


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
