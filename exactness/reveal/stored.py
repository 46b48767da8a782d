"""Revealed trees as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from exactness.environment import Environment
from exactness.reveal.errors import RevealError
from exactness.reveal.known import recognized
from exactness.reveal.probes import Summation
from exactness.reveal.tree import Tree


def record(tree: Tree, summation: Summation, environment: Environment) -> dict[str, Any]:
    """A tree, how it was found and where.

    `children` holds the operands of nodes n, n + 1 …; terms are nodes 0 … n−1 and the last node
    is the sum.
    """
    return {
        "schema_version": 1,
        "target": summation.name,
        "format": summation.format.name,
        "n": tree.n,
        "names": recognized(tree),
        "depth": tree.depth,
        "widest": tree.widest,
        "calls": summation.calls,
        "probes": summation.probes,
        "children": [list(operands) for operands in tree.children],
        "environment": environment.to_dict(),
    }


def text(found: dict[str, Any]) -> str:
    """The record as JSON, its long lists on one line."""
    rest = {key: value for key, value in found.items() if key != "children"}
    body = json.dumps(rest, indent=1, allow_nan=False)
    return f'{body[:-2]},\n "children": {json.dumps(found["children"])}\n}}\n'


def load(path: Path) -> Tree:
    """The tree in a file that `text` wrote.

    Raises:
        RevealError: the file does not exist or holds no tree.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Tree(found["n"], tuple(tuple(operands) for operands in found["children"]))
    except OSError as error:
        raise RevealError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise RevealError(f"{path} holds no tree: {error}") from None
