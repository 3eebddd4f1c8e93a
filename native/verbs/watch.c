/* A device as long as it exists: its asynchronous events, and the release of it when it is to be removed. */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD
    struct ibv_context *context; /* of this object alone, so that no other reader takes its events */
    Identifier *identifier;      /* whose context librdmacm shares among all identifiers of the device */
} Device;

static PyTypeObject *device_type;

/* ConnectionIdentifier.open_device() -> Device: that of an identifier with a device */
PyObject *rv_open_device(PyObject *self, PyObject *unused) {
    Identifier *identifier = (Identifier *)self;
    Device *device;
    struct ibv_context *context;
    (void)unused;
    if (!identifier->id || !identifier->id->verbs) {
        PyErr_SetString(PyExc_ValueError, "the identifier has no device");
        return NULL;
    }
    device = (Device *)PyType_GenericAlloc(device_type, 0);
    if (!device) return NULL;
    Py_BEGIN_ALLOW_THREADS
    context = rv_calls()->ibv_open_device(identifier->id->verbs->device);
    Py_END_ALLOW_THREADS
    if (!context) {
        rv_failed(0, "ibv_open_device");
        goto failed;
    }
    device->context = context;
    device->identifier = (Identifier *)Py_NewRef(self);
    identifier->users++;
    if (!rv_not_blocking(context->async_fd)) return (PyObject *)device;
failed:
    Py_DECREF(device);
    return NULL;
}

static void close_device(Device *device) {
    struct ibv_context *context = device->context;
    if (!context) return;
    device->context = NULL;
    if (!rv_is_parents(device->identifier)) {
        Py_BEGIN_ALLOW_THREADS
        rv_calls()->ibv_close_device(context);
        Py_END_ALLOW_THREADS
    }
    device->identifier->users--;
    Py_DECREF((PyObject *)device->identifier);
}

static void device_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    close_device((Device *)self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *device_close(PyObject *self, PyObject *unused) {
    (void)unused;
    close_device((Device *)self);
    return Py_NewRef(Py_None);
}

static struct ibv_context *context_of(PyObject *self) {
    struct ibv_context *context = ((Device *)self)->context;
    if (!context) PyErr_SetString(PyExc_ValueError, "the device is closed");
    return context;
}

static PyObject *device_fileno(PyObject *self, PyObject *unused) {
    const struct ibv_context *context = context_of(self);
    (void)unused;
    return context ? PyLong_FromLong(context->async_fd) : NULL;
}

/* Device.node: the name of its character device, as in /sys/class/infiniband_verbs */
static PyObject *device_node(PyObject *self, void *unused) {
    const struct ibv_context *context = context_of(self);
    (void)unused;
    return context ? PyUnicode_FromString(context->device->dev_name) : NULL;
}

/* Device.events() -> [(kind, port)]: all that have happened; the port has a meaning for events of a port */
static PyObject *device_events(PyObject *self, PyObject *unused) {
    struct ibv_context *context = context_of(self);
    struct ibv_async_event event;
    PyObject *found = context ? PyList_New(0) : NULL;
    (void)unused;
    while (found && !rv_calls()->ibv_get_async_event(context, &event)) {
        PyObject *told = Py_BuildValue("(ii)", event.event_type, event.port);
        rv_calls()->ibv_ack_async_event(&event);
        if (!told || PyList_Append(found, told)) Py_CLEAR(found);
        Py_XDECREF(told);
    }
    return found;
}

/* Device.let_go(): closes the descriptors by which this process holds the device, so that its removal goes on; EBUSY
   while there are queue pairs, perhaps of another event loop. librdmacm would close them when the next device comes:
   their numbers stay taken until then, by a file that refuses every command. */
static PyObject *device_let_go(PyObject *self, PyObject *unused) {
    struct rdma_cm_id *id;
    int failed, refusing;
    (void)unused;
    if (!context_of(self)) return NULL;
    id = ((Device *)self)->identifier->id;
    /* With the interpreter's lock, so that no queue pair is made meanwhile. */
    if (rv_has_queue_pairs(id->verbs)) return rv_failed(EBUSY, "let_go");
    refusing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    failed = refusing < 0 || dup3(refusing, id->verbs->async_fd, O_CLOEXEC) < 0 ||
             dup3(refusing, id->verbs->cmd_fd, O_CLOEXEC) < 0;
    if (failed) rv_failed(0, "dup3");
    if (refusing >= 0) close(refusing);
    if (failed) return NULL;
    close_device((Device *)self);
    return Py_NewRef(Py_None);
}

int rv_let_go(const struct ibv_context *context) {
    const int flags = fcntl(context->cmd_fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY;
}

int rv_add_watch(PyObject *module) {
    static PyMethodDef methods[] = {{"fileno", device_fileno, METH_NOARGS, NULL},
        {"events", device_events, METH_NOARGS, NULL}, {"let_go", device_let_go, METH_NOARGS, NULL},
        {"close", device_close, METH_NOARGS, NULL}, {0}};
    static PyGetSetDef fields[] = {{"node", device_node, NULL, NULL, NULL}, {0}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, device_free}, {Py_tp_methods, methods}, {Py_tp_getset, fields},
        {0, NULL}};
    static PyType_Spec spec = {"rpcrdma_verbs.Device", sizeof(Device), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    device_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return device_type ? PyModule_AddType(module, device_type) : -1;
}
