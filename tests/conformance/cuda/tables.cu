// Constant memory and variables of the module.

__constant__ float coefficients[8] = {1.0f,      -0.5f,       0.33333334f, -0.25f,
                                      0.2f,      -0.16666667f, 0.14285715f, -0.125f};
__constant__ short codes[16] = {0, 1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12, 13, -14, 15};
__device__ unsigned seeds[4] = {0x9E3779B9u, 0x85EBCA6Bu, 0xC2B2AE35u, 0x27D4EB2Fu};

extern "C" __global__ void polynomial(const float* x, const int* k, float* out, unsigned* hashes,
                                      int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int j = 7; j >= 0; j--) sum = sum * x[i] + coefficients[j];
    out[i] = sum + coefficients[k[i] & 7] * codes[k[i] >> 3 & 15];
    unsigned h = k[i];
    for (int j = 0; j < 4; j++) h = (h ^ seeds[(j + k[i]) & 3]) * 0x01000193u;
    hashes[i] = h;
}
