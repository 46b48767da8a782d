// Two-dimensional blocks: products, transposes, stencils.

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[16][17], right[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 16) {
        const int along = start + threadIdx.x, down = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && along < k ? a[row * k + along] : 0.0f;
        right[threadIdx.y][threadIdx.x] = down < k && column < n ? b[down * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void transpose(const unsigned short* x, unsigned short* out, int rows,
                                     int columns) {
    __shared__ unsigned short tile[32][33];
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    for (int i = 0; i < 32; i += 8)
        if (row + i < rows && column < columns)
            tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * columns + column];
    __syncthreads();
    row = blockIdx.x * 32 + threadIdx.y;
    column = blockIdx.y * 32 + threadIdx.x;
    for (int i = 0; i < 32; i += 8)
        if (row + i < columns && column < rows)
            out[(row + i) * rows + column] = tile[threadIdx.x][threadIdx.y + i];
}

extern "C" __global__ void stencil(const float* x, float* out, int width, int height, int depth) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y,
              k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= width || j >= height || k >= depth) return;
    const int at = (k * height + j) * width + i;
    float sum = -6.0f * x[at];
    sum += i > 0 ? x[at - 1] : 0.0f;
    sum += i < width - 1 ? x[at + 1] : 0.0f;
    sum += j > 0 ? x[at - width] : 0.0f;
    sum += j < height - 1 ? x[at + width] : 0.0f;
    sum += k > 0 ? x[at - width * height] : 0.0f;
    sum += k < depth - 1 ? x[at + width * height] : 0.0f;
    out[at] = x[at] + 0.1f * sum;
}
