"""A kernel decoded for execution: basic blocks of operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from exactness.virtual import analysis, ops
from exactness.virtual.builder import Builder
from exactness.virtual.inlining import inlined
from exactness.virtual.instructions import Entry, Guard, Instruction, Operand, Symbol, Vector
from exactness.virtual.operation import Operation
from exactness.virtual.ops.common import BITS, types_of


@dataclass(slots=True, eq=False)
class Terminator:
    """What ends a basic block.

    Attributes:
        kind: "next", "branch", "exit", "trap", "barrier", "wait" (for an mbarrier), or "missing"
            for a call of a function that has no body.
        instruction: None for "next", unless a device function is entered.
        targets: numbers of the blocks that a branch goes to.
        index: register that selects one of several targets, else −1.
        guard: register number and negation.
        barrier: for barriers, register numbers of its name and thread count (−1: whole block).
        arrive_only: whether the threads go on without waiting.
        aligned: whether whole warps must come.
        reduction: for `bar.red`, operation, target and predicate registers, negation.
        wait: for mbarriers, registers of address, offset (a number), parity and result.
    """

    kind: str
    instruction: Instruction | None = None
    targets: tuple[int, ...] = ()
    index: int = -1
    guard: tuple[int, bool] | None = None
    barrier: tuple[int, int] = (-1, -1)
    arrive_only: bool = False
    aligned: bool = True
    reduction: tuple[str, int, int, bool] | None = None
    wait: tuple[int, int, int, int] | None = None

    def sources(self) -> list[int]:
        """Registers that it reads."""
        found = [number for number in (*self.barrier, self.index) if number >= 0]
        if self.guard is not None:
            found.append(self.guard[0])
        if self.reduction is not None:
            found.append(self.reduction[2])
        if self.wait is not None:
            found += [self.wait[0], self.wait[2]]
        return found


@dataclass(slots=True, eq=False)
class Block:
    """A basic block.

    Attributes:
        operations: in order.
        end: how it is left; the block after it in program order follows where no branch goes.
        kills: registers dead after the terminator.
    """

    operations: list[Operation] = field(default_factory=list)
    end: Terminator = field(default_factory=lambda: Terminator("next"))

    def successors(self, number: int) -> list[int]:
        """Blocks that may run next."""
        match self.end.kind:
            case "branch":
                after = [] if self.end.guard is None else [number + 1]
                return [*self.end.targets, *after]
            case "exit":
                return [] if self.end.guard is None else [number + 1]
            case "trap" | "missing":
                return [] if self.end.guard is None else [number + 1]
        return [number + 1]


@dataclass(slots=True, eq=False)
class Program:
    """A decoded kernel.

    Attributes:
        entry: what it was decoded from.
        builder: register numbers, literals, specials, symbols and parameters.
        blocks: basic blocks in program order, an empty one that exits at the end.
        maybe_undefined: registers that some path reads before they are written.
        shared_granule: bytes of the smallest shared access.
        global_granule: bytes of the smallest store or atomic to global memory.
        stored_params: parameters that an address of a global store is computed from; None if one
            may come from memory.
        partial_barriers: whether some barrier counts threads, or lets them pass.
    """

    entry: Entry
    builder: Builder
    blocks: list[Block]
    maybe_undefined: frozenset[int] = frozenset()
    shared_granule: int = 16
    global_granule: int = 16
    stored_params: frozenset[str] | None = None
    partial_barriers: bool = False


@lru_cache(maxsize=256)
def decode_entry(entry: Entry) -> Program:
    """Decode a kernel, device functions in place of their calls; entries compare by identity.

    Raises:
        UnsupportedInstructionError: an instruction without a bit model.
    """
    entry = inlined(entry)
    builder = Builder(entry)
    starts = _block_starts(entry)
    numbers = {start: number for number, start in enumerate(starts)}
    blocks = []
    for start, stop in zip(starts, [*starts[1:], len(entry.body)], strict=True):
        blocks.append(_decode_block(entry, builder, numbers, start, stop))
    blocks.append(Block(end=Terminator("exit")))
    program = Program(entry, builder, blocks)
    program.shared_granule, program.global_granule = _granules(entry)
    program.partial_barriers = any(
        block.end.kind == "barrier" and (block.end.arrive_only or block.end.barrier[1] >= 0)
        for block in blocks
    ) or any(ins.opcode == "mbarrier" or "bulk" in ins.modifiers for ins in entry.body)
    program.maybe_undefined = analysis.maybe_undefined(program)
    analysis.liveness(program)
    program.stored_params = analysis.stored_params(program)
    return program


CLUSTER_BARRIER = 16
"""The number of the barrier that a cluster's only block meets at, after the named ones."""

_ENDS = frozenset(["bra", "brx", "ret", "exit", "trap", "bar", "barrier", "call"])


def _ends_block(ins: Instruction) -> bool:
    if ins.opcode == "mbarrier":
        return "try_wait" in ins.modifiers or "test_wait" in ins.modifiers
    return ins.opcode in _ENDS and "warp" not in ins.modifiers


def _block_starts(entry: Entry) -> list[int]:
    """Indices of instructions that begin a basic block."""
    starts = {0}
    branches = (ins for ins in entry.body if ins.opcode in ("bra", "brx", "ret"))
    used = {label.name for ins in branches for label in _targets(ins) if isinstance(label, Symbol)}
    starts.update(index for label, index in entry.labels.items() if label in used)
    starts.update(i + 1 for i, ins in enumerate(entry.body) if _ends_block(ins))
    return sorted(start for start in starts if start < len(entry.body) or start == 0)


def _decode_block(
    entry: Entry, builder: Builder, numbers: dict[int, int], start: int, stop: int
) -> Block:
    block = Block()
    for ins in entry.body[start:stop]:
        if _ends_block(ins):
            block.end = _terminator(ins, entry, builder, numbers)
        else:
            operation = ops.decode(ins, builder)
            operation.guard = _guard(builder, ins.guard)
            block.operations.append(operation)
    return block


def _guard(builder: Builder, guard: Guard | None) -> tuple[int, bool] | None:
    return None if guard is None else (builder.numbers[guard.register.name], guard.negated)


def _terminator(
    ins: Instruction, entry: Entry, builder: Builder, numbers: dict[int, int]
) -> Terminator:
    guard = _guard(builder, ins.guard)
    match ins.opcode:
        case "bra":
            return _branch(ins, entry, builder, numbers)
        case "brx" if len(ins.operands) == 2 and "idx" in ins.modifiers:
            branch = _branch(ins, entry, builder, numbers)
            branch.index = builder.source(ins, ins.operands[0], 32)
            return branch
        case "ret" if ins.operands:  # from a device function, to what follows its call
            return _branch(ins, entry, builder, numbers)
        case "call":
            return Terminator("missing" if ins.operands else "next", ins, guard=guard)
        case "ret" | "exit":
            return Terminator("exit", ins, guard=guard)
        case "trap":
            return Terminator("trap", ins, guard=guard)
        case "mbarrier":
            return _mbarrier_wait(ins, builder, guard)
        case "barrier" if ins.modifiers[:2] == ("cluster", "arrive"):
            return Terminator("next", ins, guard=guard)  # the wait will meet all threads
        case "bar" | "barrier":
            return _barrier(ins, builder, guard)
    raise builder.unsupported(ins, f"opcode {ins.opcode}")


def _targets(ins: Instruction) -> tuple[Operand, ...]:
    """The labels of a branch: the last operand, or the list that it names."""
    last = ins.operands[-1:]
    return last[0].elements if last and isinstance(last[0], Vector) else last


def _branch(
    ins: Instruction, entry: Entry, builder: Builder, numbers: dict[int, int]
) -> Terminator:
    targets = []
    for label in _targets(ins):
        if not isinstance(label, Symbol) or label.name not in entry.labels:
            raise builder.unsupported(ins, "a branch to no label of the kernel")
        targets.append(numbers.get(entry.labels[label.name], len(numbers)))
    guard = _guard(builder, ins.guard)
    return Terminator("branch", ins, targets=tuple(targets), guard=guard)


def _barrier(ins: Instruction, builder: Builder, guard: tuple[int, bool] | None) -> Terminator:
    """bar.{sync,arrive,red} and barrier.…, with or without `.cta`."""
    if ins.modifiers[:2] == ("cluster", "wait"):
        name = builder.literal(CLUSTER_BARRIER, 32)
        return Terminator("barrier", ins, guard=guard, barrier=(name, -1), aligned=False)
    words = [word for word in ins.modifiers if word not in ("cta", "aligned")]
    known = {"sync", "arrive", "red", "popc", "and", "or", "u32", "pred"}
    if not words or words[0] not in ("sync", "arrive", "red") or not set(words) <= known:
        raise builder.unsupported(ins, f"modifiers {'.'.join(ins.modifiers)}")
    operands = list(ins.operands)
    reduction = _reduction(ins, builder, words[1], operands) if words[0] == "red" else None
    name = builder.source(ins, operands[0], 32)
    count = builder.source(ins, operands[1], 32) if len(operands) > 1 else -1
    return Terminator(
        "barrier",
        ins,
        guard=guard,
        barrier=(name, count),
        arrive_only=words[0] == "arrive",
        aligned=ins.opcode == "bar" or "aligned" in ins.modifiers,
        reduction=reduction,
    )


def _mbarrier_wait(
    ins: Instruction, builder: Builder, guard: tuple[int, bool] | None
) -> Terminator:
    """mbarrier.try_wait, test_wait; how often they fail first depends on time, so they wait."""
    known = {"try_wait", "test_wait", "parity", "shared", "shared::cta", "b64", "acquire",
             "relaxed", "cta", "cluster"}  # fmt: skip
    if not set(ins.modifiers) <= known:
        raise builder.unsupported(ins, f"modifiers {'.'.join(ins.modifiers)}")
    address, offset = builder.address(ins, ins.operands[1])
    # The token of an arrival is the parity of the phase that it arrived in.
    parity = builder.source(ins, ins.operands[2], 32 if "parity" in ins.modifiers else 64)
    target = builder.target(ins, ins.operands[0], 1)
    wait = (address, offset, parity, target)
    return Terminator("wait", ins, guard=guard, wait=wait)


def _reduction(
    ins: Instruction, builder: Builder, operation: str, operands: list[Operand]
) -> tuple[str, int, int, bool]:
    """Take destination and predicate out of the operands of `bar.red`."""
    target = builder.target(ins, operands.pop(0), 32 if operation == "popc" else 1)
    predicate, negated = builder.predicate(ins, operands.pop())
    return operation, target, predicate, negated


def _granules(entry: Entry) -> tuple[int, int]:
    """Bytes that are tracked together: in shared memory, elements; in global memory, stores."""
    shared, outside = 8, 16
    for ins in entry.body:
        if ins.opcode not in ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "tensormap"):
            continue
        types = types_of(ins)
        element = min(BITS.get(name, 8) // 8 for name in types) if types else 4
        words = frozenset(ins.modifiers)
        is_shared = bool(words & {"shared", "shared::cta"})
        if is_shared or not words & {"global", "param", "local", "const"}:
            shared = min(shared, element)
        if not is_shared and ins.opcode in ("st", "atom", "red"):
            count = next((int(w[1:]) for w in words if w in ("v2", "v4", "v8")), 1)
            outside = min(outside, element if ins.opcode != "st" else element * count)
    return shared, outside
