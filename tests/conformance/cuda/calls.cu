// Device functions that are called, not inlined.

struct Pair {
    float first;
    double second;
    int count;
};

__device__ __noinline__ float horner(float x, float a, float b, float c) {
    return (a * x + b) * x + c;
}

__device__ __noinline__ Pair extend(Pair p, float x) {
    p.first = horner(x, p.first, 0.25f, -1.5f) * x + p.first;
    p.second = p.second * x + p.first;
    p.count += x > 0.0f;
    return p;
}

__device__ __noinline__ void fill(float* values, int n, float seed) {
    for (int i = 0; i < n; i++) {
        if (seed < -4.0f) return;
        values[i] = seed;
        seed = seed * 0.75f - 1.0f;
    }
}

__device__ __noinline__ float look_up(const float* values, int at) { return values[at]; }

extern "C" __global__ void nested_calls(const float* x, float* first, double* second, int* count,
                                        int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Pair p = {x[i], 1.0, 0};
    for (int k = 0; k < 1 + (i & 3); k++) p = extend(p, x[i] + k);
    first[i] = p.first;
    second[i] = p.second;
    count[i] = p.count;
}

// Pointers into three state spaces reach one function, in one warp.
extern "C" __global__ void generic_pointers(const float* x, float* out) {
    __shared__ float shared_values[32];
    float own[8] = {};
    const int t = threadIdx.x;
    shared_values[t & 31] = x[t & 31];
    __syncthreads();
    fill(own, 8, x[blockIdx.x * blockDim.x + t]);
    const float* from = t % 3 == 0 ? own : t % 3 == 1 ? shared_values : x;
    out[blockIdx.x * blockDim.x + t] = look_up(from, t & 7);
}
