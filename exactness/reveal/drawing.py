"""Trees as text, DOT and SVG."""

from __future__ import annotations

from exactness.reveal.parting import terms_text
from exactness.reveal.tree import Tree

_WIDTH, _HEIGHT = 4000.0, 3000.0
"""Pixels that a large picture is squeezed into."""


def text(tree: Tree, element: str = "a") -> str:
    """The tree as indented text; a chain of additions, one term each, is one line."""
    lines: list[str] = []
    waiting = [(tree.root, "", "")]
    while waiting:
        node, before, below = waiting.pop()
        label, inner = _line(tree, node, element)
        lines.append(before + label)
        for place, child in enumerate(reversed(inner)):
            corner, bar = ("└─", "  ") if place == 0 else ("├─", "│ ")
            waiting.append((child, below + corner, below + bar))
    return "\n".join(lines)


def _line(tree: Tree, node: int, element: str) -> tuple[str, list[int]]:
    """What a node's line says, and the nodes that are drawn below it."""
    operands = tree.operands(node)
    if len(operands) > 2:
        terms = [child for child in operands if child < tree.n]
        also = f": {terms_text(terms, element)}" if terms else ""
        inner = [child for child in operands if child >= tree.n]
        return f"fused + of {len(operands)}{also}", inner
    chain: list[int] = []
    while len(operands) == 2 and min(operands) < tree.n:
        term = max((child for child in operands if child < tree.n), key=tree.firsts.__getitem__)
        chain.append(term)
        node = operands[0] if operands[1] == term else operands[1]
        operands = tree.operands(node)
    if not chain:
        return (f"{element}{node}", []) if node < tree.n else ("+", list(operands))
    if node < tree.n:
        return f"+ {terms_text([node, *reversed(chain)], element)}", []
    return f"+ …, then {terms_text(reversed(chain), element)}", [node]


def dot(tree: Tree, name: str = "sum", element: str = "a") -> str:
    """The tree in Graphviz's language, terms at the bottom."""
    lines = [f'digraph "{_escaped(name)}" {{', "  rankdir=BT;", "  node [shape=circle];"]
    lines += [f'  {term} [label="{element}{term}" shape=box];' for term in range(tree.n)]
    for node, operands in enumerate(tree.children, tree.n):
        fused = f"+{len(operands)}" if len(operands) > 2 else "+"
        lines.append(f'  {node} [label="{fused}"];')
        lines += [f"  {child} -> {node};" for child in tree.operands(node)]
    return "\n".join([*lines, "}", ""])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def svg(tree: Tree, name: str = "sum", element: str = "a") -> str:
    """The tree as a self-contained SVG picture, the sum at the top."""
    x, y = _positions(tree)
    wide = min(30.0, _WIDTH / tree.n)
    high = min(34.0, _HEIGHT / (tree.depth + 1))
    at = [(20 + wide * (a + 0.5), 40 + high * b) for a, b in zip(x, y, strict=True)]
    lines = [
        f'<line x1="{at[child][0]:.1f}" y1="{at[child][1]:.1f}" '
        f'x2="{at[node][0]:.1f}" y2="{at[node][1]:.1f}"/>'
        for node, operands in enumerate(tree.children, tree.n)
        for child in operands
    ]
    radius = max(1.0, min(8.0, wide / 3, high / 3))
    shapes = [_shape(tree, node, at[node], radius) for node in range(tree.root + 1)]
    labels = [_label(at[term], f"{element}{term}") for term in range(tree.n) if wide >= 24]
    width, height = 40 + wide * tree.n, 70 + high * tree.depth
    title = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{title}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="20" y="20" font-family="sans-serif" font-size="13">{title}</text>',
            '<g stroke="#777" stroke-width="1">',
            *lines,
            "</g>",
            *shapes,
            '<g font-family="sans-serif" font-size="10" text-anchor="middle">',
            *labels,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _positions(tree: Tree) -> tuple[list[float], list[int]]:
    """Columns (terms side by side as the tree holds them) and rows (depth below the sum)."""
    depth = [0] * (tree.root + 1)
    for node in reversed(range(tree.n, tree.root + 1)):
        for child in tree.children[node - tree.n]:
            depth[child] = depth[node] + 1
    column = [0.0] * (tree.root + 1)
    waiting, placed = [tree.root], 0
    while waiting:
        node = waiting.pop()
        if node < tree.n:
            column[node] = float(placed)
            placed += 1
        waiting += reversed(tree.operands(node))
    for node, operands in enumerate(tree.children, tree.n):
        column[node] = sum(column[child] for child in operands) / len(operands)
    return column, depth


def _shape(tree: Tree, node: int, at: tuple[float, float], radius: float) -> str:
    if node < tree.n:
        colour = "#2b6cb0"
    else:
        colour = "#c05621" if len(tree.children[node - tree.n]) > 2 else "#222"
    return f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}" fill="{colour}"/>'


def _label(at: tuple[float, float], text: str) -> str:
    return f'<text x="{at[0]:.1f}" y="{at[1] + 18:.1f}">{text}</text>'
