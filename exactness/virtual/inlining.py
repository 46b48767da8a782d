"""Device functions in place of the calls to them.

The machine has no call stack: every call becomes the body of what it calls, with registers, labels
and local variables of its own. Arguments and results are `.param` variables of the caller, which
are private to the thread as local variables are; the callee's own names for them stand for the
same bytes. A thread that returns goes on after the call, where the scheduler brings diverged
threads together again.

Source: PTX ISA 9.0, sections 5.1.6.4 (device function parameters) and 9.7.12.5 (call).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exactness.virtual.errors import UnsupportedInstructionError
from exactness.virtual.instructions import (
    Address,
    Entry,
    Guard,
    Instruction,
    NotRegister,
    Operand,
    Pair,
    Param,
    Register,
    Symbol,
    Variable,
    Vector,
)

Renaming = Callable[[str], str]


def inlined(entry: Entry) -> Entry:
    """The kernel without calls of functions that have a body.

    Args:
        entry: a kernel, with its module's device functions.

    Returns:
        A kernel in which a `call` without operands marks where a function was entered, and one
        with operands stands for a function that has no body.

    Raises:
        UnsupportedInstructionError: a recursion, a call through a pointer, or one whose arguments
            are no `.param` variables.
    """
    if all(instruction.opcode != "call" for instruction in entry.body):
        return entry
    return _Inliner(entry).result()


def called(entry: Entry) -> tuple[Entry, ...]:
    """The device functions that a kernel may reach by calls, each once."""
    found: dict[str, Entry] = {}
    pending = [entry]
    while pending:
        for instruction in pending.pop().body:
            if instruction.opcode == "call":
                names = (o.name for o in instruction.operands if isinstance(o, Symbol))
                function = entry.functions.get(next(names, ""))
                if function is not None and function.name not in found:
                    found[function.name] = function
                    pending.append(function)
    return tuple(found.values())


class _Inliner:
    """A kernel while its calls are replaced."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.copies = 0

    def result(self) -> Entry:
        self.add(self.entry, lambda name: name, "", (self.entry.name,))
        return replace(
            self.entry,
            body=tuple(self.body),
            labels=self.labels,
            registers=self.registers,
            variables=tuple(self.variables.values()),
        )

    def add(self, function: Entry, rename: Renaming, end: str, path: tuple[str, ...]) -> None:
        """Append a body; `end` is the label behind the call, empty for the kernel itself."""
        self.registers.update((rename(name), kind) for name, kind in function.registers.items())
        for variable in function.variables:
            # A shared variable exists once, however many calls there are.
            name = rename(variable.name) if variable.space == "local" else variable.name
            self.variables[name] = replace(variable, name=name)
        kernel_params = frozenset() if end else frozenset(p.name for p in function.params)
        places: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            places.setdefault(index, []).append(rename(label))
        for index, instruction in enumerate(function.body):
            self.labels.update((label, len(self.body)) for label in places.get(index, ()))
            renamed = _renamed(instruction, rename)
            if instruction.opcode == "call":
                self.call(renamed, path)
            elif instruction.opcode == "ret" and end:
                self.body.append(replace(renamed, operands=(Symbol(end),)))
            else:
                self.body.append(_private(renamed, kernel_params))
        last = places.get(len(function.body), ())
        self.labels.update((label, len(self.body)) for label in last)

    def call(self, instruction: Instruction, path: tuple[str, ...]) -> None:
        """Append what is called, with a jump around it if the call has a guard."""
        results, name, arguments = self.parts(instruction)
        function = self.entry.functions.get(name)
        if function is None:
            self.body.append(replace(instruction, operands=(Symbol(name),)))
            return
        if name in path:
            raise self.unsupported(instruction, f"{name} calls itself")
        self.copies += 1
        copy = self.copies
        end = f"$return@{copy}"
        if (guard := instruction.guard) is not None:
            around = Guard(guard.register, not guard.negated)
            self.body.append(
                replace(instruction, opcode="bra", operands=(Symbol(end),), guard=around)
            )
        self.body.append(replace(instruction, operands=(), guard=None))
        names = {
            **self.bound(instruction, function.params, arguments),
            **self.bound(instruction, function.returns, results),
        }
        own = _own_names(function)
        self.add(
            function,
            lambda word: names.get(word, f"{word}@{copy}" if word in own else word),
            end,
            (*path, name),
        )
        self.labels[end] = len(self.body)

    def parts(
        self, instruction: Instruction
    ) -> tuple[tuple[Operand, ...], str, tuple[Operand, ...]]:
        """Results, function and arguments of a call."""
        operands = list(instruction.operands)
        results: tuple[Operand, ...] = ()
        if isinstance(operands[0], Vector):
            results = operands[0].elements
            del operands[0]
        target = operands.pop(0)
        if not isinstance(target, Symbol):
            raise self.unsupported(instruction, "a call through a pointer")
        arguments = operands.pop(0) if operands else Vector(())
        if not isinstance(arguments, Vector) or operands:
            raise self.unsupported(instruction, "this form of call")
        return results, target.name, arguments.elements

    def bound(
        self, instruction: Instruction, params: tuple[Param, ...], given: tuple[Operand, ...]
    ) -> Mapping[str, str]:
        """The callee's parameters to the caller's variables that stand for them."""
        if len(params) != len(given):
            raise self.unsupported(
                instruction, f"{len(given)} arguments or results where {len(params)} are declared"
            )
        found = {}
        for param, operand in zip(params, given, strict=True):
            variable = self.variables.get(operand.name) if isinstance(operand, Symbol) else None
            if variable is None or variable.size < param.size:
                raise self.unsupported(
                    instruction, f"{param.name} is given no .param variable of {param.size} bytes"
                )
            found[param.name] = variable.name
        return found

    def unsupported(self, instruction: Instruction, why: str) -> UnsupportedInstructionError:
        """An error that names the instruction."""
        return UnsupportedInstructionError(
            f"{instruction.name} is not modelled: {why}",
            kernel=self.entry.name,
            instruction=instruction,
        )


def _own_names(function: Entry) -> frozenset[str]:
    """What a copy of a function has for itself."""
    local = (variable.name for variable in function.variables if variable.space == "local")
    return frozenset((*function.registers, *function.labels, *local))


def _private(instruction: Instruction, kernel_params: frozenset[str]) -> Instruction:
    """Parameters of calls are local memory; those of the kernel stay what they are."""
    if instruction.opcode not in ("ld", "st") or "param" not in instruction.modifiers:
        return instruction
    (base,) = (o.base for o in instruction.operands if isinstance(o, Address))
    if kernel_params and (not isinstance(base, Symbol) or base.name in kernel_params):
        return instruction
    words = tuple("local" if word == "param" else word for word in instruction.modifiers)
    return replace(instruction, modifiers=words)


def _renamed(instruction: Instruction, rename: Renaming) -> Instruction:
    guard = instruction.guard
    if guard is not None:
        guard = Guard(Register(rename(guard.register.name)), guard.negated)
    operands = tuple(_operand(operand, rename) for operand in instruction.operands)
    return replace(instruction, operands=operands, guard=guard)


def _operand(operand: Operand, rename: Renaming) -> Operand:
    """An operand with every name in it replaced."""
    match operand:
        case Register(name):
            return Register(rename(name))
        case Symbol(name):
            return Symbol(rename(name))
        case NotRegister(Register(name)):
            return NotRegister(Register(rename(name)))
        case Vector(elements):
            return Vector(tuple(_operand(element, rename) for element in elements))
        case Pair(first, second):
            return Pair(_operand(first, rename), _operand(second, rename))
        case Address(Register(name), offset):
            return Address(Register(rename(name)), offset)
        case Address(Symbol(name), offset):
            return Address(Symbol(rename(name)), offset)
    return operand
