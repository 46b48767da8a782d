"""x"""
from __future__ import annotations
from exactness.arithmetic import Value, cast, constant, fma, launch, rsqrt_approx
from exactness.formats import f32, Format
from ._squares import Layout, sum_of_squares

def _norm(h, weight, eps, widest):
    n = h.shape[-1]
    h2 = h.reshape(-1, n)
    if n == 1:
        m = fma(h2, h2, eps)
    else:
        s = sum_of_squares(h2, Layout.of(n, 1, widest))
        m = fma(s, 1.0 / n, eps)
    inv = rsqrt_approx(m, ftz=True)
    return (h2*inv*cast(weight, f32)).reshape(*h.shape)

def widest(n, weight, stored, loaded=()):
    w = weight.format.bits == 16
    st = n % 8 == 0 and any(f.bits == 16 for f in stored)
    ld = n % 16 == 0 and any(f.bits == 16 for f in loaded)
    return 8 if w or st or ld else 4

@launch
def rms_norm(x, weight, eps):
    h = cast(cast(x, f32), weight.format)
    out = _norm(cast(h, f32), weight, eps, widest(x.shape[-1], weight, [x.format]))
    return cast(out, x.format), out
@launch
def rms_norm_residual(x, residual, weight, eps, prev=False, after=False):
    h = cast(x, f32) + cast(residual, f32)
    res = cast(h, residual.format)
    if prev: res = cast(res, x.format)
    hh = h if prev else cast(cast(h, weight.format), f32)
    st = [x.format] if prev or after else [x.format, residual.format]
    out = _norm(hh, weight, eps, widest(x.shape[-1], weight, st, [x.format, residual.format]))
    return cast(out, x.format), res, out
