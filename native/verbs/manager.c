/* The connection manager: event channels and identifiers. */
#include "verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum {
    EVENTS = 64,            /* taken in one call, before other descriptors get their turn */
    RETRIES = 6,            /* as Linux's NFS/RDMA client: a peer that is gone is found out within seconds */
    RECEIVER_NOT_READY = 0, /* RPC-over-RDMA has a flow control of its own (RFC 8166 section 3.3) */
};

typedef struct {
    PyObject_HEAD
    struct rdma_event_channel *channel;
    /* Held while an event is taken and while an identifier is destroyed, without the interpreter's lock: librdmacm
       looks into the identifier of an event. */
    pthread_mutex_t lock;
    PyObject *identifiers; /* their addresses by key: those of Python objects that exist, without a reference */
    unsigned long long last_key;
    unsigned int forks; /* rv_forks when it was made */
} Channel;

/* The content of an event, which its acknowledgement frees. */
typedef struct {
    struct rdma_cm_id *id;
    unsigned long long key;
    int event, status;
    uint8_t private_data[256], octets, responder_resources, initiator_depth;
} Copied;

static PyTypeObject *channel_type, *identifier_type;

static int read_address(const char *host, unsigned int port, unsigned int scope, struct sockaddr_storage *address) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_scope_id = scope};
    memset(address, 0, sizeof *address);
    if (port > UINT16_MAX) {
        PyErr_Format(PyExc_ValueError, "%u is no port", port);
        return -1;
    }
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(address, &v4, sizeof v4);
    } else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(address, &v6, sizeof v6);
    } else {
        PyErr_Format(PyExc_ValueError, "%s is no numeric address", host);
        return -1;
    }
    return 0;
}

static PyObject *address_tuple(const struct sockaddr_storage *address) {
    char host[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, address, sizeof v4);
    memcpy(&v6, address, sizeof v6);
    if (address->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    /* Both families have the port at the same place. */
    return Py_BuildValue("(si)", host, (int)ntohs(v4.sin_port));
}

static void destroy(Channel *channel, struct rdma_cm_id *id) {
    if (channel->forks != rv_forks) return;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&channel->lock);
    rv_calls()->rdma_destroy_id(id);
    pthread_mutex_unlock(&channel->lock);
    Py_END_ALLOW_THREADS
}

/* An object for `id`, or for a new one where that is NULL. A failure destroys it. */
static Identifier *new_identifier(Channel *channel, struct rdma_cm_id *id) {
    const uintptr_t key = (uintptr_t)++channel->last_key;
    Identifier *identifier;
    PyObject *address;
    int failed = 0;
    if (id) {
        id->context = (void *)key;
    } else {
        Py_BEGIN_ALLOW_THREADS
        failed = rv_calls()->rdma_create_id(channel->channel, &id, (void *)key, RDMA_PS_TCP);
        Py_END_ALLOW_THREADS
    }
    identifier = failed ? NULL : (Identifier *)PyType_GenericAlloc(identifier_type, 0);
    if (failed)
        rv_failed(0, "rdma_create_id");
    else if (!identifier)
        destroy(channel, id);
    if (!identifier) return NULL;
    identifier->id = id;
    identifier->channel = Py_NewRef((PyObject *)channel);
    identifier->forks = channel->forks;
    identifier->key = PyLong_FromUnsignedLongLong(key);
    address = PyLong_FromVoidPtr(identifier);
    if (!identifier->key || !address || PyDict_SetItem(channel->identifiers, identifier->key, address))
        Py_CLEAR(identifier);
    Py_XDECREF(address);
    return identifier;
}

static void identifier_destroy(Identifier *identifier) {
    struct rdma_cm_id *id = identifier->id;
    Channel *channel = (Channel *)identifier->channel;
    PyObject *kind, *value, *trace;
    if (!id) return;
    identifier->id = NULL;
    /* The object may be freed while an exception is on its way. */
    PyErr_Fetch(&kind, &value, &trace);
    if (identifier->key && PyDict_DelItem(channel->identifiers, identifier->key)) PyErr_Clear();
    destroy(channel, id);
    PyErr_Restore(kind, value, trace);
}

static void identifier_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    identifier_destroy((Identifier *)self);
    Py_XDECREF(((Identifier *)self)->channel);
    Py_XDECREF(((Identifier *)self)->key);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ConnectionIdentifier.close(): ends it now; nothing while a domain, queue pair or Device is left, which keep it. */
static PyObject *identifier_close(PyObject *self, PyObject *unused) {
    (void)unused;
    if (!((Identifier *)self)->users) identifier_destroy((Identifier *)self);
    return Py_NewRef(Py_None);
}

static struct rdma_cm_id *id_of(PyObject *self) {
    struct rdma_cm_id *id = ((Identifier *)self)->id;
    if (!id) PyErr_SetString(PyExc_ValueError, "the identifier is closed");
    return id;
}

/* The call without the interpreter's lock; returns None, or NULL with an OSError. */
#define WITHOUT_LOCK(name, ...) \
    int failed; \
    Py_BEGIN_ALLOW_THREADS \
    failed = rv_calls()->name(__VA_ARGS__); \
    Py_END_ALLOW_THREADS \
    return failed ? rv_failed(0, #name) : Py_NewRef(Py_None)

static PyObject *identifier_bind(PyObject *self, PyObject *args) {
    struct rdma_cm_id *id = id_of(self);
    struct sockaddr_storage address;
    const char *host;
    unsigned int port, scope = 0;
    if (!id || !PyArg_ParseTuple(args, "sI|I", &host, &port, &scope) || read_address(host, port, scope, &address))
        return NULL;
    WITHOUT_LOCK(rdma_bind_addr, id, (struct sockaddr *)&address);
}

static PyObject *identifier_resolve_address(PyObject *self, PyObject *args) {
    struct rdma_cm_id *id = id_of(self);
    struct sockaddr_storage address;
    const char *host;
    unsigned int port, scope;
    int timeout_ms;
    if (!id || !PyArg_ParseTuple(args, "sIIi", &host, &port, &scope, &timeout_ms) ||
        read_address(host, port, scope, &address))
        return NULL;
    WITHOUT_LOCK(rdma_resolve_addr, id, NULL, (struct sockaddr *)&address, timeout_ms);
}

static PyObject *identifier_resolve_route(PyObject *self, PyObject *timeout) {
    struct rdma_cm_id *id = id_of(self);
    const long timeout_ms = PyLong_AsLong(timeout);
    if (!id || PyErr_Occurred()) return NULL;
    WITHOUT_LOCK(rdma_resolve_route, id, (int)timeout_ms);
}

static PyObject *identifier_listen(PyObject *self, PyObject *backlog) {
    struct rdma_cm_id *id = id_of(self);
    const long count = PyLong_AsLong(backlog);
    if (!id || PyErr_Occurred()) return NULL;
    WITHOUT_LOCK(rdma_listen, id, (int)count);
}

static int read_parameters(PyObject *args, struct rdma_conn_param *parameters) {
    const char *data;
    Py_ssize_t octets;
    unsigned char responder_resources, initiator_depth;
    if (!PyArg_ParseTuple(args, "y#bb", &data, &octets, &responder_resources, &initiator_depth)) return -1;
    if (octets > UINT8_MAX) {
        PyErr_SetString(PyExc_ValueError, "private data of more than 255 octets");
        return -1;
    }
    *parameters = (struct rdma_conn_param){
        .private_data = data,
        .private_data_len = (uint8_t)octets,
        .responder_resources = responder_resources,
        .initiator_depth = initiator_depth,
        .retry_count = RETRIES,
        .rnr_retry_count = RECEIVER_NOT_READY,
    };
    return 0;
}

/* ConnectionIdentifier.connect(private_data, responder_resources, initiator_depth), and `accept` likewise */
static PyObject *identifier_connect(PyObject *self, PyObject *args) {
    struct rdma_cm_id *id = id_of(self);
    struct rdma_conn_param parameters;
    if (!id || read_parameters(args, &parameters)) return NULL;
    WITHOUT_LOCK(rdma_connect, id, &parameters);
}

static PyObject *identifier_accept(PyObject *self, PyObject *args) {
    struct rdma_cm_id *id = id_of(self);
    struct rdma_conn_param parameters;
    if (!id || read_parameters(args, &parameters)) return NULL;
    WITHOUT_LOCK(rdma_accept, id, &parameters);
}

static PyObject *identifier_reject(PyObject *self, PyObject *args) {
    struct rdma_cm_id *id = id_of(self);
    const char *data;
    Py_ssize_t octets;
    if (!id || !PyArg_ParseTuple(args, "y#", &data, &octets)) return NULL;
    if (octets > UINT8_MAX) return PyErr_Format(PyExc_ValueError, "private data of more than 255 octets");
    WITHOUT_LOCK(rdma_reject, id, data, (uint8_t)octets);
}

static PyObject *identifier_disconnect(PyObject *self, PyObject *unused) {
    struct rdma_cm_id *id = id_of(self);
    (void)unused;
    if (!id) return NULL;
    WITHOUT_LOCK(rdma_disconnect, id);
}

/* ConnectionIdentifier.local and .peer: (host, port) */
static PyObject *identifier_address(PyObject *self, void *which) {
    const struct rdma_cm_id *id = id_of(self);
    return id ? address_tuple(which ? &id->destination : &id->source) : NULL;
}

/* ConnectionIdentifier.device: the name of its device, or None before one was found */
static PyObject *identifier_device(PyObject *self, void *unused) {
    const struct rdma_cm_id *id = id_of(self);
    (void)unused;
    if (!id) return NULL;
    return id->verbs ? PyUnicode_FromString(rv_calls()->ibv_get_device_name(id->verbs->device)) : Py_NewRef(Py_None);
}

/* ConnectionIdentifier.port: the number of its port of the device, or 0 before one was found */
static PyObject *identifier_port(PyObject *self, void *unused) {
    const struct rdma_cm_id *id = id_of(self);
    (void)unused;
    return id ? PyLong_FromLong(id->port_num) : NULL;
}

static PyObject *channel_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    const Calls *calls = rv_calls();
    Channel *channel;
    struct rdma_event_channel *made;
    (void)keywords;
    if (!calls || !PyArg_ParseTuple(args, "")) return NULL;
    channel = (Channel *)PyType_GenericAlloc(type, 0);
    if (!channel) return NULL;
    pthread_mutex_init(&channel->lock, NULL);
    Py_BEGIN_ALLOW_THREADS
    made = calls->rdma_create_event_channel();
    Py_END_ALLOW_THREADS
    channel->channel = made;
    channel->forks = rv_forks;
    if (!made)
        rv_failed(0, "rdma_create_event_channel");
    else if ((channel->identifiers = PyDict_New()) && !rv_not_blocking(made->fd))
        return (PyObject *)channel;
    Py_DECREF(channel);
    return NULL;
}

static void channel_free(PyObject *self) {
    Channel *channel = (Channel *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (channel->channel && channel->forks == rv_forks) {
        Py_BEGIN_ALLOW_THREADS
        rv_calls()->rdma_destroy_event_channel(channel->channel);
        Py_END_ALLOW_THREADS
    }
    pthread_mutex_destroy(&channel->lock);
    Py_XDECREF(channel->identifiers);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *channel_fileno(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(((Channel *)self)->channel->fd);
}

static PyObject *channel_identifier(PyObject *self, PyObject *unused) {
    (void)unused;
    return (PyObject *)new_identifier((Channel *)self, NULL);
}

/* Takes the next event and acknowledges it: 0, or the error's number. */
static int take_event(Channel *channel, Copied *copied) {
    struct rdma_cm_event *event;
    int failed = 0;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&channel->lock);
    if (rv_calls()->rdma_get_cm_event(channel->channel, &event)) {
        failed = errno;
    } else {
        const int number = event->event;
        const int carries = number == RDMA_CM_CONNECT_REQUEST || number == RDMA_CM_CONNECT_RESPONSE ||
                            number == RDMA_CM_REJECTED || number == RDMA_CM_ESTABLISHED;
        *copied = (Copied){.id = event->id, .key = (uintptr_t)event->id->context, .event = number,
            .status = event->status};
        if (carries) {
            copied->responder_resources = event->conn.responder_resources;
            copied->initiator_depth = event->conn.initiator_depth;
        }
        if (carries && event->conn.private_data) {
            copied->octets = event->conn.private_data_len;
            memcpy(copied->private_data, event->conn.private_data, copied->octets);
        }
        rv_calls()->rdma_ack_cm_event(event);
    }
    pthread_mutex_unlock(&channel->lock);
    Py_END_ALLOW_THREADS
    return failed;
}

/* The object for the event, or NULL: with an exception, or without one where the identifier is closed. */
static PyObject *event_tuple(Channel *channel, const Copied *copied) {
    PyObject *number = PyLong_FromUnsignedLongLong(copied->key), *address, *of, *listener = Py_None;
    if (!number) return NULL;
    address = PyDict_GetItemWithError(channel->identifiers, number);
    Py_DECREF(number);
    if (copied->event == RDMA_CM_CONNECT_REQUEST) {
        /* A new identifier has the context of the one that listens. */
        if (!address) {
            destroy(channel, copied->id);
            return NULL;
        }
        listener = (PyObject *)PyLong_AsVoidPtr(address);
        of = (PyObject *)new_identifier(channel, copied->id);
        if (!of) return NULL;
    } else {
        if (!address) return NULL;
        of = Py_NewRef((PyObject *)PyLong_AsVoidPtr(address));
    }
    return Py_BuildValue("(NOiiy#ii)", of, listener, copied->event, copied->status,
        (const char *)copied->private_data, (Py_ssize_t)copied->octets, (int)copied->responder_resources,
        (int)copied->initiator_depth);
}

/* EventChannel.events() -> [(identifier, listener or None, event, status, private data, responder_resources,
   initiator_depth)]: those that have happened, EVENTS at most; the descriptor stays readable for more */
static PyObject *channel_events(PyObject *self, PyObject *unused) {
    Channel *channel = (Channel *)self;
    PyObject *found = PyList_New(0);
    Copied copied;
    int failed = 0;
    (void)unused;
    while (found && PyList_Size(found) < EVENTS && !(failed = take_event(channel, &copied))) {
        PyObject *event = event_tuple(channel, &copied);
        if (event ? PyList_Append(found, event) : PyErr_Occurred() != NULL) Py_CLEAR(found);
        Py_XDECREF(event);
    }
    /* Events that were taken come first: the next call meets an error that lasts. */
    if (!found || failed == EAGAIN || failed == EINTR || PyList_Size(found)) return found;
    Py_DECREF(found);
    return rv_failed(failed, "rdma_get_cm_event");
}

int rv_add_manager(PyObject *module) {
    static PyMethodDef channel_methods[] = {{"fileno", channel_fileno, METH_NOARGS, NULL},
        {"identifier", channel_identifier, METH_NOARGS, NULL}, {"events", channel_events, METH_NOARGS, NULL}, {0}};
    static PyType_Slot channel_slots[] = {{Py_tp_new, channel_new}, {Py_tp_dealloc, channel_free},
        {Py_tp_methods, channel_methods}, {0, NULL}};
    static PyType_Spec channel_spec = {"rpcrdma_verbs.EventChannel", sizeof(Channel), 0, Py_TPFLAGS_DEFAULT,
        channel_slots};
    static PyMethodDef methods[] = {{"bind", identifier_bind, METH_VARARGS, NULL},
        {"resolve_address", identifier_resolve_address, METH_VARARGS, NULL},
        {"resolve_route", identifier_resolve_route, METH_O, NULL}, {"listen", identifier_listen, METH_O, NULL},
        {"connect", identifier_connect, METH_VARARGS, NULL}, {"accept", identifier_accept, METH_VARARGS, NULL},
        {"reject", identifier_reject, METH_VARARGS, NULL}, {"disconnect", identifier_disconnect, METH_NOARGS, NULL},
        {"domain", rv_new_domain, METH_NOARGS, NULL}, {"queue_pair", rv_new_queue_pair, METH_VARARGS, NULL},
        {"open_device", rv_open_device, METH_NOARGS, NULL}, {"close", identifier_close, METH_NOARGS, NULL}, {0}};
    static PyGetSetDef fields[] = {{"local", identifier_address, NULL, NULL, NULL},
        {"peer", identifier_address, NULL, NULL, "peer"}, {"device", identifier_device, NULL, NULL, NULL},
        {"port", identifier_port, NULL, NULL, NULL}, {0}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, identifier_free}, {Py_tp_methods, methods}, {Py_tp_getset, fields},
        {0, NULL}};
    static PyType_Spec spec = {"rpcrdma_verbs.ConnectionIdentifier", sizeof(Identifier), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    channel_type = (PyTypeObject *)PyType_FromSpec(&channel_spec);
    identifier_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!channel_type || !identifier_type) return -1;
    return PyModule_AddType(module, channel_type) || PyModule_AddType(module, identifier_type) ? -1 : 0;
}
