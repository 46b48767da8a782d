"""SASS without a GPU: assemble PTX, read the machine code, say what arithmetic it holds.

The tools are NVIDIA's own `ptxas` and `nvdisasm`; Triton's wheel ships both. Their output is kept
in a cache directory (`EXACTNESS_CACHE`, else `$XDG_CACHE_HOME/exactness`), named by a hash of
everything that it depends on, and renamed into place.

`nvdisasm --print-line-info-ptx` tells, for every machine instruction, the line of the PTX text that
it implements. What ptxas made of one PTX instruction can therefore be read off, whatever the
schedule, the registers and the unrolling.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from exactness.errors import UsageError
from exactness.virtual.errors import VirtualHopperError
from exactness.writing import write_atomically

ARCHITECTURE = "sm_90a"

UNKNOWN_LINE = 0
"""Stands for instructions without line information."""


class ToolError(VirtualHopperError, RuntimeError):
    """One of NVIDIA's tools is missing, or refused its input."""


class Operation(Enum):
    """What a floating-point machine instruction computes."""

    ADD = "add"
    MULTIPLY = "mul"
    FUSED = "fma"
    FUNCTION = "mufu"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A floating-point machine instruction without registers and signs.

    Attributes:
        operation: what it computes.
        flavour: precision and modifiers, "F.FTZ", "H.BF16_V2", "RCP".
        immediates: constant operands, sorted, unsigned; RZ is 0.
    """

    operation: Operation
    flavour: str
    immediates: tuple[str, ...] = ()


def assemble(ptx: str, options: Sequence[str] = ()) -> bytes:
    """Assemble PTX for sm_90a.

    Args:
        ptx: the PTX text.
        options: further ptxas options, such as "--fmad=false".

    Returns:
        The cubin, with line information.

    Raises:
        ToolError: ptxas is missing or refuses the text; or none reads this version of PTX.
    """
    for tool in (tools := find_tools("ptxas")):
        try:
            return _assembled(tool, ptx, options)
        except ToolError as error:
            if "Unsupported .version" not in str(error) or tool == tools[-1]:
                raise
    raise AssertionError("find_tools gives at least one tool")


def _assembled(tool: Path, ptx: str, options: Sequence[str]) -> bytes:
    command = [str(tool), "-lineinfo", f"--gpu-name={ARCHITECTURE}", *options]
    key = _key("ptxas", _version(tool), *command[1:], ptx)
    return _cached(key, lambda: _run(command, ptx.encode(), ".ptx"))


def disassemble(cubin: bytes) -> str:
    """Disassemble a cubin, each instruction under the PTX line that it implements.

    Raises:
        ToolError: nvdisasm is missing or refuses the cubin.
    """
    tool = find_tool("nvdisasm")
    command = [str(tool), "-c", "-gp"]
    key = _key("nvdisasm", _version(tool), *command[1:], hashlib.sha256(cubin).hexdigest())
    return _cached(key, lambda: _run(command, cubin, ".cubin")).decode()


def code(cubin: bytes) -> Mapping[str, bytes]:
    """The sections that are executed or read as constants, by name.

    Two cubins with equal `code` do the same, whatever their debug sections say.

    Raises:
        ValueError: `cubin` is not a 64-bit little-endian ELF file.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"cubin is {cubin[:6]!r}…, a 64-bit little-endian ELF file was expected")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    start = headers[names][4]
    found: dict[str, bytes] = {}
    for name, kind, _, _, offset, length in headers:
        end = cubin.index(b"\0", start + name)
        section = cubin[start + name : end].decode()
        if section.startswith((".text.", ".nv.constant")) and kind != 8:  # SHT_NOBITS
            found[section] = cubin[offset : offset + length]
    return found


_LINE = re.compile(r'\.nv_debug_ptx_txt", line (\d+)')
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?(?P<text>[^;]*?)\s*;")


def arithmetic(listing: str) -> Mapping[int, frozenset[Arithmetic]]:
    """What floating-point arithmetic implements each PTX line.

    Args:
        listing: what `disassemble` returned.

    Returns:
        PTX line, from 1, to the instructions that implement it; lines without any are absent,
        and `UNKNOWN_LINE` has those whose line is not known.
    """
    lines: dict[int, set[Arithmetic]] = {}
    current = UNKNOWN_LINE
    for row in listing.splitlines():
        if (match := _LINE.search(row)) is not None:
            current = int(match[1])
        elif (match := _INSTRUCTION.match(row)) is not None:
            found = classify(match["text"])
            if found is not None:
                lines.setdefault(current, set()).add(found)
    return {line: frozenset(found) for line, found in lines.items()}


_FAMILY = re.compile(r"(?P<precision>[FDH])(?P<name>ADD|MUL|FMA)2?(?P<modifiers>(?:\.\w+)*)$")
_KINDS = {"ADD": Operation.ADD, "MUL": Operation.MULTIPLY, "FMA": Operation.FUSED}
# Not arithmetic: which unit executes it, and the width of a constant.
_NOISE = frozenset({"MMA", "F32"})


def classify(text: str) -> Arithmetic | None:
    """Classify one SASS instruction; None if it is no floating-point arithmetic.

    A multiplication may be written as a fused one that adds -0, an addition as one that multiplies
    by 1, and a constant is often loaded by `HFMA2 R0, -RZ, RZ, …`, which computes nothing.
    """
    opcode, _, rest = text.partition(" ")
    operands = [part.strip() for part in rest.split(",")]
    if opcode.startswith("MUFU."):
        return Arithmetic(Operation.FUNCTION, opcode[5:])
    match = _FAMILY.match(opcode)
    if match is None:
        return None
    modifiers = [word for word in match["modifiers"].split(".")[1:] if word not in _NOISE]
    flavour = ".".join((match["precision"], *modifiers))
    operation, values = _simplify(_KINDS[match["name"]], [_plain(part) for part in operands[1:]])
    if operation is None:
        return None
    constants = sorted("0" if value == "RZ" else value for value in values if value != "R")
    return Arithmetic(operation, flavour, tuple(constants))


def _simplify(operation: Operation, values: list[str]) -> tuple[Operation | None, list[str]]:
    """See through a fused instruction that only multiplies, only adds or only moves."""
    if operation is not Operation.FUSED:
        return operation, values
    first, second, *rest = values
    if first == second == "RZ":
        return None, values
    if rest and set(rest) == {"RZ"}:
        return Operation.MULTIPLY, [first, second]
    if len(values) == 3 and "1" in (first, second):
        return Operation.ADD, [second if first == "1" else first, *rest]
    if len(values) == 4 and [second, *rest][:2] == ["1", "1"]:
        return Operation.ADD, [first, values[3]]
    return operation, values


_REGISTER = re.compile(r"U?R\d+|c\[.*\]")


def _plain(operand: str) -> str:
    """An operand without sign, reuse flag and lane selection; registers all alike."""
    bare = operand.strip("-|~ ").split(".reuse")[0].strip("| ")
    bare = re.sub(r"\.(?:H[01]_H[01]|64)$", "", bare)
    bare = "RZ" if bare == "URZ" else bare
    return "R" if _REGISTER.fullmatch(bare) else bare.lstrip("+-")


def find_tool(name: str) -> Path:
    """Find `ptxas` or `nvdisasm`: the first of `find_tools`."""
    return find_tools(name)[0]


def find_tools(name: str) -> tuple[Path, ...]:
    """Find every `ptxas` or `nvdisasm`, the preferred one first.

    Looked for in this order: the one that Triton itself uses for sm_90, Triton's wheel, PATH,
    CUDA_HOME, /usr/local/cuda, and the newer one that Triton's wheel has for Blackwell, since nvcc
    may write later PTX than Triton.

    Raises:
        ToolError: it is nowhere.
    """
    shipped = _triton_tools(name)
    newer = [path.with_name(f"{name}-blackwell") for path in shipped[-1:]]
    candidates = (*shipped, shutil.which(name), *_cuda_tools(name), *newer)
    found = (Path(c) for c in candidates if c is not None and os.access(c, os.X_OK))
    if tools := tuple(dict.fromkeys(found)):
        return tools
    raise ToolError(
        f"{name} was not found: install Triton, whose wheel ships it, or put it on PATH"
    )


@functools.lru_cache(maxsize=8)
def _triton_tools(name: str) -> tuple[Path, ...]:
    """Where the installed Triton keeps `name`, the preferred one first."""
    try:
        compiler = importlib.import_module("triton.backends.nvidia.compiler")
    except ImportError:
        return ()
    shipped = Path(str(compiler.__file__)).parent / "bin" / name
    if name != "ptxas":
        return (shipped,)
    return (Path(compiler.get_ptxas(90).path), shipped)


def _cuda_tools(name: str) -> tuple[Path, ...]:
    roots = (os.environ.get("CUDA_HOME"), "/usr/local/cuda")
    return tuple(Path(root) / "bin" / name for root in roots if root)


@functools.lru_cache(maxsize=8)
def _version(tool: Path) -> str:
    """What the tool says about itself; the part of a cache key that stands for it."""
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout


def _run(command: Sequence[str], data: bytes, suffix: str) -> bytes:
    """Run a tool on `data`; ptxas answers in a file, nvdisasm on its standard output."""
    with tempfile.TemporaryDirectory(prefix="exactness-") as folder:
        source, target = Path(folder) / f"in{suffix}", Path(folder) / "out"
        source.write_bytes(data)
        output = ["-o", str(target)] if suffix == ".ptx" else []
        done = subprocess.run([*command, str(source), *output], capture_output=True, check=False)
        if done.returncode != 0:
            reason = done.stderr.decode(errors="replace").strip()
            raise ToolError(f"{Path(command[0]).name} failed: {reason}")
        return target.read_bytes() if output else done.stdout


def cache_directory() -> Path:
    """Where tool output is kept: `EXACTNESS_CACHE`, `$XDG_CACHE_HOME/exactness`, ~/.cache."""
    chosen = os.environ.get("EXACTNESS_CACHE")
    if chosen:
        return Path(chosen)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "exactness"


def _key(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _cached(key: str, produce: Callable[[], bytes]) -> bytes:
    """The stored output, or a new one; a cache that cannot be written is no error."""
    path = cache_directory() / "sass" / key[:2] / key
    with contextlib.suppress(OSError):
        return path.read_bytes()
    data = produce()
    with contextlib.suppress(UsageError):
        write_atomically(path, data)
    return data
