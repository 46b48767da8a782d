// Kernels for the tests of load_ptx: nvcc -ptx -arch=sm_90 -O3 -lineinfo kernels.cu
#include <cassert>
#include <cuda_bf16.h>

struct Steps {
    int start;
    float scale;
    long long offset[3];
};

__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__constant__ float weights[32];
__device__ int visits;

__device__ __noinline__ float fused(float x, float y) { return x * y + 0.3f; }

__device__ __noinline__ float2 moved(float2 v, Steps steps) {
    return make_float2(v.x * steps.scale + steps.start, v.y + (float)steps.offset[1]);
}

__device__ __noinline__ void fill(float* values, int n, float seed) {
    for (int i = 0; i < n; i++) {
        if (seed > 2.0f) return;
        values[i] = seed + i;
    }
}

__device__ __noinline__ float look_up(const float* values, int at) { return values[at]; }

__device__ __noinline__ void count_up(int* counter) { atomicAdd(counter, 1); }

extern "C" __global__ void calls(const float* x, float* out, int n, Steps steps) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float2 v = moved(make_float2(x[i], fused(x[i], 2.5f)), steps);
    out[i] = v.x + v.y;
}

extern "C" __global__ void local_memory(const float* x, float* out, int at) {
    float values[8] = {};
    fill(values, 8, x[threadIdx.x]);
    out[threadIdx.x] = values[at];
}

extern "C" __global__ void spaces(const float* x, float* out) {
    __shared__ float copy[32];
    float own[4] = {5.0f, 6.0f, 7.0f, x[0]};
    copy[threadIdx.x] = -x[threadIdx.x];
    __syncthreads();
    const int kind = threadIdx.x % 3;
    out[threadIdx.x] = look_up(kind == 0 ? own : kind == 1 ? copy : x, threadIdx.x & 3);
}

extern "C" __global__ void counters(int* out) {
    __shared__ int own;
    if (threadIdx.x == 0) own = 0;
    __syncthreads();
    count_up(&own);
    count_up(&visits);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = own;
}

extern "C" __global__ void constants(const float* x, float* out) {
    out[threadIdx.x] = x[threadIdx.x] * table[threadIdx.x & 3] + weights[threadIdx.x];
}

extern "C" __global__ void indexed(Steps steps, const int* which, long long* out) {
    out[threadIdx.x] = steps.offset[which[threadIdx.x]];
}

extern "C" __global__ void read_only(const __grid_constant__ Steps steps, long long* out) {
    const Steps* s = &steps;
    out[threadIdx.x] = s->offset[threadIdx.x % 3];
}

extern "C" __global__ void dynamic(const float* x, float* out, int n) {
    extern __shared__ float memory[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) memory[n - 1 - i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = memory[i];
}

extern "C" __global__ void checked(const int* x, int* out) {
    assert(x[threadIdx.x] >= 0);
    out[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void scalars(unsigned char a, short b, __nv_bfloat16 c, double d, bool e,
                                   double* out) {
    out[threadIdx.x] = a + b + (double)__bfloat162float(c) + d + e;
}

extern "C" __global__ void __launch_bounds__(64) bounded(float* out) { out[threadIdx.x] = 1.0f; }

template <typename T>
__global__ void square(const T* x, T* out) {
    out[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];
}
template __global__ void square<float>(const float*, float*);

namespace norms {
__global__ void twice(const float* x, float* out) { out[threadIdx.x] = 2.0f * x[threadIdx.x]; }
}  // namespace norms
