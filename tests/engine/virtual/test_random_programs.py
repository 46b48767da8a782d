"""Random programs with branches and loops, against a thread-by-thread interpreter."""

import random

import numpy as np
import pytest

REGISTERS, PREDICATES = 6, 3
THREADS, BLOCKS = 64, 3
MASK = 0xFFFFFFFF


def signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


OPERATIONS = {
    "add.s32": lambda a, b: (a + b) & MASK,
    "sub.s32": lambda a, b: (a - b) & MASK,
    "mul.lo.s32": lambda a, b: (a * b) & MASK,
    "xor.b32": lambda a, b: a ^ b,
    "and.b32": lambda a, b: a & b,
    "min.s32": lambda a, b: min(signed(a), signed(b)) & MASK,
}
TESTS = {
    "lt.s32": lambda a, b: signed(a) < signed(b),
    "eq.s32": lambda a, b: a == b,
    "gt.u32": lambda a, b: a > b,
}


class Generator:
    """A structured random program: a tree of (kind, …) tuples."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def register(self) -> int:
        return self.random.randrange(REGISTERS)

    def operand(self) -> int | str:
        if self.random.random() < 0.3:
            return self.random.choice([0, 1, 3, 0x7FFFFFFF, 12345])
        return f"%r{self.register()}"

    def block(self, depth: int) -> list:
        return [self.statement(depth) for _ in range(self.random.randint(1, 5))]

    def statement(self, depth: int) -> tuple:
        choice = self.random.random()
        predicate = self.random.randrange(PREDICATES)
        if depth and choice < 0.15:
            return ("if", predicate, self.block(depth - 1), self.block(depth - 1))
        if depth and choice < 0.25:
            return ("loop", self.random.randint(1, 4), self.block(depth - 1))
        if choice < 0.45:
            test = self.random.choice(list(TESTS))
            return ("test", test, predicate, self.operand(), self.operand())
        if choice < 0.55:
            return ("select", self.register(), self.operand(), self.operand(), predicate)
        guard = predicate if self.random.random() < 0.3 else None
        name = self.random.choice(list(OPERATIONS))
        return ("op", name, self.register(), self.operand(), self.operand(), guard)


class Printer:
    """The program as PTX; loops count in a register of their own, by threads or by a constant."""

    def __init__(self) -> None:
        self.labels = 0
        self.lines: list[str] = []

    def block(self, statements: list) -> None:
        for statement in statements:
            getattr(self, f"print_{statement[0]}")(*statement[1:])

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def print_op(self, name, target, a, b, guard) -> None:
        prefix = "" if guard is None else f"@%p{guard} "
        self.lines.append(f"{prefix}{name} %r{target}, {a}, {b};")

    def print_test(self, test, predicate, a, b) -> None:
        self.lines.append(f"setp.{test} %p{predicate}, {a}, {b};")

    def print_select(self, target, a, b, predicate) -> None:
        self.lines.append(f"selp.b32 %r{target}, {a}, {b}, %p{predicate};")

    def print_if(self, predicate, then, otherwise) -> None:
        other, end = self.label(), self.label()
        self.lines.append(f"@!%p{predicate} bra {other};")
        self.block(then)
        self.lines.append(f"bra {end}; {other}:")
        self.block(otherwise)
        self.lines.append(f"{end}:")

    def print_loop(self, count, body) -> None:
        start, end = self.label(), self.label()
        counter = f"%c{self.labels}"
        self.lines.append(f".reg .b32 {counter}; .reg .pred {counter}p;")
        # Every thread loops another number of times.
        self.lines.append(f"and.b32 {counter}, %t, {count}; {start}:")
        self.lines.append(f"setp.eq.s32 {counter}p, {counter}, 0; @{counter}p bra {end};")
        self.block(body)
        self.lines.append(f"sub.s32 {counter}, {counter}, 1; bra {start}; {end}:")


class Interpreter:
    """One thread."""

    def __init__(self, thread: int, index: int) -> None:
        self.thread = thread
        self.r = [(index * (k + 3) * 2654435761) & MASK for k in range(REGISTERS)]
        self.p = [bool(thread >> k & 1) for k in range(PREDICATES)]

    def value(self, operand) -> int:
        return self.r[int(operand[2:])] if isinstance(operand, str) else operand

    def block(self, statements: list) -> None:
        for statement in statements:
            match statement:
                case ("op", name, target, a, b, guard):
                    if guard is None or self.p[guard]:
                        self.r[target] = OPERATIONS[name](self.value(a), self.value(b))
                case ("test", test, predicate, a, b):
                    self.p[predicate] = TESTS[test](self.value(a), self.value(b))
                case ("select", target, a, b, predicate):
                    self.r[target] = self.value(a if self.p[predicate] else b)
                case ("if", predicate, then, otherwise):
                    self.block(then if self.p[predicate] else otherwise)
                case ("loop", count, body):
                    for _ in range(self.thread & count):
                        self.block(body)


@pytest.mark.parametrize("seed", range(30))
def test_random_program(run_kernel, seed):
    program = Generator(seed).block(4)
    printer = Printer()
    printer.block(program)
    start = "\n".join(
        [f"mul.lo.s32 %r{k}, %i, {(k + 3) * 2654435761 & MASK};" for k in range(REGISTERS)]
        + [f"and.b32 %u, %t, {1 << k}; setp.ne.s32 %p{k}, %u, 0;" for k in range(PREDICATES)]
    )
    stores = "\n".join(f"st.global.b32 [%a + {4 * k}], %r{k};" for k in range(REGISTERS))
    body = f"""
        .reg .b32 %r<{REGISTERS}>, %t, %i, %n, %u; .reg .pred %p<{PREDICATES}>; .reg .b64 %a;
        mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x;
        mad.lo.s32 %i, %i, %n, %t; ld.param.b64 %a, [y];
        mad.wide.s32 %a, %i, {4 * REGISTERS}, %a;
        {start}
        {chr(10).join(printer.lines)}
        {stores}
        ret;"""
    y = np.zeros((BLOCKS * THREADS, REGISTERS), np.uint32)
    run_kernel(body, {"y": y}, grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1))
    for index in range(BLOCKS * THREADS):
        thread = Interpreter(index % THREADS, index)
        thread.block(program)
        assert y[index].tolist() == thread.r
