/* `crc32c` for Python. */
#include "native.h"

/* From here the interpreter's lock is released: some microseconds of work, several times the cost of the release. */
#define LONG_OCTETS (1 << 18)

static PyObject *crc32c(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 1 && count != 2)
        return PyErr_Format(PyExc_TypeError, "crc32c takes data and a value to go on from, not %zd arguments", count);
    unsigned long value = count == 2 ? PyLong_AsUnsignedLong(arguments[1]) : 0;
    if (value > UINT32_MAX && !PyErr_Occurred()) PyErr_SetString(PyExc_OverflowError, "a digest has 32 bits");
    Py_buffer data;
    if (PyErr_Occurred() || PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0) return NULL;
    PyThreadState *released = data.len < LONG_OCTETS ? NULL : PyEval_SaveThread();
    uint32_t digest = rn_crc32c((uint32_t)value, data.buf, (size_t)data.len);
    if (released) PyEval_RestoreThread(released);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(digest);
}

static PyMethodDef methods[] = {
    {"crc32c", (PyCFunction)(void (*)(void))crc32c, METH_FASTCALL,
     "crc32c($module, data, value=0, /)\n--\n\nThe digest of `data`, continuing from `value`."},
    {NULL, NULL, 0, NULL},
};

int rn_add_crc32c(PyObject *module) {
    if (PyModule_AddStringConstant(module, "CRC", rn_crc32c_choose()) < 0) return -1;
    return PyModule_AddFunctions(module, methods);
}
