// Memory of one thread: arrays with dynamic indices, parameters by value.

extern "C" __global__ void insertion_sort(const float* x, float* out, int n) {
    const int start = (blockIdx.x * blockDim.x + threadIdx.x) * 12;
    if (start >= n) return;
    float v[12];
    for (int i = 0; i < 12; i++) {
        const float key = x[start + i];
        int at = i;
        while (at > 0 && v[at - 1] > key) {
            v[at] = v[at - 1];
            at--;
        }
        v[at] = key;
    }
    for (int i = 0; i < 12; i++) out[start + i] = v[i];
}

struct Steps {
    float scale[4];
    int shift[5];
    short sign;
};

extern "C" __global__ void steps_by_value(Steps steps, const int* which, const float* x, float* out,
                                          int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int k = which[i];
    const float v = x[i] * steps.scale[k & 3] + steps.shift[(unsigned)k % 5];
    out[i] = k & 1 ? v : v * steps.sign;
}

struct Rows {
    const float* x;
    float* out;
    int n;
    float scale;
};

extern "C" __global__ void pointers_in_a_struct(const __grid_constant__ Rows rows) {
    const Rows* r = &rows;
    for (int i = threadIdx.x; i < r->n; i += blockDim.x)
        r->out[blockIdx.x * r->n + i] = r->x[blockIdx.x * r->n + i] * r->scale + 1.0f;
}
