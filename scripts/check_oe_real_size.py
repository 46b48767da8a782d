"""Look rows up in OE tables of their real size: kernels against a rule, and against the reference.

    python scripts/check_oe_real_size.py result.json            # on a GPU: 16 GiB of tables
    python scripts/check_oe_real_size.py result.json --rows 300 --device cpu

An element of a table is a function of table, row and column, so that the expected rows are made
anew and not looked up. Two set-ups: this rank's part of all four tables, as the first and as the
last of four ranks; and table 0 as a whole, whose elements an int32 does not number. Ids are the
first and the last row, their neighbours outside, numbers that 32 bits take for a row, then random.
Both kernels are run, `oe_hash_lookup_concat` on n-grams, and so is the reference on CUDA tensors.
Exit status 1 if a bit differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from exactness import environment
from exactness.arithmetic import Hopper
from exactness.catalogue import Catalogue, Entry
from exactness.checks.base import bits_of
from exactness.machines import Machine, choose
from exactness.project import Project
from exactness.writing import write_atomically

ROOT = Path(__file__).resolve().parents[1]
LOOKUP, FUSED = "oe_lookup_concat", "oe_hash_lookup_concat"
BRANCHES = 4
RANKS = 4
CHUNK = 1 << 16
"""Rows of a table that are made at once."""
TOKEN_VOCABULARY = 151_936
MASK = 2**32 - 1


def pattern(table: int, rows: torch.Tensor, width: int) -> torch.Tensor:
    """The bits of rows of a table, int16 [rows, width]: finite bf16.

    Rows that differ by a power of two differ, so that an address cut short is seen.
    """
    column = torch.arange(width, device=rows.device)
    mixed = rows[:, None] * 2654435761 + column * 2246822519 + table * 3266489917 & MASK
    mixed = (mixed ^ mixed >> 15) * 668265263 & MASK
    return (mixed >> 16 & 0xBFFF).to(torch.int16)


def build(table: int, start: int, rows: int, width: int, device: str) -> torch.Tensor:
    """Rows `start` and following of a table, bf16 [rows, width]."""
    made = torch.empty(rows, width, dtype=torch.int16, device=device)
    for first in range(0, rows, CHUNK):
        last = min(first + CHUNK, rows)
        made[first:last] = pattern(table, torch.arange(first, last, device=device) + start, width)
    return made.view(torch.bfloat16)


@dataclass(frozen=True)
class Setup:
    """The rows of each table that are here, and the whole tables they are of."""

    name: str
    starts: tuple[int, ...]
    rows: tuple[int, ...]
    vocabularies: tuple[int, ...]

    def expected(self, ids: torch.Tensor, width: int) -> torch.Tensor:
        """int16 [tokens, 4 · width]; zeros for rows that are not here."""
        parts = []
        for branch, (start, rows) in enumerate(zip(self.starts, self.rows, strict=True)):
            row = ids[:, branch]
            here = (row >= start) & (row < start + rows)
            parts.append(pattern(branch, row, width) * here[:, None])
        return torch.cat(parts, 1)

    def ids(self, tokens: int, generator: torch.Generator) -> torch.Tensor:
        """int64 [tokens or more, 4]: edges of each part, then any row of the whole table."""
        columns = []
        for start, rows, whole in zip(self.starts, self.rows, self.vocabularies, strict=True):
            end = start + rows
            edges = [start, end - 1, start - 1, end, 0, whole - 1, whole, -1]
            edges += [start + 2**32, start - 2**32, -(2**63), 2**63 - 1]
            anywhere = torch.randint(whole, (max(tokens - len(edges), 0),), generator=generator)
            columns.append(torch.cat([torch.tensor(edges), anywhere]))
        return torch.stack(columns, 1)


def setups(rows: int) -> Iterator[Setup]:
    parts = tuple(rows + 2 * branch for branch in range(BRANCHES))
    whole = tuple(RANKS * part for part in parts)
    for rank in (0, RANKS - 1):
        starts = tuple(rank * part for part in parts)
        yield Setup(f"rank {rank} of {RANKS}", starts, parts, whole)
    yield Setup("table 0 as a whole", (0, 0, 0, 0), (whole[0], 8, 8, 8), whole)


def buckets(grams: dict[str, torch.Tensor], vocabularies: tuple[int, ...]) -> torch.Tensor:
    """The rule of the hash in unbounded integers, reduced at the end of each step."""
    found = []
    for token, g2, g3 in zip(*(x.tolist() for x in grams.values()), strict=True):
        two = token + g2 * TOKEN_VOCABULARY
        numbers = (two, two, *[two + g3 * TOKEN_VOCABULARY**2] * 2)
        hashes = [number % 2**32 * 2654435761 % 2**32 for number in numbers]
        found.append([h % v for h, v in zip(hashes, vocabularies, strict=True)])
    return torch.tensor(found)


@dataclass
class Row:
    """What one comparison found; elements of `compared` that differ from the rule."""

    setup: str
    claim: str
    tokens: int
    launches: int = 0
    compared: int = 0
    rows_here: int = 0
    kernel_differs: int = 0
    reference_differs: int = 0
    seconds: float = 0.0


class Checker:
    """Compares kernels and references with the rule on one set-up."""

    def __init__(self, catalogue: Catalogue, machine: Machine, setup: Setup, width: int) -> None:
        self._catalogue, self._machine, self._setup = catalogue, machine, setup
        self._width = width
        shapes = zip(setup.starts, setup.rows, strict=True)
        self._tables = {
            f"table{branch}": build(branch, start, rows, width, machine.device)
            for branch, (start, rows) in enumerate(shapes)
        }

    def lookups(self, tokens: int) -> Row:
        """`oe_lookup_concat` on edges and random ids, `tokens` a launch."""
        row = Row(self._setup.name, LOOKUP, tokens)
        for ids in self._setup.ids(tokens, _generator(tokens)).split(tokens):
            given = {"ids": ids.to(self._machine.device)}
            self._compare(row, ids, given)
        return row

    def ngrams(self, tokens: int) -> Row:
        """`oe_hash_lookup_concat` on the n-grams of a random text."""
        row = Row(self._setup.name, FUSED, tokens)
        text = torch.randint(TOKEN_VOCABULARY, (tokens + 2,), generator=_generator(tokens))
        grams = {"ids": text[2:], "g2": text[1:-1], "g3": text[:-2]}
        given: dict[str, Any] = {k: x.to(self._machine.device) for k, x in grams.items()}
        given["token_vocabulary"] = TOKEN_VOCABULARY
        given["vocabularies"] = self._setup.vocabularies
        self._compare(row, buckets(grams, self._setup.vocabularies), given)
        return row

    def _compare(self, row: Row, ids: torch.Tensor, given: dict[str, Any]) -> None:
        started = time.perf_counter()
        (entry,) = self._catalogue.select((row.claim,))
        arguments = {**given, **self._tables, "starts": self._setup.starts}
        expected = self._setup.expected(ids, self._width)
        (actual,) = self._machine.run(entry.claim, arguments).values()
        row.launches += 1
        row.compared += expected.numel()
        row.rows_here += int((expected.view(-1, self._width) != 0).any(1).sum())
        row.kernel_differs += int((actual.cpu().view(torch.int16) != expected).sum())
        row.reference_differs += int((self._reference(entry, arguments) != expected).sum())
        row.seconds = round(row.seconds + time.perf_counter() - started, 3)

    def _reference(self, entry: Entry, arguments: dict[str, Any]) -> torch.Tensor:
        program = self._catalogue.reference(entry.claim.reference)
        bits = bits_of(Hopper().run(program, arguments))
        return torch.from_numpy(bits.patterns.view("int16"))


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, help="where the JSON goes")
    parser.add_argument("--rows", type=int, default=4_000_002, help="rows of a rank in table 0")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", default="1,32,128,512", help="of a launch, with commas")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    options = parser.parse_args()
    machine, catalogue = choose(options.device), Catalogue(Project.find(ROOT))
    found: list[Row] = []
    for setup in setups(options.rows):
        checker = Checker(catalogue, machine, setup, options.width)
        for tokens in map(int, options.tokens.split(",")):
            for row in (checker.lookups(tokens), checker.ngrams(tokens)):
                found.append(row)
                print(
                    f"{row.setup:20} {row.claim:24} T={row.tokens:<4} {row.compared:>10,} compared "
                    f"{row.rows_here:>6,} rows here {row.kernel_differs:>6,} kernel "
                    f"{row.reference_differs:>6,} reference differ {row.seconds:8.3f} s",
                    flush=True,
                )
        del checker  # its tables make room for the next ones
    result = {
        "schema_version": 1,
        "environment": environment.collect(ROOT).to_dict(),
        "kernels": machine.name,
        "rows": options.rows,
        "width": options.width,
        "comparisons": [asdict(row) for row in found],
    }
    write_atomically(options.result, (json.dumps(result, indent=1) + "\n").encode())
    return int(any(row.kernel_differs or row.reference_differs for row in found))


if __name__ == "__main__":
    sys.exit(main())
