// Integer arithmetic: wide products and quotients, bytes, bits, shifts across words.

extern "C" __global__ void wide(const long long* x, const long long* y, long long* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long a = x[i], b = y[i];
    const unsigned long long u = a, v = b;
    out[0 * n + i] = a * b;
    out[1 * n + i] = __mul64hi(a, b);
    out[2 * n + i] = __umul64hi(u, v);
    out[3 * n + i] = b == 0 || b == -1 ? 0 : a / b;
    out[4 * n + i] = b == 0 || b == -1 ? 0 : a % b;
    out[5 * n + i] = v == 0 ? 0 : u / v;
    out[6 * n + i] = a / 1000003;
    out[7 * n + i] = (a << (b & 63)) ^ (a >> (b & 31)) ^ (u >> (v & 15));
    out[8 * n + i] = (long long)(((unsigned __int128)u * v + u) >> 37);
}

extern "C" __global__ void words(const int* x, const int* y, int* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int a = x[i], b = y[i];
    const unsigned u = a, v = b;
    out[0 * n + i] = __dp4a(a, b, a ^ b);
    out[1 * n + i] = __dp4a(u, v, u);
    out[2 * n + i] = __funnelshift_l(u, v, a & 63);
    out[3 * n + i] = __funnelshift_rc(u, v, b & 63);
    out[4 * n + i] = __byte_perm(u, v, u >> 3);
    out[5 * n + i] = __popc(a) + (__clz(a) << 8) + (__ffs(a) << 16);
    out[6 * n + i] = __brev(u) ^ __sad(a, b, v);
    out[7 * n + i] = __vadd4(u, v) ^ __vabsdiffs2(u, v);
    out[8 * n + i] = __mulhi(a, b) + __umul24(u, v);
    out[9 * n + i] = b == 0 || b == -1 ? a % 17 : a / b + a % b;
    out[10 * n + i] = max(min(a, b), -(a & 0xff)) + __hadd(a, b) + __rhadd(a, b);
    out[11 * n + i] = __dp2a_lo(a, b, 7);
}
