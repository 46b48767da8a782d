"""sinkhorn: bad input, layouts, sizes and special rows."""

import importlib

import pytest
import torch

INF, NAN = float("inf"), float("nan")


def matrices(n, h):
    generator = torch.Generator().manual_seed(17 * n + h)
    return 3 * torch.randn(n, h, h, generator=generator)


@pytest.mark.parametrize("h", range(1, 17))
def test_every_size(equals_reference, h):
    equals_reference("sinkhorn", x=matrices(3, h), iterations=3, eps=1e-6)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 2048, 2049])
def test_tiles_of_matrices(equals_reference, n):
    equals_reference("sinkhorn", x=matrices(n, 3), iterations=1, eps=1e-6)


@pytest.fixture(scope="module")
def module(catalogue):
    (entry,) = catalogue.select(("sinkhorn",))
    return importlib.import_module(entry.claim.kernel.__module__)


@pytest.mark.parametrize("h", [1, 2, 3, 4])
def test_many_matrices_have_tiles_of_their_own(equals_reference, module, h):
    """Up to `_FEW` in small tiles, beyond in large ones; the last tile full, short and alone."""
    few = module._FEW
    of_tile = module._TILE // (1 << (h - 1).bit_length()) ** 2
    full = (few // of_tile + 2) * of_tile
    for n in (few, few + 1, full - 1, full, full + 1):
        equals_reference("sinkhorn", x=matrices(n, h), iterations=2, eps=1e-6)


def test_a_hundred_thousand_matrices(equals_reference):
    x = matrices(100_000, 2)
    equals_reference("sinkhorn", x=x, iterations=2, eps=1e-3)
    equals_reference("sinkhorn", x=x.transpose(1, 2), iterations=2, eps=1e-3)


def test_fifty_iterations(equals_reference):
    out = equals_reference("sinkhorn", x=matrices(5, 4), iterations=50, eps=0.0)
    assert not torch.equal(
        out, equals_reference("sinkhorn", x=matrices(5, 4), iterations=49, eps=0.0)
    )


@pytest.mark.parametrize(
    "row",
    [
        [-INF, -INF, -INF],
        [-INF, NAN, 1.0],
        [INF, 0.0, 1.0],
        [INF, INF, 0.0],
        [-6e4, -7e4, -8e4],
        [3e38, -3e38, 0.0],
        [1e-45, -1e-45, 0.0],
        [0.0, -0.0, -INF],
        [-95.0, 0.0, -103.9],
        [NAN, NAN, NAN],
    ],
    ids=str,
)
@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-45, 1e30])
def test_special_rows_in_a_padded_matrix(equals_reference, row, eps):
    x = matrices(2, 3)
    x[1, 1] = torch.tensor(row)
    out = equals_reference("sinkhorn", x=x, iterations=3, eps=eps)
    assert out[0].isfinite().all()
    # One policy: a row without a finite maximum is NaN, and its columns make the matrix NaN.
    undefined = any(value in (INF, NAN) or value != value for value in row) or max(row) == -INF
    assert bool(out[1].isnan().all()) == undefined


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(1, 2),
        lambda x: x.transpose(0, 2),
        lambda x: x[::2],
        lambda x: x[:, ::2, 1::2],
        lambda x: x[:1].expand(5, 4, 4),
        lambda x: x.reshape(-1)[1:17].reshape(1, 4, 4),
        lambda x: x[:1].as_strided((1, 4, 4), (2**31, 4, 1)),
        lambda x: x[:0],
    ],
    ids=[
        "transposed",
        "permuted",
        "every_second",
        "strided",
        "expanded",
        "offset",
        "huge_stride_of_size_1",
        "empty",
    ],
)
def test_layouts(equals_reference, view):
    out = equals_reference("sinkhorn", x=view(matrices(4, 4)), iterations=2, eps=1e-6)
    assert out.is_contiguous()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"x": torch.ones(2, 3, 3).bfloat16()},
            TypeError,
            r"x: dtype torch.bfloat16 .* torch.float32 is",
        ),
        ({"x": torch.ones(3, 3)}, ValueError, r"x: shape \(3, 3\) .* rank 3"),
        ({"x": torch.ones(2, 3, 4)}, ValueError, r"x: shape \(2, 3, 4\) .* h from 1 to 16"),
        ({"x": torch.ones(2, 17, 17)}, ValueError, r"x: shape \(2, 17, 17\)"),
        ({"x": torch.ones(2, 0, 0)}, ValueError, r"x: shape \(2, 0, 0\)"),
        ({"iterations": 0}, ValueError, "iterations: 0 is not accepted; 1 or more is"),
        ({"iterations": 2.0}, TypeError, "iterations: got float; an int is accepted"),
        ({"iterations": True}, TypeError, "iterations: got bool"),
        ({"eps": -1e-6}, ValueError, "eps: -1e-06 is not accepted; a finite number from 0 up"),
        ({"eps": INF}, ValueError, "eps: inf is not accepted"),
        ({"eps": NAN}, ValueError, "eps: nan is not accepted"),
        ({"eps": "0"}, TypeError, "eps: got str"),
    ],
)
def test_bad_input_is_named(kernel, change, error, message):
    with pytest.raises(error, match=message):
        kernel("sinkhorn")(**({"x": torch.ones(2, 3, 3)} | change))
