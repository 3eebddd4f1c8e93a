/* Opens libibverbs and librdmacm when the first function is called: neither is needed to build or to import. */
#include "verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static Calls calls;
static int opened;
unsigned int rv_forks;

static void on_fork_in_child(void) { rv_forks++; }

/* Fills `functions` in the order of `names` with the addresses of the library's functions; `kept` is its handle. */
static int open_library(void **kept, const char *library, const char *const *names, void **functions) {
    void *handle = *kept;
    if (!handle) {
        Py_BEGIN_ALLOW_THREADS
        handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        Py_END_ALLOW_THREADS
        *kept = handle;
    }
    if (!handle) {
        PyErr_Format(PyExc_OSError, "%s; install libibverbs1, librdmacm1 and ibverbs-providers, or rdma-core",
            dlerror());
        return -1;
    }
    for (int i = 0; names[i]; i++) {
        functions[i] = dlsym(handle, names[i]);
        if (!functions[i]) {
            PyErr_Format(PyExc_OSError, "%s is too old: it has no %s", library, names[i]);
            return -1;
        }
    }
    return 0;
}

const Calls *rv_calls(void) {
#define CALL(result, name, parameters) #name,
    static const char *const verbs[] = {RV_VERBS_CALLS(CALL) NULL};
    static const char *const manager[] = {RV_MANAGER_CALLS(CALL) NULL};
#undef CALL
    enum { VERBS = sizeof verbs / sizeof *verbs - 1, MANAGER = sizeof manager / sizeof *manager - 1 };
    static void *handles[2];
    void *functions[VERBS + MANAGER];
    if (opened) return &calls;
    /* Of a device that was unplugged the kernel has destroyed everything, and answers each destroying call with EIO.
       libibverbs reads this when it is first called, and then reports success. */
    setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
    if (open_library(&handles[0], "libibverbs.so.1", verbs, functions) ||
        open_library(&handles[1], "librdmacm.so.1", manager, functions + VERBS))
        return NULL;
    _Static_assert(sizeof functions == sizeof calls, "each member is the address of a function");
    memcpy(&calls, functions, sizeof calls);
    /* Before Linux 5.13 registered pages would move away from the device at a fork; later kernels copy them. */
    Py_BEGIN_ALLOW_THREADS
    calls.ibv_fork_init();
    Py_END_ALLOW_THREADS
    if (!opened) pthread_atfork(NULL, NULL, on_fork_in_child);
    opened = 1;
    return &calls;
}

PyObject *rv_failed(int result, const char *call) {
    if (result > 0) errno = result;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, call);
}

int rv_not_blocking(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) >= 0) return 0;
    rv_failed(0, "fcntl");
    return -1;
}
