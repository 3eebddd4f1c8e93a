/* The extension module `rpcrdma_native`: its parts add themselves here. */
#include "native.h"

static int fill(PyObject *module) {
    return PyModule_AddIntConstant(module, "INTERFACE", RN_INTERFACE) || rn_add_crc32c(module) ||
                   rn_add_receiver(module) || rn_add_send(module)
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill},
#ifdef Py_GIL_DISABLED
    /* An object serves one connection, whose event loop alone calls it; the functions keep no state. */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "rpcrdma_native",
    .m_doc = "The native module of rpcrdma: an internal part, which rpcrdma.wire.native finds.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_rpcrdma_native(void) { return PyModuleDef_Init(&definition); }
