/* Protection domains, registered memory and memory windows. */
#include "verbs.h"

PyTypeObject *rv_domain_type, *rv_region_type, *rv_window_type;

PyObject *rv_new_domain(PyObject *self, PyObject *unused) {
    Identifier *identifier = (Identifier *)self;
    const Calls *calls = rv_calls();
    Domain *domain;
    struct ibv_pd *pd;
    (void)unused;
    if (!calls) return NULL;
    if (!identifier->id || !identifier->id->verbs) {
        PyErr_SetString(PyExc_ValueError, "the identifier has no device yet: resolve the address first");
        return NULL;
    }
    domain = (Domain *)PyType_GenericAlloc(rv_domain_type, 0);
    if (!domain) return NULL;
    domain->device = rv_attributes(calls, identifier->id->verbs);
    if (!domain->device) goto failed;
    Py_BEGIN_ALLOW_THREADS
    pd = calls->ibv_alloc_pd(identifier->id->verbs);
    Py_END_ALLOW_THREADS
    if (!pd) {
        rv_failed(0, "ibv_alloc_pd");
        goto failed;
    }
    domain->pd = pd;
    domain->identifier = (Identifier *)Py_NewRef(self);
    identifier->users++;
    return (PyObject *)domain;
failed:
    Py_DECREF(domain);
    return NULL;
}

static void domain_free(PyObject *self) {
    Domain *domain = (Domain *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (domain->pd && !rv_is_parents(domain->identifier)) {
        Py_BEGIN_ALLOW_THREADS
        rv_calls()->ibv_dealloc_pd(domain->pd);
        Py_END_ALLOW_THREADS
    }
    if (domain->pd) domain->identifier->users--;
    Py_XDECREF((PyObject *)domain->identifier);
    Py_XDECREF(domain->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Domain.register(buffer, access, keep) -> Region: pins the memory. The region keeps the buffer until `deregister`, or
   leaves that to the caller, who ends the region when the memory is freed; the device holds its pages until then. */
static PyObject *domain_register(PyObject *self, PyObject *args) {
    Domain *domain = (Domain *)self;
    PyObject *given;
    Region *region;
    struct ibv_mr *mr;
    int access, keep;
    if (!PyArg_ParseTuple(args, "Oip", &given, &access, &keep)) return NULL;
    region = (Region *)PyType_GenericAlloc(rv_region_type, 0);
    if (!region) return NULL;
    if (PyObject_GetBuffer(given, &region->buffer,
            access & (IBV_LOCAL_WRITE | IBV_REMOTE_WRITE) ? PyBUF_WRITABLE : PyBUF_SIMPLE))
        goto failed;
    Py_BEGIN_ALLOW_THREADS
    mr = rv_calls()->ibv_reg_mr(domain->pd, region->buffer.buf, (size_t)region->buffer.len, access);
    Py_END_ALLOW_THREADS
    if (!mr) {
        rv_failed(0, "ibv_reg_mr");
        goto failed;
    }
    region->mr = mr;
    region->domain = (Domain *)Py_NewRef(self);
    if (!keep) PyBuffer_Release(&region->buffer);
    return (PyObject *)region;
failed:
    Py_DECREF(region);
    return NULL;
}

/* Domain.window() -> MemoryWindow: not bound yet */
static PyObject *domain_window(PyObject *self, PyObject *unused) {
    Domain *domain = (Domain *)self;
    Window *window = (Window *)PyType_GenericAlloc(rv_window_type, 0);
    struct ibv_mw *mw;
    (void)unused;
    if (!window) return NULL;
    Py_BEGIN_ALLOW_THREADS
    mw = domain->pd->context->ops.alloc_mw(domain->pd, IBV_MW_TYPE_2);
    Py_END_ALLOW_THREADS
    if (!mw) {
        Py_DECREF(window);
        return rv_failed(0, "ibv_alloc_mw");
    }
    window->mw = mw;
    window->domain = (Domain *)Py_NewRef(self);
    return (PyObject *)window;
}

/* Returns the result of the call, 0 where the window had ended. */
static int end_window(Window *window) {
    struct ibv_mw *mw = window->mw;
    const struct ibv_context *context = mw ? mw->context : NULL;
    int failed = 0;
    if (!mw) return 0;
    window->mw = NULL;
    if (rv_is_parents(window->domain->identifier)) return 0;
    Py_BEGIN_ALLOW_THREADS
    failed = mw->context->ops.dealloc_mw(mw);
    Py_END_ALLOW_THREADS
    return failed && rv_let_go(context) ? 0 : failed;
}

/* MemoryWindow.end(): when it returns, no peer reaches memory through the window. */
static PyObject *window_end(PyObject *self, PyObject *unused) {
    const int failed = end_window((Window *)self);
    (void)unused;
    return failed ? rv_failed(failed, "ibv_dealloc_mw") : Py_NewRef(Py_None);
}

static void window_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    end_window((Window *)self);
    Py_XDECREF((PyObject *)((Window *)self)->domain);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *window_handle(PyObject *self, void *unused) {
    const struct ibv_mw *mw = ((Window *)self)->mw;
    (void)unused;
    return PyLong_FromUnsignedLong(mw ? mw->rkey : 0);
}

/* Returns the result of the call, 0 where the memory was not registered any more. */
static int deregister(Region *region) {
    struct ibv_mr *mr = region->mr;
    const struct ibv_context *context = region->domain ? region->domain->pd->context : NULL;
    int failed = 0;
    if (!mr) return 0;
    region->mr = NULL;
    if (!rv_is_parents(region->domain->identifier)) {
        Py_BEGIN_ALLOW_THREADS
        failed = rv_calls()->ibv_dereg_mr(mr);
        Py_END_ALLOW_THREADS
    }
    if (failed && rv_let_go(context)) failed = 0;
    /* The device may still reach memory that it has not let go of: that stays as it is, for good. */
    if (failed) {
        region->buffer.obj = NULL;
        return failed;
    }
    PyBuffer_Release(&region->buffer);
    return 0;
}

/* Region.deregister(): when it returns, the device does not touch the memory any more. */
static PyObject *region_deregister(PyObject *self, PyObject *unused) {
    const int failed = deregister((Region *)self);
    (void)unused;
    return failed ? rv_failed(failed, "ibv_dereg_mr") : Py_NewRef(Py_None);
}

/* Region.start_of(buffer) -> the place in the region at which the buffer begins */
static PyObject *region_start_of(PyObject *self, PyObject *given) {
    const struct ibv_mr *mr = ((Region *)self)->mr;
    uintptr_t start, octets;
    Py_buffer buffer;
    if (PyObject_GetBuffer(given, &buffer, PyBUF_SIMPLE)) return NULL;
    start = (uintptr_t)buffer.buf - (mr ? (uintptr_t)mr->addr : 0);
    octets = (uintptr_t)buffer.len;
    PyBuffer_Release(&buffer);
    if (mr && start <= mr->length && octets <= mr->length - start) return PyLong_FromUnsignedLongLong(start);
    PyErr_SetString(PyExc_ValueError, "the buffer is outside of the registered memory");
    return NULL;
}

static void region_free(PyObject *self) {
    Region *region = (Region *)self;
    PyTypeObject *type = Py_TYPE(self);
    deregister(region);
    if (region->buffer.obj) PyBuffer_Release(&region->buffer);
    Py_XDECREF((PyObject *)region->domain);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *region_number(PyObject *self, void *which) {
    const struct ibv_mr *mr = ((Region *)self)->mr;
    if (!mr) {
        PyErr_SetString(PyExc_ValueError, "the memory is not registered any more");
        return NULL;
    }
    return which ? PyLong_FromUnsignedLongLong((uintptr_t)mr->addr) : PyLong_FromUnsignedLong(mr->rkey);
}

static PyObject *domain_device(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(((Domain *)self)->device);
}

int rv_add_memory(PyObject *module) {
    static PyMethodDef domain_methods[] = {
        {"register", domain_register, METH_VARARGS, NULL}, {"window", domain_window, METH_NOARGS, NULL}, {0}};
    static PyGetSetDef domain_fields[] = {{"device", domain_device, NULL, NULL, NULL}, {0}};
    static PyType_Slot domain_slots[] = {{Py_tp_dealloc, domain_free}, {Py_tp_methods, domain_methods},
        {Py_tp_getset, domain_fields}, {0, NULL}};
    static PyType_Spec domain_spec = {"rpcrdma_verbs.Domain", sizeof(Domain), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, domain_slots};
    static PyMethodDef region_methods[] = {
        {"deregister", region_deregister, METH_NOARGS, NULL}, {"start_of", region_start_of, METH_O, NULL}, {0}};
    static PyGetSetDef region_fields[] = {{"handle", region_number, NULL, NULL, NULL},
        {"address", region_number, NULL, NULL, "address"}, {0}};
    static PyType_Slot region_slots[] = {{Py_tp_dealloc, region_free}, {Py_tp_methods, region_methods},
        {Py_tp_getset, region_fields}, {0, NULL}};
    static PyType_Spec region_spec = {"rpcrdma_verbs.Region", sizeof(Region), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, region_slots};
    static PyMethodDef window_methods[] = {{"end", window_end, METH_NOARGS, NULL}, {0}};
    static PyGetSetDef window_fields[] = {{"handle", window_handle, NULL, NULL, NULL}, {0}};
    static PyType_Slot window_slots[] = {{Py_tp_dealloc, window_free}, {Py_tp_methods, window_methods},
        {Py_tp_getset, window_fields}, {0, NULL}};
    static PyType_Spec window_spec = {"rpcrdma_verbs.MemoryWindow", sizeof(Window), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, window_slots};
    rv_domain_type = (PyTypeObject *)PyType_FromSpec(&domain_spec);
    rv_region_type = (PyTypeObject *)PyType_FromSpec(&region_spec);
    rv_window_type = (PyTypeObject *)PyType_FromSpec(&window_spec);
    if (!rv_domain_type || !rv_region_type || !rv_window_type) return -1;
    return PyModule_AddType(module, rv_domain_type) || PyModule_AddType(module, rv_region_type) ||
                   PyModule_AddType(module, rv_window_type)
               ? -1
               : 0;
}
