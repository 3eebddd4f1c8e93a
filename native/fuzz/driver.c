/* The module `driver`: libFuzzer in a Python process. `run(arguments, function)` calls `function` with octets that cover
 * ever more of the native module; an exception that leaves it ends the process, and libFuzzer keeps the octets. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerRunDriver(int *count, char ***arguments, int (*one)(const uint8_t *octets, size_t size));

static PyObject *function;

static int one(const uint8_t *octets, size_t size) {
    PyObject *result = PyObject_CallFunction(function, "y#", octets, (Py_ssize_t)size);
    if (!result) {
        PyErr_Print();
        abort();
    }
    Py_DECREF(result);
    return 0;
}

static PyObject *run(PyObject *module, PyObject *given) {
    PyObject *list;
    (void)module;
    if (!PyArg_ParseTuple(given, "O!O", &PyList_Type, &list, &function))
        return NULL;
    Py_ssize_t size = PyList_Size(list);
    char **arguments = calloc((size_t)size + 1, sizeof *arguments);
    for (Py_ssize_t i = 0; arguments && i < size; i++) {
        PyObject *octets = PyUnicode_AsUTF8String(PyList_GetItem(list, i));
        if (!octets)
            return NULL;
        arguments[i] = PyBytes_AsString(octets); /* stays until the process ends */
    }
    int count = (int)size;
    return arguments ? PyLong_FromLong(LLVMFuzzerRunDriver(&count, &arguments, one)) : PyErr_NoMemory();
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "driver", .m_methods = methods};

PyMODINIT_FUNC PyInit_driver(void) { return PyModule_Create(&definition); }
