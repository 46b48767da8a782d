// Choosing: sorts, argmax, gathers, histograms by atomics.

// Ascending keys; equal keys by value.
extern "C" __global__ void bitonic_sort(const float* x, float* keys, int* order) {
    __shared__ float key[256];
    __shared__ int value[256];
    const int t = threadIdx.x;
    key[t] = x[blockIdx.x * 256 + t];
    value[t] = t;
    for (int size = 2; size <= 256; size <<= 1) {
        for (int step = size >> 1; step > 0; step >>= 1) {
            __syncthreads();
            const int other = t ^ step;
            if (other > t) {
                const float a = key[t], b = key[other];
                const int i = value[t], j = value[other];
                const bool after = a > b || (a == b && i > j);
                if (after == ((t & size) == 0)) {
                    key[t] = b;
                    key[other] = a;
                    value[t] = j;
                    value[other] = i;
                }
            }
        }
    }
    __syncthreads();
    keys[blockIdx.x * 256 + t] = key[t];
    order[blockIdx.x * 256 + t] = value[t];
}

// The largest of a row, the first among equals.
extern "C" __global__ void argmax(const float* x, long long* index, float* value, int n) {
    float best = -INFINITY;
    int at = n;
    for (int i = threadIdx.x; i < n; i += 32) {
        const float v = x[blockIdx.x * n + i];
        if (v > best || at == n) {
            best = v;
            at = i;
        }
    }
    for (int o = 16; o > 0; o >>= 1) {
        const float v = __shfl_xor_sync(~0u, best, o);
        const int i = __shfl_xor_sync(~0u, at, o);
        if (v > best || (v == best && i < at)) {
            best = v;
            at = i;
        }
    }
    if (threadIdx.x == 0) {
        index[blockIdx.x] = at;
        value[blockIdx.x] = best;
    }
}

// Rows of 16 bytes a thread; an id outside of the table gives zeros.
extern "C" __global__ void gather(const uint4* table, const long long* ids, uint4* out, int rows,
                                  int width) {
    const long long id = ids[blockIdx.x];
    for (int i = threadIdx.x; i < width; i += blockDim.x) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (id >= 0 && id < rows) v = __ldg(table + id * width + i);
        out[blockIdx.x * width + i] = v;
    }
}

extern "C" __global__ void histogram(const int* x, int* bins, unsigned* extremes,
                                     unsigned long long* total, int n) {
    __shared__ int own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(own + (x[i] & 63), 1);
        atomicMax(extremes, (unsigned)x[i]);
        atomicMin(extremes + 1, (unsigned)x[i]);
        atomicXor(extremes + 2, (unsigned)x[i]);
        atomicOr(extremes + 3, 1u << (x[i] & 15));
        atomicAnd(extremes + 4, ~(1u << (x[i] & 7)));
        atomicAdd(total, (unsigned long long)x[i] * 0x100000001ull);
    }
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(bins + threadIdx.x, own[threadIdx.x]);
}
