// Intrinsics of half and bfloat16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void half_arithmetic(const __half* x, const __half* y, const __half* z,
                                           __half* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half a = x[i], b = y[i], c = z[i];
    out[0 * n + i] = __hadd(a, b);
    out[1 * n + i] = __hsub(a, b);
    out[2 * n + i] = __hmul(a, b);
    out[3 * n + i] = __hfma(a, b, c);
    out[4 * n + i] = __hdiv(a, b);
    out[5 * n + i] = __hadd_sat(a, b);
    out[6 * n + i] = __hmax(a, b);
    out[7 * n + i] = __hmin_nan(a, b);
    out[8 * n + i] = __hfma_relu(a, b, c);
    out[9 * n + i] = __hneg(__habs(a));
}

extern "C" __global__ void bf16_arithmetic(const __nv_bfloat16* x, const __nv_bfloat16* y,
                                           const __nv_bfloat16* z, __nv_bfloat16* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __nv_bfloat16 a = x[i], b = y[i], c = z[i];
    out[0 * n + i] = __hadd(a, b);
    out[1 * n + i] = __hsub(a, b);
    out[2 * n + i] = __hmul(a, b);
    out[3 * n + i] = __hfma(a, b, c);
    out[4 * n + i] = __hdiv(a, b);
    out[5 * n + i] = __hmul_rn(b, c) + a;
    out[6 * n + i] = __hmax_nan(a, b);
    out[7 * n + i] = __hmin(a, b);
    out[8 * n + i] = __hneg(a);
}

// Products that ptxas may merge into sums.
extern "C" __global__ void bf16_contraction(const __nv_bfloat16* x, const __nv_bfloat16* y,
                                            const __nv_bfloat16* z, __nv_bfloat16* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i] * y[i] + z[i];
    out[n + i] = z[i] - y[i] * y[i];
}

extern "C" __global__ void packed(const __half2* x, const __half2* y, __half2* out,
                                  const __nv_bfloat162* u, const __nv_bfloat162* v,
                                  __nv_bfloat162* result, unsigned* masks, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __hfma2(x[i], y[i], __lowhigh2highlow(x[i]));
    out[n + i] = __hmax2(x[i], y[i]);
    result[i] = __hfma2(u[i], v[i], __low2bfloat162(u[i]));
    result[n + i] = __hmin2_nan(u[i], v[i]);
    masks[i] = __hlt2_mask(x[i], y[i]) ^ (__hbeq2(u[i], v[i]) ? 0xffffu : 0u);
}

extern "C" __global__ void conversions(const float* x, unsigned short* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    out[0 * n + i] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    out[1 * n + i] = __bfloat16_as_ushort(__float2bfloat16_rz(v));
    out[2 * n + i] = __bfloat16_as_ushort(__float2bfloat16_rd(v));
    out[3 * n + i] = __bfloat16_as_ushort(__float2bfloat16_ru(v));
    out[4 * n + i] = __half_as_ushort(__float2half_rn(v));
    out[5 * n + i] = __half_as_ushort(__float2half_rz(v));
    out[6 * n + i] = __nv_cvt_float2_to_fp8x2(make_float2(v, -v), __NV_SATFINITE, __NV_E4M3);
    out[7 * n + i] = __nv_cvt_float2_to_fp8x2(make_float2(v, -v), __NV_SATFINITE, __NV_E5M2);
    out[8 * n + i] = __half2short_rn(__float2half(v));
    out[9 * n + i] = __half2ushort_rz(__float2half(v));
}
