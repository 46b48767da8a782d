// Row-wise kernels of a transformer: layer norm, RMS norm, softmax.
#include <cuda_bf16.h>

static __device__ float block_sum(float v) {
    __shared__ float parts[32];
    __syncthreads();
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
    __syncthreads();
    v = 0.0f;
    for (int i = 0; i < blockDim.x / 32; i++) v += parts[i];
    return v;
}

// Four values a load; n is a multiple of 4.
extern "C" __global__ void layer_norm(const float4* x, const float4* weight, const float4* bias,
                                      float4* out, int n, float eps) {
    const int vectors = n / 4;
    const float4* row = x + blockIdx.x * vectors;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        const float4 v = row[i];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    const float mean = block_sum(sum) / n;
    float square = 0.0f;
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        const float4 v = row[i];
        const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
        square += a * a + b * b + c * c + d * d;
    }
    const float scale = rsqrtf(block_sum(square) / n + eps);
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        const float4 v = row[i], w = weight[i], b = bias[i];
        out[blockIdx.x * vectors + i] =
            make_float4((v.x - mean) * scale * w.x + b.x, (v.y - mean) * scale * w.y + b.y,
                        (v.z - mean) * scale * w.z + b.z, (v.w - mean) * scale * w.w + b.w);
    }
}

// Two values a load; the residual is added in bf16 and stored.
extern "C" __global__ void add_rms_norm(__nv_bfloat162* x, const __nv_bfloat162* residual,
                                        const __nv_bfloat162* weight, __nv_bfloat162* out, int n,
                                        float eps) {
    const int pairs = n / 2, start = blockIdx.x * pairs;
    float square = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const __nv_bfloat162 h = __hadd2(x[start + i], residual[start + i]);
        x[start + i] = h;
        const float2 v = __bfloat1622float2(h);
        square += v.x * v.x + v.y * v.y;
    }
    const float scale = rsqrtf(block_sum(square) / n + eps);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 v = __bfloat1622float2(x[start + i]);
        const __nv_bfloat162 normed = __floats2bfloat162_rn(v.x * scale, v.y * scale);
        out[start + i] = __hmul2(normed, weight[i]);
    }
}

// One warp a row; exp is the one that the file was compiled for.
extern "C" __global__ void softmax(const float* x, float* out, int n) {
    const float* row = x + blockIdx.x * n;
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32) most = fmaxf(most, row[i]);
    for (int o = 16; o > 0; o >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
    for (int i = threadIdx.x; i < n; i += 32) sum += expf(row[i] - most);
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    for (int i = threadIdx.x; i < n; i += 32) out[blockIdx.x * n + i] = expf(row[i] - most) / sum;
}
