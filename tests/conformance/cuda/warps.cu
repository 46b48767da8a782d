// Warps at work: votes, matches, shuffles of part of a warp, reductions, cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void votes(const int* x, unsigned* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int v = x[i];
    int same;
    out[0 * n + i] = __ballot_sync(~0u, v & 1);
    out[1 * n + i] = __match_any_sync(~0u, v & 7);
    out[2 * n + i] = __match_all_sync(~0u, v >> 31, &same) + same;
    out[3 * n + i] = __any_sync(~0u, v == 3) + 2 * __all_sync(~0u, v != 77);
    out[4 * n + i] = __reduce_add_sync(~0u, v) ^ __reduce_max_sync(~0u, v);
    out[5 * n + i] = __reduce_xor_sync(~0u, (unsigned)v) + __reduce_min_sync(~0u, (unsigned)v);
    out[6 * n + i] = 0;
    if (v & 2) {
        const unsigned here = __activemask();
        out[6 * n + i] = here ^ __shfl_sync(here, v, __ffs(here) - 1);
    }
}

extern "C" __global__ void shuffles(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = x[i];
    out[0 * n + i] = __shfl_up_sync(~0u, v, 3);
    out[1 * n + i] = __shfl_down_sync(~0u, v, 5, 16);
    out[2 * n + i] = __shfl_xor_sync(~0u, v, 7, 8);
    out[3 * n + i] = __shfl_sync(~0u, v, i * 5, 4);
    const double wide = __shfl_xor_sync(~0u, (double)v * v, 9);
    out[4 * n + i] = (float)wide;
}

extern "C" __global__ void tiles(const float* x, float* out, int n) {
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int i = blockIdx.x * blockDim.x + block.thread_rank();
    out[i] = cg::reduce(tile, x[i], cg::plus<float>());
    out[n + i] = tile.shfl(x[i], 3) + tile.meta_group_rank();
    const auto some = cg::coalesced_threads();
    out[2 * n + i] = some.thread_rank() + some.size();
    block.sync();
    out[3 * n + i] = cg::reduce(tile, (int)(x[i] * 8.0f), cg::greater<int>());
}

// Scan of a block: warps first, then their totals.
extern "C" __global__ void prefix_sum(const float* x, const int* k, float* sums, int* counts) {
    __shared__ float totals[8];
    __shared__ int starts[8];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5, i = blockIdx.x * blockDim.x + t;
    float v = x[i];
    int c = k[i];
    for (int o = 1; o < 32; o <<= 1) {
        const float before = __shfl_up_sync(~0u, v, o);
        const int fewer = __shfl_up_sync(~0u, c, o);
        if (lane >= o) {
            v += before;
            c += fewer;
        }
    }
    if (lane == 31) {
        totals[warp] = v;
        starts[warp] = c;
    }
    __syncthreads();
    float sum = 0.0f;
    int start = 0;
    for (int w = 0; w < warp; w++) {
        sum += totals[w];
        start += starts[w];
    }
    sums[i] = v + sum;
    counts[i] = c + start;
}
