/* Protection domains and registered memory. */
#include "verbs.h"

PyTypeObject *rv_domain_type, *rv_region_type;

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
    if (domain->pd) {
        Py_BEGIN_ALLOW_THREADS
        rv_calls()->ibv_dealloc_pd(domain->pd);
        Py_END_ALLOW_THREADS
        domain->identifier->users--;
    }
    Py_XDECREF((PyObject *)domain->identifier);
    Py_XDECREF(domain->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Domain.register(buffer, access) -> Region: pins the memory, and keeps the buffer until `deregister`. */
static PyObject *domain_register(PyObject *self, PyObject *args) {
    Domain *domain = (Domain *)self;
    PyObject *given;
    Region *region;
    struct ibv_mr *mr;
    int access;
    if (!PyArg_ParseTuple(args, "Oi", &given, &access)) return NULL;
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
    return (PyObject *)region;
failed:
    Py_DECREF(region);
    return NULL;
}

/* Returns the result of the call, 0 where the memory was not registered any more. */
static int deregister(Region *region) {
    struct ibv_mr *mr = region->mr;
    int failed = 0;
    if (!mr) return 0;
    region->mr = NULL;
    Py_BEGIN_ALLOW_THREADS
    failed = rv_calls()->ibv_dereg_mr(mr);
    Py_END_ALLOW_THREADS
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
    static PyMethodDef domain_methods[] = {{"register", domain_register, METH_VARARGS, NULL}, {0}};
    static PyGetSetDef domain_fields[] = {{"device", domain_device, NULL, NULL, NULL}, {0}};
    static PyType_Slot domain_slots[] = {{Py_tp_dealloc, domain_free}, {Py_tp_methods, domain_methods},
        {Py_tp_getset, domain_fields}, {0, NULL}};
    static PyType_Spec domain_spec = {"rpcrdma_verbs.Domain", sizeof(Domain), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, domain_slots};
    static PyMethodDef region_methods[] = {{"deregister", region_deregister, METH_NOARGS, NULL}, {0}};
    static PyGetSetDef region_fields[] = {{"handle", region_number, NULL, NULL, NULL},
        {"address", region_number, NULL, NULL, "address"}, {0}};
    static PyType_Slot region_slots[] = {{Py_tp_dealloc, region_free}, {Py_tp_methods, region_methods},
        {Py_tp_getset, region_fields}, {0, NULL}};
    static PyType_Spec region_spec = {"rpcrdma_verbs.Region", sizeof(Region), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, region_slots};
    rv_domain_type = (PyTypeObject *)PyType_FromSpec(&domain_spec);
    rv_region_type = (PyTypeObject *)PyType_FromSpec(&region_spec);
    if (!rv_domain_type || !rv_region_type) return -1;
    return PyModule_AddType(module, rv_domain_type) || PyModule_AddType(module, rv_region_type) ? -1 : 0;
}
