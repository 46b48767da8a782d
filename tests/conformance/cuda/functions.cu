// Functions of CUDA's math library; the file is also compiled with fast math.

#define MAP(name, expression)                                                     \
    extern "C" __global__ void name(const float* x, const float* y, float* out, int n) { \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                       \
        if (i >= n) return;                                                       \
        const float a = x[i], b = y[i];                                           \
        (void)b;                                                                  \
        out[i] = expression;                                                      \
    }

MAP(exponential, expf(a))
MAP(exponential_fast, __expf(a))
MAP(powers_of_two, exp2f(a))
MAP(reciprocal_root, rsqrtf(a))
MAP(root, sqrtf(a))
MAP(quotient, a / b)
MAP(quotient_fast, __fdividef(a, b))
MAP(reciprocal, 1.0f / a)
MAP(error_function, erff(a))
MAP(hyperbolic_tangent, tanhf(a))
MAP(logarithm, logf(a))
MAP(sine, sinf(a))
MAP(power, powf(a, b))
MAP(silu, a / (1.0f + expf(-a)) * b)
MAP(gelu, 0.5f * a * (1.0f + erff(a * 0.70710678f)))
MAP(logarithm_fast, __logf(a))

extern "C" __global__ void directed(const float* x, const float* y, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float a = x[i], b = y[i];
    out[0 * n + i] = __fadd_ru(a, b);
    out[1 * n + i] = __fmul_rz(a, b);
    out[2 * n + i] = __fmaf_rd(a, b, a);
    out[3 * n + i] = __fdiv_ru(a, b);
    out[4 * n + i] = __fsqrt_rd(a);
    out[5 * n + i] = __frcp_rz(b);
    out[6 * n + i] = __saturatef(a + b);
    out[7 * n + i] = a * b - b * b * 0.3f;
}
