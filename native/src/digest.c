/* `crc32c` for Python. */
#include "crc32c.h"
#include "native.h"

/* From here the interpreter's lock is released: some microseconds of work, several times the cost of the release. */
#define LONG_OCTETS (1 << 18)

static PyObject *crc32c(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 1 && count != 2) {
        PyErr_Format(PyExc_TypeError, "crc32c takes data and a value to continue from, not %zd arguments", count);
        return NULL;
    }
    unsigned long value = count == 2 ? PyLong_AsUnsignedLong(arguments[1]) : 0;
    if (value == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    if (value > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a digest has 32 bits");
        return NULL;
    }
    Py_buffer data;
    if (PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t digest;
    if (data.len < LONG_OCTETS) {
        digest = rn_crc32c((uint32_t)value, data.buf, (size_t)data.len);
    } else {
        Py_BEGIN_ALLOW_THREADS
        digest = rn_crc32c((uint32_t)value, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(digest);
}

static PyMethodDef methods[] = {
    {"crc32c", (PyCFunction)(void (*)(void))crc32c, METH_FASTCALL,
     "crc32c($module, data, value=0, /)\n--\n\nThe digest of `data`, continuing from `value`."},
    {NULL, NULL, 0, NULL},
};

int rn_add_crc32c(PyObject *module) {
    if (PyModule_AddStringConstant(module, "CRC", rn_crc32c_choose()) < 0)
        return -1;
    return PyModule_AddFunctions(module, methods);
}
