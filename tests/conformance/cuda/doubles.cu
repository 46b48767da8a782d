// Double precision: sums that may be contracted, division, root, conversions.

extern "C" __global__ void doubles(const double* x, const double* y, double* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double a = x[i], b = y[i];
    out[0 * n + i] = a * b + a;
    out[1 * n + i] = a / b;
    out[2 * n + i] = sqrt(a);
    out[3 * n + i] = fma(a, b, -b);
    out[4 * n + i] = (double)(float)a + rint(b);
    out[5 * n + i] = fmax(a, b) - floor(a);
    out[6 * n + i] = (double)(long long)b + (double)(unsigned)(int)a;
    out[7 * n + i] = exp(a);
}
