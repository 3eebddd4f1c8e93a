/* What the files of the extension module share: each adds its functions and types to the module. */
#ifndef RPCRDMA_NATIVE_H
#define RPCRDMA_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The functions and types below as one number, which rises with each change of them: src/rpcrdma/wire/native.py uses
   a module of its own number only. */
#define RN_INTERFACE 1

/* Each returns 0, or -1 with an exception set. */
int rn_add_crc32c(PyObject *module);

#endif
