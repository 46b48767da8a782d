// Sums and maxima of rows: in shared memory, by shuffles, in dynamic shared memory.

extern "C" __global__ void tree_sum(const float* x, float* out, int n) {
    __shared__ float slot[128];
    const int t = threadIdx.x;
    float total = 0.0f;
    for (int i = t; i < n; i += 128) total += x[blockIdx.x * n + i];
    slot[t] = total;
    __syncthreads();
    for (int half = 64; half > 0; half >>= 1) {
        if (t < half) slot[t] += slot[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = slot[0];
}

// Squares are added: every step may be contracted.
extern "C" __global__ void shuffle_sum_of_squares(const float* x, float* out, int n) {
    __shared__ float warp_total[8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float v = x[blockIdx.x * n + i];
        total += v * v;
    }
    for (int o = 16; o > 0; o >>= 1) total += __shfl_down_sync(0xffffffffu, total, o);
    if (lane == 0) warp_total[warp] = total;
    __syncthreads();
    if (warp == 0) {
        total = lane < blockDim.x / 32 ? warp_total[lane] : 0.0f;
        for (int o = 4; o > 0; o >>= 1) total += __shfl_xor_sync(0xffffffffu, total, o);
        if (lane == 0) out[blockIdx.x] = total;
    }
}

// Two arrays share the dynamic memory, of different types.
extern "C" __global__ void max_and_sum(const float* x, float* largest, double* total, int n) {
    extern __shared__ double memory[];
    double* sums = memory;
    float* maxima = reinterpret_cast<float*>(memory + blockDim.x);
    const int t = threadIdx.x;
    double sum = 0.0;
    float most = -INFINITY;
    for (int i = t; i < n; i += blockDim.x) {
        const float v = x[blockIdx.x * n + i];
        sum += v;
        most = fmaxf(most, v);
    }
    sums[t] = sum;
    maxima[t] = most;
    for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
            maxima[t] = fmaxf(maxima[t], maxima[t + half]);
        }
    }
    if (t == 0) {
        largest[blockIdx.x] = maxima[0];
        total[blockIdx.x] = sums[0];
    }
}

// Welford's update, merged across lanes: division, and products that meet sums.
extern "C" __global__ void welford(const float* x, float2* out, int n) {
    float mean = 0.0f, m2 = 0.0f, count = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) {
        const float v = x[blockIdx.x * n + i];
        count += 1.0f;
        const float delta = v - mean;
        mean += delta / count;
        m2 += delta * (v - mean);
    }
    for (int o = 16; o > 0; o >>= 1) {
        const float other_mean = __shfl_xor_sync(0xffffffffu, mean, o);
        const float other_m2 = __shfl_xor_sync(0xffffffffu, m2, o);
        const float other_count = __shfl_xor_sync(0xffffffffu, count, o);
        const float both = count + other_count;
        const float delta = other_mean - mean;
        const float share = both > 0.0f ? other_count / both : 0.0f;
        mean = mean + delta * share;
        m2 = m2 + other_m2 + delta * delta * count * share;
        count = both;
    }
    if (threadIdx.x == 0) out[blockIdx.x] = make_float2(mean, m2 / count);
}
