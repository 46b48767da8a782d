"""The pictures: well-formed, inside their frame, and drawn from the figures."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from exactness.quality import charts
from exactness.quality.norm_error import Errors, NormError

SVG = "{http://www.w3.org/2000/svg}"


def norm(name, size):
    return NormError(name, 9, Errors(0.0, size, 2 * size, size), Errors(0.0, size / 4, size, size))


def drawn(text):
    root = ET.fromstring(text)
    for each in root.iter(f"{SVG}line"):
        for end, most in (("x1", charts.WIDTH), ("x2", charts.WIDTH), ("y1", charts.HEIGHT)):
            assert 0 <= float(each.get(end)) <= most
    for each in root.iter(f"{SVG}rect"):
        assert float(each.get("x", 0)) + float(each.get("width")) <= charts.WIDTH
        assert float(each.get("y", 0)) + float(each.get("height")) <= charts.HEIGHT
    return root


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_token_differences(size):
    values = np.random.default_rng(0).normal(size=size)
    root = drawn(charts.token_differences(values, "a <variant> & more"))
    assert root.find(f"{SVG}title").text.startswith("a <variant> & more")
    blue = [each for each in root.iter(f"{SVG}line") if each.get("stroke") == charts.COLOURS[0]]
    assert len(blue) == min(size, 612)


def test_without_differences():
    drawn(charts.token_differences(np.zeros(100), "v"))
    drawn(charts.divergences({"v": np.zeros(100), "w": np.zeros(100)}))
    drawn(charts.norm_errors([norm("a", 0.0)], "v"))


def test_the_histogram_counts_every_token():
    values = np.r_[np.full(30, 1.5e-5), np.full(10, 1.5e-3), -1e-18]
    root = drawn(charts.divergences({"v": values}))
    bars = [r for r in root.iter(f"{SVG}rect") if r.get("fill-opacity") == "0.55"]
    tall = sorted(float(bar.get("height")) for bar in bars if float(bar.get("height")) > 0)
    assert tall[2] / tall[1] == pytest.approx(3.0, rel=0.01)
    assert tall[1] / tall[0] == pytest.approx(10.0, rel=0.05)


def test_bars_of_norms_have_the_ratio_of_the_errors():
    root = drawn(charts.norm_errors([norm("model.layers.0.q_norm", 0.01)], "f32_acc"))
    bars = [r for r in root.iter(f"{SVG}rect") if r.get("fill-opacity") == "0.9"]
    default, variant = (float(bar.get("height")) for bar in bars)
    assert default / variant == pytest.approx(4.0, rel=0.01)
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert "layers.0.q_norm" in texts
    assert "f32_acc" in texts


@pytest.mark.parametrize(
    ("least", "step"),
    [(0.0, 1.0), (1.0, 1.0), (1.01, 2.0), (0.021, 0.025), (0.3, 0.5), (0.0051, 0.01), (999, 1000)],
)
def test_steps_are_round(least, step):
    assert charts.step_of(least) == pytest.approx(step)
