/* The extension module `rpcrdma_verbs`: its parts add themselves here. */
#include "verbs.h"

static int fill(PyObject *module) {
    static int64_t home = -1;
    const int64_t here = PyInterpreterState_GetID(PyInterpreterState_Get());
    /* Its types are those of one interpreter. */
    if (home < 0) home = here;
    if (home != here) {
        PyErr_SetString(PyExc_ImportError, "another interpreter of this process has loaded rpcrdma_verbs");
        return -1;
    }
    return PyModule_AddIntConstant(module, "INTERFACE", RV_INTERFACE) || rv_add_devices(module) ||
                   rv_add_memory(module) || rv_add_manager(module) || rv_add_queue_pair(module) || rv_add_watch(module)
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill},
#ifdef Py_GIL_DISABLED
    /* Memory is freed, and its registration ends, in any thread. */
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "rpcrdma_verbs",
    .m_doc = "RDMA devices through libibverbs and librdmacm: an internal part, which rpcrdma.verbs.binding finds.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_rpcrdma_verbs(void) { return PyModuleDef_Init(&definition); }
