"""Pictures of a run as SVG, drawn by hand: no library, no style sheet of the page needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import numpy as np

from exactness.quality.norm_error import NormError

WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 30, 46, 46
COLOURS = ("#1f5fa8", "#c2571a", "#4a7d3a")


@dataclass
class Frame:
    """Axes and what is drawn between them.

    Attributes:
        title: above the picture.
        x: smallest and largest value of the horizontal axis.
        y: likewise of the vertical axis.
        parts: elements so far.
    """

    title: str
    x: tuple[float, float]
    y: tuple[float, float]
    parts: list[str] = field(default_factory=list)

    def across(self, value: float) -> float:
        """Pixels from the left."""
        low, high = self.x
        return _LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def down(self, value: float) -> float:
        """Pixels from the top."""
        low, high = self.y
        return HEIGHT - _BOTTOM - (value - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> None:
        """A line between two points in pixels."""
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def bar(self, left: float, right: float, value: float, colour: str, opacity: float) -> None:
        """A bar from 0 (or the lower edge) to `value`; `left` and `right` in pixels."""
        zero = self.down(max(self.y[0], 0.0))
        top = self.down(value)
        upper, tall = min(top, zero), abs(zero - top)
        self.parts.append(
            f'<rect x="{left:.1f}" y="{upper:.1f}" width="{right - left:.1f}" '
            f'height="{tall:.1f}" fill="{colour}" fill-opacity="{opacity:g}"/>'
        )

    def text(self, x: float, y: float, text: str, anchor: str = "middle", size: int = 11) -> None:
        """A line of text at a point in pixels."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
            f"{escape(text)}</text>"
        )

    def horizontal_ticks(self, ticks: Iterable[tuple[float, str]], label: str) -> None:
        """Marks below the picture."""
        bottom = HEIGHT - _BOTTOM
        self.line(_LEFT, bottom, WIDTH - _RIGHT, bottom, "#444", 1)
        for value, text in ticks:
            self.line(self.across(value), bottom, self.across(value), bottom + 4, "#444", 1)
            self.text(self.across(value), bottom + 16, text)
        self.text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, label)

    def vertical_ticks(self, label: str, count: int = 5) -> None:
        """Marks at the left."""
        for value in np.linspace(*self.y, count):
            height = self.down(float(value))
            self.line(_LEFT, height, WIDTH - _RIGHT, height, "#ddd", 1)
            self.text(_LEFT - 6, height + 4, f"{value:,.6g}", "end")
        self.text(8, _TOP - 12, label, "start")

    def legend(self, entries: Sequence[str]) -> None:
        """Which colour is what, above the picture."""
        for i, entry in enumerate(entries):
            left = WIDTH - _RIGHT - 160 * (len(entries) - i)
            self.parts.append(
                f'<rect x="{left}" y="{_TOP - 20}" width="10" height="10" fill="{COLOURS[i]}"/>'
            )
            self.text(left + 15, _TOP - 11, entry, "start")

    def svg(self) -> str:
        """The file."""
        self.text(WIDTH / 2, 16, self.title, size=13)
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'font-family="sans-serif" fill="#222"><title>{escape(self.title)}</title>\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
        )


def step_of(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below `least`; 1 for 0."""
    if least <= 0.0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(power * f for f in (1, 2, 2.5, 5, 10) if power * f >= least * (1 - 1e-9)))


def token_differences(difference: np.ndarray, opt_in: str) -> str:
    """Loss of the variant less that of the default along the text.

    Args:
        difference: f64 [tokens], nats.
        opt_in: what the variant is called.
    """
    columns = np.array_split(difference, min(difference.size, WIDTH - _LEFT - _RIGHT))
    reach = 2 * step_of(float(np.abs(difference).max()) / 2)
    frame = Frame(
        f"{opt_in}: loss of each token less that of the default",
        (0.0, float(difference.size)),
        (-reach, reach),
    )
    frame.vertical_ticks("nats")
    place = 0.0
    for column in columns:
        x = frame.across(place + column.size / 2)
        frame.line(
            x, frame.down(float(column.min())), x, frame.down(float(column.max())), COLOURS[0], 1
        )
        place += column.size
    mean = frame.down(float(difference.mean()))
    frame.line(_LEFT, mean, WIDTH - _RIGHT, mean, COLOURS[1], 1)
    ticks = [(n, f"{n:,.0f}") for n in np.linspace(0, difference.size, 5)]
    frame.horizontal_ticks(ticks, "token; smallest to largest of neighbours, orange: mean of all")
    return frame.svg()


def divergences(values: Mapping[str, np.ndarray]) -> str:
    """Histogram of the divergence from the default, by leg.

    Args:
        values: what the leg is called to f64 [tokens], nats.
    """
    tiny = 1e-12
    logs = {key: np.log10(np.maximum(each, tiny)) for key, each in values.items()}
    low = np.floor(min(float(each.min()) for each in logs.values()))
    high = max(np.ceil(max(float(each.max()) for each in logs.values())), low + 1)
    edges = np.linspace(low, high, 8 * int(high - low) + 1)
    counts = {key: np.histogram(each, edges)[0] for key, each in logs.items()}
    most = max(int(each.max()) for each in counts.values())
    frame = Frame("KL divergence from the default", (low, high), (0.0, 4 * step_of(most / 4)))
    frame.vertical_ticks("tokens")
    for colour, each in zip(COLOURS, counts.values(), strict=False):
        for i, count in enumerate(each):
            left, right = frame.across(edges[i]), frame.across(edges[i + 1])
            frame.bar(left, right, float(count), colour, 0.55)
    powers = np.arange(low, high + 1, max(1, (high - low) // 8))
    ticks = [(p, f"≤1e{p:.0f}" if p == -12 else f"1e{p:.0f}") for p in powers]
    frame.horizontal_ticks(ticks, "nats")
    frame.legend(list(counts))
    return frame.svg()


def norm_errors(norms: Sequence[NormError], opt_in: str) -> str:
    """Error of the accumulator in each norm; the root mean square as a bar, the largest as a line.

    Args:
        norms: their errors.
        opt_in: what the variant is called.
    """
    pairs = [
        ((n.default.gain_size, n.default.gain_max), (n.variant.gain_size, n.variant.gain_max))
        for n in norms
    ]
    most = 100 * max((largest for pair in pairs for _, largest in pair), default=0.0)
    frame = Frame(
        "Factor by which a norm is off, against exact arithmetic",
        (0.0, float(max(len(norms), 1))),
        (0.0, 4 * step_of(most / 4)),
    )
    frame.vertical_ticks("%")
    for i, pair in enumerate(pairs):
        for j, (usual, largest) in enumerate(pair):
            left, right = frame.across(i + 0.15 + 0.35 * j), frame.across(i + 0.5 + 0.35 * j)
            frame.bar(left, right, 100 * usual, COLOURS[j], 0.9)
            height = frame.down(100 * largest)
            frame.line(left, height, right, height, COLOURS[j], 2)
    names = [norm.name.removeprefix("model.") for norm in norms]
    room = (WIDTH - _LEFT - _RIGHT) // (7 * max(map(len, names), default=1))
    step = -(-len(names) // max(room, 1)) or 1
    ticks = [(i + 0.5, names[i]) for i in range(0, len(names), step)]
    frame.horizontal_ticks(ticks, "norm; bar: root mean square over rows, line: largest")
    frame.legend(["default", opt_in])
    return frame.svg()
