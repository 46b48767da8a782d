"""The benchmark cases of the catalogue: their work, their kernels, and what they run against."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from exactness import virtual
from exactness.arithmetic.hopper import Hopper
from exactness.bench.against import CHAIN
from exactness.bench.bitcheck import BitCheck
from exactness.bench.buffers import draw_sets
from exactness.bench.cases import Case, Cases, Selection
from exactness.bench.measure import Subject

# Latency in ms and GB/s as the WeLMv4 benchmark's table has them, for 512 tokens.
PUBLISHED = {
    "rms_norm": (0.0235, 179.0),
    "k_rms_norm": (0.0352, 14.9),
    "rope_yarn_partial": (0.0371, 28.3),
    "attention_gate_sigmoid_mul": (0.0178, 177.5),
    "o_norm": (0.0244, 172.1),
    "expert_bias_topk": (0.0494, 22.5),
    "silu_and_mul": (0.0358, 11.0),
    "oe_lookup_concat": (0.0290, 90.7),
}

# Chains whose launches are those of the baseline; the others' baseline is one launch.
LAUNCHES = {"qnorm": 7, "swiglu_clamp": 8, "sinkhorn": 123, "silu_and_mul": 2}

# What has the same bits whatever computes it.
EXACT = ("oe_hash", "oe_lookup_concat", "oe_hash_lookup_concat")


@pytest.fixture(scope="module")
def cases(catalogue):
    return Cases.of(catalogue)


@pytest.fixture
def small(cases):
    """A case with few tokens, and tables that fit."""

    def named(name):
        (case,) = cases.select(Selection(names=(name,), tokens=(2,), large=True))
        assert isinstance(case, Case)
        if case.bench.large:
            sizes = {k: 50 if k.startswith("rows") else v for k, v in case.bench.sizes.items()}
            case = replace(case, bench=replace(case.bench, sizes=sizes))
        return case

    return named


@pytest.mark.parametrize("name", PUBLISHED)
def test_bytes_are_the_published_ones(cases, name):
    """Within the digits of the table, but for ids of 8 bytes in place of 4."""
    (case,) = cases.select(Selection(names=(name,), large=True))
    assert case.tokens == 512
    milliseconds, rate = PUBLISHED[name]
    moved = case.amount.bytes - (512 * 4 * 4 if name == "oe_lookup_concat" else 0)
    smallest = (milliseconds - 0.00005) * (rate - 0.05) * 1e6
    largest = (milliseconds + 0.00005) * (rate + 0.05) * 1e6
    assert smallest <= moved <= largest


def test_every_name_of_the_published_benchmark_is_known(cases):
    assert len(cases.names) >= 17
    assert cases.names[:4] == (
        "rms_norm",
        "k_rms_norm",
        "rope_yarn_partial",
        "attention_gate_projection",
    )
    assert set(PUBLISHED) <= set(cases.benches)
    assert not set(cases.planned) & set(cases.benches)


def names(catalogue):
    return [bench.name for entry in catalogue.entries for bench in entry.claim.bench]


def test_kernels_have_the_references_bits(catalogue, small):
    for name in names(catalogue):
        case = small(name)
        claim = case.entry.claim
        (given,) = draw_sets(case, catalogue.reference(claim.reference), 1, "cpu", 0)
        kernel = Subject.kernel(claim)
        with virtual.hopper():
            result = kernel.call(given.arguments)()
        bits = BitCheck()
        bits.add(name, kernel.outputs(result, given.arguments), given.expected)
        assert bits.right, bits.found


def test_comparators_take_the_arguments_and_give_the_outputs(catalogue, small):
    for name in names(catalogue):
        case = small(name)
        claim = case.entry.claim
        for comparator, address in case.bench.against.items():
            if comparator == "liger":
                continue
            (given,) = draw_sets(case, catalogue.reference(claim.reference), 1, "cpu", 0)
            subject = Subject(comparator, claim, catalogue.reference(address))
            result = subject.call(given.arguments)()
            outputs = subject.outputs(result, given.arguments)
            for output, expected in given.expected.items():
                assert outputs[output].dtype is expected.dtype, (name, comparator, output)
                assert outputs[output].shape == expected.shape, (name, comparator, output)
            for mutated, kept in given.kept.items():
                assert not torch.equal(given.arguments[mutated], kept), (name, comparator)
            if name in EXACT:
                bits = BitCheck()
                bits.add(name, outputs, given.expected)
                assert bits.right, bits.found


class Launches(TorchDispatchMode):
    """Counts operations that would launch a kernel."""

    FREE = ("lift_fresh", "detach", "split", "slice", "view", "alias", "unsqueeze", "expand")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if not name.startswith(self.FREE):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", LAUNCHES)
def test_chains_have_the_baselines_launches(catalogue, small, name):
    case = small(name)
    program = catalogue.reference(case.entry.claim.reference)
    (given,) = draw_sets(case, program, 1, "cpu", 0)
    arithmetic = Hopper()
    arithmetic.run(program, given.arguments)
    assert len(arithmetic.launches) == LAUNCHES[name]
    chain = catalogue.reference(case.bench.against[CHAIN])
    with Launches() as counted:
        chain(**given.arguments)
    assert len(counted.names) == LAUNCHES[name], counted.names
