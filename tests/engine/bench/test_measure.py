"""A kernel that is fast because it is wrong is found out, whenever it goes wrong."""

from dataclasses import replace

import pytest
import torch

from exactness.bench.bitcheck import BitCheck, same_patterns
from exactness.bench.buffers import draw_sets
from exactness.bench.measure import Effort, Subject, measure

EFFORT = Effort(warmup=2, repeat=3, issued=5, issues=2)


@pytest.fixture
def sets(catalogue, case):
    program = catalogue.reference(case.entry.claim.reference)
    return draw_sets(case, program, 3, "cpu", 0)


@pytest.fixture
def measured(gpu, case, sets):
    """Measure a kernel in place of the claim's."""

    def of(run):
        return measure(gpu, Subject("kernel", case.entry.claim, run), sets, EFFORT)

    return of


def test_the_right_kernel(gpu, case, sets):
    found = measure(gpu, Subject.kernel(case.entry.claim), sets, EFFORT)
    assert found.bits.right
    assert found.bits.elements > 0
    assert found.event.samples == (10.0,) * 3
    assert found.graph.samples == found.warm.samples == (2.0,) * 3
    assert found.host.median == pytest.approx(20.0)
    assert gpu.flushes == EFFORT.repeat + 1
    assert found.best_known is found.graph


def right(x, factor, index, times):
    x.mul_(factor)
    return x.reshape(-1)[index].float() * times, index + 1


def test_wrong_from_a_certain_call_on(measured):
    """Whatever the number of the call, some comparison comes after it."""
    total = []
    assert measured(lambda **given: total.append(0) or right(**given)).bits.right
    for last in range(len(total)):
        calls = []

        def wrong_later(calls=calls, last=last, **given):
            calls.append(0)
            chosen, following = right(**given)
            return (chosen + 1 if len(calls) > last else chosen), following

        assert not measured(wrong_later).bits.right, last


def test_wrong_at_first_only(measured):
    calls = []

    def wrong_first(**given):
        calls.append(0)
        chosen, following = right(**given)
        return (chosen + 1 if len(calls) == 1 else chosen), following

    found = measured(wrong_first).bits
    assert [text.split(":")[0] for text in found.found] == ["before timing"]
    assert found.differing == 8


def test_an_answer_from_memory(measured):
    """Keyed by shape: right for the first arguments alone."""
    memory = {}

    def remembered(x, factor, index, times):
        x.mul_(factor)
        key = (x.shape, times)
        memory.setdefault(key, (x.reshape(-1)[index].float() * times, index + 1))
        return tuple(each.clone() for each in memory[key])

    assert any("call 1" in text for text in measured(remembered).bits.found)


def test_an_element_that_is_not_written(measured):
    """The first call with this memory left the right value there."""
    pool = {}

    def lazy(index, **given):
        first = 1 if index.data_ptr() in pool else 0
        chosen, following = right(index=index, **given)
        out = pool.setdefault(index.data_ptr(), torch.empty(index.shape))
        out[first:] = chosen[first:]
        return out, following

    found = measured(lazy).bits.found
    assert found
    assert "NaN against a number" in found[0]


def test_an_argument_that_is_not_mutated(measured):
    def forgetful(x, factor, index, times):
        return right(x.clone(), factor, index, times)

    assert any("x_out" in text for text in measured(forgetful).bits.found)


def test_another_dtype(measured):
    def wide(**given):
        chosen, following = right(**given)
        return chosen.double(), following

    found = measured(wide).bits
    assert "format f64, expected f32" in found.found[0]
    assert found.differing > 0


def test_a_call_that_cannot_be_captured(gpu, measured):
    gpu.uncapturable = "it waits"
    found = measured(right)
    assert (found.graph, found.warm, found.no_graph) == (None, None, "it waits")
    assert found.best_known is found.event
    assert found.bits.right
    assert found.to_dict()["graph"] is None


def test_variants_are_off_whatever_the_environment_says(case):
    seen = []
    claim = replace(case.entry.claim, kernel=lambda **given: seen.append(given))
    Subject.kernel(claim).call({"x": 1})()
    assert seen == [{"x": 1}]


def test_nothing_compared_is_not_right():
    assert not BitCheck().right
    empty = BitCheck()
    empty.add("now", {"out": torch.empty(0)}, {"out": torch.empty(0)})
    assert not empty.right


def test_patterns_decide():
    nan = torch.tensor([0x7FC0, 0x7FC1], dtype=torch.int16).view(torch.bfloat16)
    assert same_patterns(nan, nan.clone())
    assert not same_patterns(nan, nan.flip(0))
    assert not same_patterns(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_patterns(torch.tensor([True]), torch.tensor([True]))
    payloads = BitCheck()
    payloads.add("now", {"out": nan}, {"out": nan.flip(0)})
    assert payloads.right, "a NaN is a NaN"
    signs = BitCheck()
    signs.add("now", {"out": torch.tensor([0.0])}, {"out": torch.tensor([-0.0])})
    assert (signs.right, signs.differing) == (False, 1)
