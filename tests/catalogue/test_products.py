"""References made of tensor-core products against their recordings, and how much these show."""

import re
from pathlib import Path

import numpy as np
import pytest

from exactness.arithmetic import Hopper, cast, dot
from exactness.arithmetic.mutants import Mutated, survey
from exactness.bits import from_payload
from exactness.formats import bf16, f32, tf32
from exactness.golden import GoldenStore
from exactness.project import Project
from exactness.rounding import round_to

REFERENCES = {
    "router": "router_linear:router_linear",
    "linear_gate": "attention_gate_projection:attention_gate_projection",
    "linear_gate_up": "linear:linear",
    "linear_down": "linear:linear",
    "attention_sink": "attention_sink:attention_sink",
    "attention_sink_f32out": "attention_sink:attention_sink_f32",
}


@pytest.fixture(scope="module")
def recorded():
    """The arguments of every case under a prefix, and what it recorded."""

    store = GoldenStore.of_folder(Project.find(Path(__file__)).golden)

    def cases(prefix):
        for case in store.cases((prefix,)):
            arguments = case.load()
            out = arguments.pop("out")
            window = re.search(r"_w(\d+)", case.name)
            if window:
                arguments["window"] = int(window[1])
            yield case.name, arguments, out

    return cases


def patterns(value):
    payload = np.asarray(round_to(value.payload, value.format), np.float32)
    return from_payload(payload, value.format).patterns


@pytest.mark.parametrize("prefix", REFERENCES)
def test_references_replay_their_recordings(catalogue, recorded, prefix):
    program = catalogue.reference(REFERENCES[prefix])
    names = []
    for name, arguments, out in recorded(prefix):
        result = Hopper().run(program, arguments)
        assert result.format is out.format
        assert np.array_equal(patterns(result), out.patterns), name
        names.append(name)
    assert names


def test_single_products_replay(recorded):
    for name, arguments, out in recorded("tensor_core"):
        fmt = {"bf16": bf16, "tf32": tf32}[name.partition("_")[0]]

        def product(a, b, fmt=fmt):
            return dot(cast(a, fmt), cast(b, fmt).swapaxes(0, 1))

        assert np.array_equal(patterns(Hopper().run(product, arguments)), out.patterns), name


@pytest.mark.parametrize("prefix", ["router", "attention_sink_f32out"])
def test_every_wrong_product_shows_in_f32(catalogue, recorded, prefix):
    program = catalogue.reference(REFERENCES[prefix])
    cases = list(recorded(prefix))
    found = survey(program, [arguments for _, arguments, _ in cases]).mutants()
    wrong = [mutant for mutant in found if mutant.site.operation == "dot"]
    assert len(wrong) >= 9
    for mutant in wrong:
        results = ((Mutated(mutant).run(program, given), out) for _, given, out in cases)
        assert any((patterns(r) != out.patterns).any() for r, out in results), mutant.name


def programs_of_the_gate(catalogue):
    """What cuBLAS runs, by the number of rows."""
    return catalogue.reference(REFERENCES["linear_gate"]).__globals__["PROGRAMS"]


def different_rows(program, arguments, out):
    return int((patterns(Hopper().run(program, arguments)) != out.patterns).sum())


def test_every_split_of_the_gate_replays_and_no_other_does(catalogue, recorded):
    """Rows whose sums cancel show the width of a part, its rounding and the single row's order."""
    programs = programs_of_the_gate(catalogue)
    kinds = {repr(program): program for program in programs.values()}
    kinds["plain"] = catalogue.reference("linear:linear")
    seen = set()
    for name, arguments, out in recorded("linear_gate_rows"):
        right = programs[int(name[1:])]
        assert different_rows(right, arguments, out) == 0, name
        seen.add(repr(right))
        for kind, program in kinds.items():
            if kind != repr(right) and program is not programs[1]:
                assert different_rows(program, arguments, out) > 0, (name, kind)
    assert seen == set(kinds) - {"plain"}


def test_parts_are_added_in_ascending_order(catalogue, recorded):
    for name, arguments, out in recorded("linear_gate_rows"):
        program = programs_of_the_gate(catalogue)[int(name[1:])]
        found = survey(program, [arguments]).mutants()
        wrong = {m.mutation.name: m for m in found if m.site.operation == "sum"}
        for order in {"order=reverse", "order=halving", "order=pairwise"} & set(wrong):
            result = Mutated(wrong[order]).run(program, arguments)
            assert (patterns(result) != out.patterns).any(), (name, order)


def test_other_shapes_of_the_gate_are_refused(catalogue):
    program = catalogue.reference(REFERENCES["linear_gate"])
    x, weight = np.zeros((40, 2048), np.float32), np.zeros((6, 2048), np.float32)
    with pytest.raises(
        ValueError, match=r"x: 40 rows are not accepted; recorded were \[1, 2, 3, 4, 5"
    ):
        Hopper().run(program, {"x": x, "weight": weight})
    with pytest.raises(ValueError, match=r"weight: shape \(8, 2048\) is not accepted"):
        Hopper().run(program, {"x": x[:1], "weight": np.zeros((8, 2048), np.float32)})


def test_attention_without_tokens_and_with_one(catalogue):
    program = catalogue.reference(REFERENCES["attention_sink"])
    for tokens in (0, 1):
        arguments = {
            "q": np.ones((tokens, 2, 32), np.float16),
            "k": np.ones((tokens, 1, 32), np.float16),
            "v": np.full((tokens, 1, 32), 2.0, np.float16),
            "sinks": np.full(2, -np.inf, np.float16),
            "window": 4,
        }
        result = Hopper().run(program, arguments)
        assert result.shape == (tokens, 2, 32)
        assert np.all(result.payload == 2.0)
        assert result.format is not f32
