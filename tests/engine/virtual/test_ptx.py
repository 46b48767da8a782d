"""The PTX parser: declarations, operands, scopes, source lines, errors."""

import pytest

from exactness.virtual import ptx
from exactness.virtual.errors import PTXSyntaxError

TEXT = """
//
// Comment with a brace { and a semicolon ;
.version 8.7
.target sm_90a, texmode_independent
.address_size 64

.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .b8 text[3] = {104, 105, 0x21};
.const .align 8 .f32 values[2][2] = {1.5, 0f40000000, -2.0, 0};
.func (.param .b32 result) helper(.param .b32 x) { ret; }
.visible .entry first(
    .param .u64 .ptr .global .align 1 first_param_0,   // a comment
    .param .f32 first_param_1,
    .param .align 8 .b8 first_param_2[24]
)
.maxntid 256, 2
.minnctapersm 1
{
    .reg .pred %p<3>;
    .reg .b32 %r<10>, total;
    .reg .b64 %rd<4>;
    .shared .align 8 .b8 box[40];
    .loc 1 10 5 // kernel.py:10:5
    ld.param.b64 %rd1, [first_param_0 + 0];
    @!%p1 ld.global.L1::evict_first.v2.b32 {%r1, _}, [%rd1 + -8], %rd2; /* two
    lines */ mov.u32 %r2, %tid.x;
    .loc 2 7 3 // math.py:7:3 @[ kernel.py:12:9 ]
    setp.lt.and.s32 %p1|%p2, %r1, -0x10, !%p2;
    { .reg .b32 %r1; mov.b32 %r1, 0f3F800000; }
    .loc 2 9 1, function_name $L__info_string0, inlined_at 1 14 2
$done:
    add.f64 total, 1.25, 0d3FF0000000000000;
    bra.uni $done;
}
.entry second() .reqntid 32 { exit; }
.file 1 "/src/kernel.py"
.file 2 "/lib/math.py"
.section .debug_info { .b8 1 ; .b32 label }
"""


@pytest.fixture(scope="module")
def module() -> ptx.Module:
    return ptx.parse(TEXT)


@pytest.fixture
def entry(module) -> ptx.Entry:
    return module.entries["first"]


def test_module(module):
    assert (module.version, module.target, module.address_size) == ("8.7", "sm_90a", 64)
    assert list(module.entries) == ["first", "second"]
    assert module.entries["second"].reqntid == (32, 1, 1)
    assert module.files == {1: "/src/kernel.py", 2: "/lib/math.py"}


def test_variables(module, entry):
    text, values = module.constants
    assert (text.size, text.align, text.initial) == (3, 4, b"hi!")
    assert (values.size, values.space) == (16, "const")
    assert values.initial == bytes.fromhex("0000c03f 00000040 000000c0 00000000")
    assert [(v.name, v.size) for v in entry.shared] == [("dynamic", 0), ("box", 40)]


def test_parameters_and_limits(entry):
    sizes = [(p.type, p.size, p.align, p.is_pointer) for p in entry.params]
    assert sizes == [("u64", 8, 8, True), ("f32", 4, 4, False), ("b8", 24, 8, False)]
    assert entry.maxntid == (256, 2, 1)
    assert entry.reqntid is None


def test_instructions(entry):
    names = [ins.name for ins in entry.body]
    assert names == [
        "ld.param.b64",
        "ld.global.L1::evict_first.v2.b32",
        "mov.u32",
        "setp.lt.and.s32",
        "mov.b32",
        "add.f64",
        "bra.uni",
    ]
    load = entry.body[1]
    assert load.guard == ptx.Guard(ptx.Register("%p1"), negated=True)
    vector, address, policy = load.operands
    assert vector == ptx.Vector((ptx.Register("%r1"), ptx.Symbol("_")))
    assert address == ptx.Address(ptx.Register("%rd1"), -8)
    assert policy == ptx.Register("%rd2")
    assert entry.body[2].operands[1] == ptx.Special("%tid.x")
    pair, _, number, negated = entry.body[3].operands
    assert pair == ptx.Pair(ptx.Register("%p1"), ptx.Register("%p2"))
    assert number == ptx.Integer(-16)
    assert negated == ptx.NotRegister(ptx.Register("%p2"))
    assert entry.body[5].operands[1:] == (ptx.Decimal(1.25), ptx.Integer(0x3FF << 52, 64))
    assert entry.labels["$done"] == 5


def test_scopes_rename_their_registers(entry):
    target, value = entry.body[4].operands
    assert target == ptx.Register("%r1@2")
    assert value == ptx.Integer(0x3F800000, 32)
    assert entry.registers["%r1@2"] == "b32"
    assert entry.registers["total"] == "b32"


def test_source_lines_follow_inlining(entry):
    places = [str(ins.location) for ins in entry.body]
    assert places[0] == "/src/kernel.py:10"
    assert places[3] == "/src/kernel.py:12 (math.py:7)"
    assert places[5] == "/src/kernel.py:14 (math.py:9)"
    assert entry.body[3].location is not None
    assert entry.body[3].location.outermost.line == 12
    assert entry.body[2].text == "mov.u32 %r2, %tid.x;"
    assert TEXT.split("\n")[entry.body[2].line - 1].strip().endswith("%tid.x;")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".version 8.7\n.nonsense 3\n", "line 2: this directive is unknown"),
        (".entry k() { add.s32 %r1 }", "instruction cannot be read"),
        (".entry k() { mov.b32 %r1, 1;", "closing brace"),
        (".entry k() { .reg .b32 %r<3>; ld.global.b32 %r1, [%r2 * 4]; }", "address"),
        (".entry k() { .reg .b32 %r<3>; mov.b32 %r1, 0xZZ; }", "literal '0xZZ'"),
        ("hello", "a directive was expected"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(PTXSyntaxError, match=message):
        ptx.parse(text)
