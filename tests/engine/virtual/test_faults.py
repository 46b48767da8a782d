"""Faults of PTX: where they can be made, what they are called, what the text then says."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from exactness.virtual import ptx
from exactness.virtual.faults import Fault, Kind, faults, place_names

SOURCE = """def kernel(x, n):
    mask = x < n
    y = x * 2
    return y
"""

HEAD = """.version 8.4
.target sm_90a
.address_size 64
.file 1 "FOLDER" "source.py"
.visible .entry k(.param .u64 pa)
{
.reg .b32 %r<20>; .reg .b16 %h<9>; .reg .pred %p<5>;
"""


@pytest.fixture
def text_of(tmp_path):
    """PTX with statements and `.loc` lines, whose source compares on line 2 alone."""
    Path(tmp_path / "source.py").write_text(SOURCE)

    def make(*statements):
        return HEAD.replace("FOLDER", str(tmp_path)) + "\n".join(statements) + "\nret;\n}\n"

    return make


def names(text):
    return [fault.name for fault in faults(text, "k")]


def test_each_kind_is_found_and_named(text_of):
    text = text_of(
        ".loc 1 2 11",
        "setp.lt.s32 %p1, %r1, %r2;",
        ".loc 1 3 8",
        "fma.rn.f32 %r3, %r1, 0f3FC00000, %r2;",
        "add.rn.f32 %r4, %r3, %r1;",
        "cvt.rn.bf16.f32 %h1, %r4;",
        "st.global.b32 [%r3], %r3;",
    )
    assert names(text) == [
        "comparison off by one at source.py:2:11",
        "rounded toward zero at source.py:3:8",
        "constant off by one ulp 0x3fc00000 at source.py:3:8",
        "truncating cast at source.py:3:8",
    ]


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (Kind.TRUNCATING_CAST, "cvt.rn.bf16.f32 %h1, %r1;", "cvt.rz.bf16.f32 %h1, %r1;"),
        (Kind.TRUNCATING_CAST, "cvt.rn.f16x2.f32 %r3, %r1, %r2;",
         "cvt.rz.f16x2.f32 %r3, %r1, %r2;"),
        (Kind.ROUNDED_TOWARD_ZERO, "mul.rn.f32 %r3, %r1, %r2;", "mul.rz.f32 %r3, %r1, %r2;"),
        (Kind.ROUNDED_TOWARD_ZERO, "fma.rn.sat.f32 %r3, %r1, %r2, %r1;",
         "fma.rz.sat.f32 %r3, %r1, %r2, %r1;"),
        (Kind.PERTURBED_CONSTANT, "add.rz.f32 %r3, %r1, 0f3F800000;",
         "add.rz.f32 %r3, %r1, 0f3F800001;"),
        (Kind.PERTURBED_CONSTANT, "add.rz.f32 %r3, %r1, 0fBF800000;",
         "add.rz.f32 %r3, %r1, 0fBF800001;"),
        (Kind.PERTURBED_CONSTANT, "add.rz.f32 %r3, %r1, 0f7F7FFFFF;",
         "add.rz.f32 %r3, %r1, 0f7F7FFFFE;"),
    ],
)  # fmt: skip
def test_text_of_the_fault(text_of, kind, before, after):
    text = text_of(".loc 1 3 8", before)
    (fault,) = [each for each in faults(text, "k") if each.kind is kind]
    assert fault(text, "k") == text.replace(before, after)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_bounds_shift_both_ways(text_of, name):
    shifted = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}[name]
    text = text_of(".loc 1 2 11", f"setp.{name}.u64 %p1, %r1, %r2;")
    (fault,) = faults(text, "k")
    assert f"setp.{shifted}.u64" in fault(text, "k")


def test_bounds_that_the_source_does_not_compare_are_the_compilers(text_of):
    assert names(text_of(".loc 1 3 8", "setp.lt.s32 %p1, %r1, %r2;")) == []
    assert names(text_of(".loc 1 2 11", "setp.eq.s32 %p1, %r1, %r2;")) == []
    assert names(text_of(".loc 1 2 11", "setp.lt.f32 %p1, %r1, %r2;")) == []


@pytest.mark.parametrize("literal", ["0f00000000", "0f80000000", "0f7F800000", "0f7FC00000", "7"])
def test_zeros_infinities_and_integers_are_not_perturbed(text_of, literal):
    assert names(text_of(".loc 1 3 8", f"mov.b32 %r1, {literal};")) == []


def test_constant_in_a_register_belongs_to_its_reader(text_of):
    """LLVM moves constants of inline assembly into registers as integers."""
    text = text_of(
        ".loc 1 2 4",
        "mov.b32 %r1, 1065353216;",
        ".loc 1 3 8",
        "fma.rz.f32 %r3, %r2, %r1, %r2;",
    )
    (fault,) = faults(text, "k")
    assert fault.name == "constant off by one ulp 0x3f800000 at source.py:3:8"
    assert "mov.b32 %r1, 0f3F800001;" in fault(text, "k")


def test_integer_in_a_register_is_no_constant(text_of):
    assert names(text_of("mov.b32 %r1, 1065353216;", "add.s32 %r3, %r2, %r1;")) == []


def test_result_that_is_narrowed_at_once_keeps_its_rounding(text_of):
    narrowed = ("add.rn.f32 %r3, %r1, %r2;", "cvt.rn.bf16.f32 %h1, %r3;")
    kinds = [fault.kind for fault in faults(text_of(*narrowed), "k")]
    assert kinds == [Kind.TRUNCATING_CAST]
    kinds = [fault.kind for fault in faults(text_of(*narrowed, "mov.b32 %r4, %r3;"), "k")]
    assert kinds == [Kind.ROUNDED_TOWARD_ZERO, Kind.TRUNCATING_CAST]


def test_copies_of_one_place_are_one_fault(text_of):
    text = text_of(".loc 1 3 8", "mul.rn.f32 %r3, %r1, %r2;", "mul.rn.f32 %r4, %r2, %r2;")
    (fault,) = faults(text, "k")
    assert fault(text, "k").count("mul.rz.f32") == 2


def test_columns_tell_operations_of_a_line_apart(text_of):
    text = text_of(
        ".loc 1 3 8", "mul.rn.f32 %r3, %r1, %r2;", ".loc 1 3 12", "mul.rn.f32 %r4, %r2, %r2;"
    )
    first, second = faults(text, "k")
    assert first(text, "k").count("mul.rz.f32") == 1
    assert first(text, "k") != second(text, "k")


@pytest.mark.parametrize("is_gone", [True, False])
def test_the_source_is_the_loaded_one(tmp_path, monkeypatch, is_gone):
    """Triton's cache names the file of another checkout."""
    old, new = (tmp_path / folder / "kernels" / "source.py" for folder in ("old", "new"))
    for file, text in ((old, "\n\n" + SOURCE), (new, SOURCE)):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    if is_gone:
        old.unlink()
    monkeypatch.setitem(sys.modules, "loaded", SimpleNamespace(__file__=str(new)))
    head = HEAD.replace("FOLDER", str(old.parent))
    text = f"{head}.loc 1 2 11\nsetp.lt.s32 %p1, %r1, %r2;\nret;\n}}\n"
    assert names(text) == ["comparison off by one at source.py:2:11"]


def test_places_without_a_line_are_counted(text_of):
    text = text_of(
        ".loc 1 3 8", "mul.rz.f32 %r3, %r1, %r2;",
        ".loc 1 0 8", "add.rn.f32 %r4, %r2, %r2;", "add.rn.f32 %r5, %r2, %r2;",
    )  # fmt: skip
    entry = ptx.parse(text).entries["k"]
    named = list(place_names(entry).values())
    assert named[1:3] == ["add.rn.f32 1 after source.py:3:8", "add.rn.f32 2 after source.py:3:8"]


def test_calls_are_part_of_the_place(text_of):
    text = text_of(".loc 1 2 4 // source.py:2:4 @[ source.py:3:8 ]", "mul.rn.f32 %r3, %r1, %r2;")
    assert names(text) == ["rounded toward zero at source.py:3:8 (source.py:2:4)"]


def test_other_kernels_are_left_alone(text_of):
    text = text_of("mul.rn.f32 %r3, %r1, %r2;")
    (fault,) = faults(text, "k")
    assert fault(text, "other") is text
    assert Fault(fault.kind, "k", "elsewhere")(text, "k") is text
