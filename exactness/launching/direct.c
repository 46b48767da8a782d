/* Launches of a kernel for which everything is decided but the stream and some addresses.

Triton's launcher takes every argument of a kernel anew, from Python objects. Here the bytes of all
parameters are laid out once; a launch puts addresses into a copy of them and calls the driver.

Source: CUDA Driver API 13.0, cuLaunchKernelEx and CUlaunchConfig; Python/C API, vectorcall. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cuda.h>
#include <stddef.h>
#include <string.h>

enum { MAX_BYTES = 4096, MAX_PARAMS = 256, MAX_ADDRESSES = 256 };

typedef CUresult (*LaunchKernelEx)(const CUlaunchConfig *, CUfunction, void **, void **);
typedef CUresult (*SetCurrent)(CUcontext);
typedef CUresult (*GetErrorName)(CUresult, const char **);

/* Where an address goes: the byte, the position among the arguments of a launch, what is added. */
typedef struct {
    unsigned offset, position;
    long long distance;
} Address;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    LaunchKernelEx launch;
    SetCurrent set_current;
    GetErrorName error_name;
    CUcontext context;
    CUfunction function;
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    unsigned addresses, params, size, given;
    Address address[MAX_ADDRESSES];
    unsigned offset[MAX_PARAMS];
    unsigned char bytes[MAX_BYTES];
} Launch;

static PyObject *failed(const Launch *self, CUresult status) {
    const char *name = NULL;
    self->error_name(status, &name);
    return PyErr_Format(PyExc_RuntimeError, "cuLaunchKernelEx: %s (%d)",
                        name ? name : "unknown error", (int)status);
}

/* launch(stream, address, …) */
static PyObject *Launch_vectorcall(PyObject *object, PyObject *const *args, size_t flags,
                                   PyObject *names) {
    const Launch *self = (const Launch *)object;
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (names != NULL || count != (Py_ssize_t)self->given + 1)
        return PyErr_Format(PyExc_TypeError, "a stream and %u addresses are accepted", self->given);
    unsigned char bytes[MAX_BYTES];
    void *params[MAX_PARAMS];
    memcpy(bytes, self->bytes, self->size);
    for (unsigned i = 0; i < self->params; i++) params[i] = bytes + self->offset[i];
    for (unsigned i = 0; i < self->addresses; i++) {
        const Address *to = &self->address[i];
        unsigned long long at = PyLong_AsUnsignedLongLong(args[to->position + 1]);
        if (at == (unsigned long long)-1 && PyErr_Occurred()) return NULL;
        at += to->distance;
        memcpy(bytes + to->offset, &at, sizeof at);
    }
    CUlaunchConfig config = self->config;
    config.attrs = (CUlaunchAttribute *)&self->attribute;
    config.hStream = (CUstream)PyLong_AsUnsignedLongLong(args[0]);
    if (config.hStream == (CUstream)-1 && PyErr_Occurred()) return NULL;
    CUresult status;
    Py_BEGIN_ALLOW_THREADS
    status = self->launch(&config, self->function, params, NULL);
    if (status == CUDA_ERROR_INVALID_CONTEXT && self->set_current(self->context) == CUDA_SUCCESS)
        status = self->launch(&config, self->function, params, NULL); /* a new thread had none */
    Py_END_ALLOW_THREADS
    if (status != CUDA_SUCCESS) return failed(self, status);
    Py_RETURN_NONE;
}

static int fill(Launch *self, PyObject *offsets, PyObject *addresses) {
    const Py_ssize_t params = PyTuple_GET_SIZE(offsets), count = PyTuple_GET_SIZE(addresses);
    if (params > MAX_PARAMS || count > MAX_ADDRESSES) {
        PyErr_SetString(PyExc_ValueError, "too many parameters or addresses");
        return -1;
    }
    self->params = (unsigned)params;
    for (Py_ssize_t i = 0; i < params; i++) {
        const unsigned long offset = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(offsets, i));
        if (PyErr_Occurred()) return -1;
        if (offset >= self->size) {
            PyErr_SetString(PyExc_ValueError, "a parameter lies beyond the bytes");
            return -1;
        }
        self->offset[i] = (unsigned)offset;
    }
    self->addresses = (unsigned)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        Address *to = &self->address[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(addresses, i), "IIL", &to->offset, &to->position,
                              &to->distance))
            return -1;
        if (to->offset + sizeof(CUdeviceptr) > self->size || to->position >= self->given) {
            PyErr_SetString(PyExc_ValueError, "an address lies beyond the bytes or the arguments");
            return -1;
        }
    }
    return 0;
}

/* Launch(driver, context, function, (x, y, z), threads, shared, early, bytes, offsets, given,
          addresses): `driver` holds the addresses of cuLaunchKernelEx, cuCtxSetCurrent and
   cuGetErrorName; `offsets` those of the parameters in `bytes`; `given` counts the addresses of a
   launch; each of `addresses` is (offset, position, distance). */
static PyObject *Launch_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    unsigned long long launch, set_current, error_name, context, function;
    unsigned x, y, z, threads, shared, given;
    int early;
    const char *bytes;
    Py_ssize_t size;
    PyObject *offsets, *addresses;
    if (!PyArg_ParseTuple(args, "(KKK)KK(III)IIpy#O!IO!", &launch, &set_current, &error_name,
                          &context, &function, &x, &y, &z, &threads, &shared, &early, &bytes,
                          &size, &PyTuple_Type, &offsets, &given, &PyTuple_Type, &addresses))
        return NULL;
    if (size > MAX_BYTES)
        return PyErr_Format(PyExc_ValueError, "%zd bytes of parameters; at most %d", size,
                            (int)MAX_BYTES);
    Launch *self = (Launch *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->vectorcall = Launch_vectorcall;
    self->launch = (LaunchKernelEx)launch;
    self->set_current = (SetCurrent)set_current;
    self->error_name = (GetErrorName)error_name;
    self->context = (CUcontext)context;
    self->function = (CUfunction)function;
    self->config = (CUlaunchConfig){.gridDimX = x, .gridDimY = y, .gridDimZ = z,
                                    .blockDimX = threads, .blockDimY = 1, .blockDimZ = 1,
                                    .sharedMemBytes = shared, .numAttrs = early ? 1 : 0};
    self->attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    self->attribute.value.programmaticStreamSerializationAllowed = 1;
    self->size = (unsigned)size;
    self->given = given;
    memcpy(self->bytes, bytes, (size_t)size);
    if (fill(self, offsets, addresses) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyTypeObject LaunchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "direct.Launch",
    .tp_basicsize = sizeof(Launch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Launch, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = Launch_new,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "direct", .m_size = -1};

PyMODINIT_FUNC PyInit_direct(void) {
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&LaunchType) < 0) return NULL;
    if (PyModule_AddObjectRef(made, "Launch", (PyObject *)&LaunchType) < 0) return NULL;
    return made;
}
