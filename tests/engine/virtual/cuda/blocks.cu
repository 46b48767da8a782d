// Kernels built on CUB, as engines write them: nvcc -ptx -arch=sm_90 -O3 blocks.cu
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cuda_bf16.h>

struct alignas(16) Vector {
    __nv_bfloat16 v[8];
};

// Eight values a load; n is a multiple of 8.
extern "C" __global__ void vector_rms_norm(Vector* out, const Vector* x, const Vector* weight,
                                           float eps, int n) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage temporary;
    __shared__ float scale;
    const int vectors = n / 8;
    const Vector* row = x + blockIdx.x * vectors;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < vectors; i += 128) {
        const Vector v = row[i];
        for (int k = 0; k < 8; k++) {
            const float f = __bfloat162float(v.v[k]);
            sum += f * f;
        }
    }
    sum = Reduce(temporary).Sum(sum);
    if (threadIdx.x == 0) scale = rsqrtf(sum / n + eps);
    __syncthreads();
    for (int i = threadIdx.x; i < vectors; i += 128) {
        Vector v = row[i];
        const Vector w = weight[i];
        for (int k = 0; k < 8; k++)
            v.v[k] = __hmul(__float2bfloat16(__bfloat162float(v.v[k]) * scale), w.v[k]);
        out[blockIdx.x * vectors + i] = v;
    }
}

extern "C" __global__ void scan_and_sort(const int* x, const float* y, int* sums, float* largest,
                                         unsigned* keys, int* values) {
    using Scan = cub::BlockScan<int, 128>;
    using Maxima = cub::BlockScan<float, 128>;
    using Sort = cub::BlockRadixSort<unsigned, 128, 4, int>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Maxima::TempStorage maxima;
        typename Sort::TempStorage sort;
    } temporary;
    const int first = threadIdx.x * 4;
    int v[4], order[4];
    unsigned k[4];
    float f[4];
    for (int i = 0; i < 4; i++) {
        v[i] = x[first + i];
        k[i] = x[first + i] & 0xff00ff;
        f[i] = y[first + i];
        order[i] = first + i;
    }
    Scan(temporary.scan).ExclusiveSum(v, v);
    __syncthreads();
    Maxima(temporary.maxima).InclusiveScan(f, f, cuda::maximum<float>());
    __syncthreads();
    Sort(temporary.sort).Sort(k, order);
    for (int i = 0; i < 4; i++) {
        sums[first + i] = v[i];
        largest[first + i] = f[i];
        keys[first + i] = k[i];
        values[first + i] = order[i];
    }
}
