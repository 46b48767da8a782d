"""Print PTX that leaves ptxas nothing to decide."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from exactness.virtual.errors import PTXSyntaxError
from exactness.virtual.freedoms import LARGE, SMALL, Freedoms, Kind, Product, Sum, flushed
from exactness.virtual.ptx import Entry, Instruction

_BITS = {"f64": 64, "f32": 32, "f16x2": 32, "bf16x2": 32, "f16": 16, "bf16": 16}


def rewrite(text: str, freedoms: Freedoms, fused: Mapping[Instruction, int]) -> str:
    """Print the PTX with every freedom decided.

    Args:
        text: the PTX text that `freedoms.entry` was parsed from.
        freedoms: what `find` found.
        fused: sum to the position (1 or 2) of the operand that it absorbs; the others round.

    Returns:
        PTX in which every add, sub and mul of the kernel carries a rounding modifier, line by line
        the same program.

    Raises:
        PTXSyntaxError: an instruction cannot be found in the text again.
    """
    return _Writer(text, freedoms, fused).result()


class _Writer:
    """Replaces statements in place."""

    def __init__(self, text: str, freedoms: Freedoms, fused: Mapping[Instruction, int]) -> None:
        self.text = text
        self.freedoms = freedoms
        self.fused = fused
        self.declared: list[str] = []
        self.replaced: dict[Instruction, str] = {}

    def result(self) -> str:
        for instruction in self.freedoms.unrounded:
            self.replaced[instruction] = _rounded(instruction)
        for instruction, divisor in self.freedoms.divisions.items():
            before, factor, reciprocal = self.scaled(instruction, divisor)
            self.replaced[instruction] = before + _multiplied(instruction, factor, reciprocal)
        for instruction, value in self.freedoms.functions.items():
            target = _operands(instruction)[0]
            self.replaced[instruction] = f"{_guard(instruction)}mov.b32 {target}, {_hex(value)};"
        self.absorb()
        return self.declare(substitute(self.text, self.freedoms.entry, self.replaced))

    def fresh(self, kind: str) -> str:
        """A new register of the width of type `kind`."""
        name = f"%contract{len(self.declared)}"
        self.declared.append(f".reg .b{_BITS[kind]} {name};")
        return name

    def scaled(self, instruction: Instruction, divisor: np.float32) -> tuple[str, str, str]:
        """Division by a constant: statements before, dividend, reciprocal as literal."""
        flush = "ftz" in instruction.modifiers
        scale = division_scale(instruction, divisor)
        with np.errstate(all="ignore"):
            exact = np.float32(1) / flushed(divisor * scale, flush=flush)
        reciprocal = flushed(exact, flush="approx" in instruction.modifiers)
        dividend = _operands(instruction)[1]
        if scale == 1:
            return "", dividend, _hex(reciprocal)
        name = self.fresh("f32")
        ftz = ".ftz" if flush else ""
        before = f"{_guard(instruction)}mul.rn{ftz}.f32 {name}, {dividend}, {_hex(scale)}; "
        return before, name, _hex(reciprocal)

    def absorb(self) -> None:
        """Write the chosen sums as fma, and drop the products that nobody reads any more."""
        absorbed: dict[Instruction, int] = {}
        factors: dict[Instruction, tuple[str, str]] = {}
        for total in self.freedoms.sums:
            if total.instruction in self.fused:
                position = self.fused[total.instruction]
                product = total.products[position]
                if product.instruction not in factors:
                    factors[product.instruction] = self.factors(product)
                absorbed[product.instruction] = absorbed.get(product.instruction, 0) + 1
                pair = factors[product.instruction]
                self.replaced[total.instruction] = self.contracted(total, position, pair)
                if absorbed[product.instruction] == product.users:
                    self.drop(product)

    def drop(self, product: Product) -> None:
        """Leave of a product only what prepares its factors."""
        before, _, _ = self.replaced[product.instruction].rpartition("; ")
        self.replaced[product.instruction] = f"{before};" if before else ""

    def factors(self, product: Product) -> tuple[str, str]:
        """The two factors, readable at the sum; statements that prepare them go first."""
        instruction = product.instruction
        _, first, second = _operands(instruction)
        if product.kind is Kind.DIVIDE:
            before, first, second = self.expanded(instruction)
            flags = (m for m in instruction.modifiers if m not in ("full", "approx"))
            own = "mul.rn" + "".join(f".{flag}" for flag in flags)
            last = f"{own} {_operands(instruction)[0]}, {first}, {second};"
            self.replaced[instruction] = before + last
            return first, second
        if product.kind is Kind.DIVIDE_CONSTANT:
            before, first, second = self.scaled(instruction, self.freedoms.divisions[instruction])
            own = _multiplied(instruction, first, second)
            self.replaced[instruction] = before + own
        kept = [self.kept(instruction, factor) for factor in (first, second)]
        copies = "".join(copy for copy, _ in kept)
        self.replaced[instruction] = copies + self.replaced[instruction]
        return kept[0][1], kept[1][1]

    def kept(self, instruction: Instruction, factor: str) -> tuple[str, str]:
        """A factor that is assigned more than once is copied where the product stood."""
        if not factor.startswith("%") or factor in self.freedoms.single:
            return "", factor
        if factor.startswith("%contract"):
            return "", factor
        kind = instruction.modifiers[-1]
        name = self.fresh(kind)
        return f"mov.b{_BITS[kind]} {name}, {factor}; ", name

    def expanded(self, instruction: Instruction) -> tuple[str, str, str]:
        """A division as ptxas expands it, up to the last multiplication."""
        _, dividend, divisor = _operands(instruction)
        a, b, size, inverse = (self.fresh("f32") for _ in range(4))
        ftz = ".ftz" if "ftz" in instruction.modifiers else ""
        steps = [f"mov.b32 {a}, {dividend}", f"mov.b32 {b}, {divisor}", f"abs.f32 {size}, {b}"]
        scales = []
        if "full" in instruction.modifiers:
            scales.append(("gt", LARGE, "", 0.25))
        if not ftz:
            scales.append(("geu", SMALL, "!", 2.0**24))
        for relation, bound, negation, scale in scales:
            predicate = f"%contract{len(self.declared)}"
            self.declared.append(f".reg .pred {predicate};")
            limit, factor = _hex(np.float32(bound)), _hex(np.float32(scale))
            steps.append(f"setp.{relation}{ftz}.f32 {predicate}, {size}, {limit}")
            guard = f"@{negation}{predicate}"
            steps += [f"{guard} mul.rn{ftz}.f32 {x}, {x}, {factor}" for x in (a, b)]
        steps.append(f"rcp.approx.ftz.f32 {inverse}, {b}")
        return "".join(f"{step}; " for step in steps), a, inverse

    def contracted(self, total: Sum, position: int, factors: tuple[str, str]) -> str:
        """The sum as fma; a subtraction negates the factor or the addend, which is exact."""
        instruction = total.instruction
        target, *operands = _operands(instruction)
        first, second = factors
        addend = operands[2 - position]
        kind = instruction.modifiers[-1]
        before = ""
        if instruction.opcode == "sub":
            name = self.fresh(kind)
            negated = addend if position == 1 else first
            before = f"neg.{kind} {name}, {negated}; "
            addend, first = (name, first) if position == 1 else (addend, name)
        suffix = "".join(f".{m}" for m in instruction.modifiers)
        return f"{before}fma.rn{suffix} {target}, {first}, {second}, {addend};"

    def declare(self, text: str) -> str:
        """Declare the new registers right after the kernel's opening brace, on its line."""
        if not self.declared:
            return text
        name = re.escape(self.freedoms.entry.name)
        match = re.search(rf"\.(?:entry|func)\b[^{{;]*?\s{name}(?![\w$])[^{{;]*{{", text)
        if match is None:
            raise PTXSyntaxError(f"the body of kernel {self.freedoms.entry.name} was not found")
        return f"{text[: match.end()]} {' '.join(self.declared)}{text[match.end() :]}"


def division_scale(instruction: Instruction, divisor: np.float32) -> np.float32:
    """What a division multiplies both operands with, so that the reciprocal stays normal."""
    if abs(divisor) > LARGE and "full" in instruction.modifiers:
        return np.float32(0.25)
    if abs(divisor) < SMALL and "ftz" not in instruction.modifiers:
        return np.float32(2.0**24)
    return np.float32(1)


def substitute(text: str, entry: Entry, replaced: Mapping[Instruction, str]) -> str:
    """Replace statements of a kernel in its PTX text; all others keep their lines.

    Raises:
        PTXSyntaxError: an instruction cannot be found in the text again.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    pieces, position = [], 0
    for instruction in entry.body:
        if instruction not in replaced:
            continue
        words = (re.escape(word) for word in instruction.text.split())
        pattern = re.compile(r"\s+".join(words))
        match = pattern.search(text, max(position, starts[instruction.line - 1]))
        if match is None:
            raise PTXSyntaxError(f"PTX line {instruction.line}: {instruction.text!r} was not found")
        pieces += [text[position : match.start()], replaced[instruction]]
        position = match.end()
    return "".join((*pieces, text[position:]))


def _operands(instruction: Instruction) -> list[str]:
    """The operands of an arithmetic instruction as printed."""
    text = instruction.text.rstrip("; ")
    opcode = text.index(instruction.name)
    return [part.strip() for part in text[opcode + len(instruction.name) :].split(",")]


def _guard(instruction: Instruction) -> str:
    text = instruction.text
    return text[: text.index(instruction.name)]


def _rounded(instruction: Instruction) -> str:
    """The same instruction with `.rn`, which forbids contraction."""
    name = ".".join((instruction.opcode, "rn", *instruction.modifiers))
    return instruction.text.replace(instruction.name, name, 1)


def _multiplied(instruction: Instruction, factor: str, reciprocal: str) -> str:
    """A division by a constant as multiplication."""
    target = _operands(instruction)[0]
    ftz = ".ftz" if "ftz" in instruction.modifiers else ""
    return f"{_guard(instruction)}mul.rn{ftz}.f32 {target}, {factor}, {reciprocal};"


def _hex(value: np.float32) -> str:
    """A PTX f32 literal."""
    return f"0f{int(np.asarray(value, np.float32).view(np.uint32)):08X}"
