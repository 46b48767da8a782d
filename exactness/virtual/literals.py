"""Literals, types and lists in PTX text.

Source: PTX ISA 9.0, sections 4.5 (constants) and 5.2 (types).
"""

from __future__ import annotations

import re
import struct
from typing import Any

from exactness.virtual.errors import PTXSyntaxError
from exactness.virtual.instructions import Decimal, Integer, Operand

_NUMBER = re.compile(r"[-+~]?\s*(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT_BITS = re.compile(r"(-?)0([fFdD])([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?$|-?\d+[eE][-+]?\d+$")


def type_bytes(name: str) -> int:
    """Bytes of a PTX type: "b32" is 4, "f16x2" 4, "pred" 1."""
    if name == "pred":
        return 1
    match = re.fullmatch(r"[a-z]+?(\d+)(?:x(\d))?", name)
    if match is None:
        raise PTXSyntaxError(f"type .{name} is unknown")
    return int(match[1]) * int(match[2] or 1) // 8


def split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    if not any(bracket in text for bracket in "{[("):
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


def integer(text: str) -> int:
    """A PTX integer literal."""
    text = text.replace(" ", "").rstrip("U")
    if text.startswith("~"):
        return ~integer(text[1:])
    negative, digits = text.startswith("-"), text.lstrip("+-")
    if re.fullmatch(r"0[0-7]+", digits):
        value = int(digits, 8)
    else:
        value = int(digits, 0)
    return -value if negative else value


def literal(text: str) -> Operand:
    """A literal operand."""
    if (match := _FLOAT_BITS.fullmatch(text)) is not None:
        width = 32 if match[2] in "fF" else 64
        bits = int(match[3], 16)
        return Integer(bits ^ (1 << (width - 1)) if match[1] else bits, width)
    if _NUMBER.fullmatch(text):
        return Integer(integer(text))
    if _DECIMAL.fullmatch(text):
        return Decimal(float(text))
    raise ValueError(f"literal {text!r} cannot be read")


def initial_bytes(text: str, type_name: str) -> bytes | None:
    """The bytes of an initialiser of plain literals; None when it names symbols."""
    size, data = type_bytes(type_name), b""
    for part in text.replace("{", " ").replace("}", " ").split(","):
        try:
            value: Any = literal(part.strip())
        except ValueError:
            return None
        if isinstance(value, Decimal):
            data += struct.pack("<f" if size == 4 else "<d", value.value)
        else:
            data += (value.value % (1 << (8 * size))).to_bytes(size, "little")
    return data
