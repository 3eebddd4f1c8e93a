/* Queue pairs, each with a completion queue and its channel: posts lists of work, and takes lists of completions.

   Of each posted work request the object and its entries are kept until its completion is taken, or until the device
   has let go of the queue pair: so no memory is freed under the device. */
#include "verbs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { TAKEN = 64 }; /* completions in one call of the library */
/* The flag by which rxe tells of an invalidated handle, as the kernel has it: to libibverbs it is another. */
enum { RXE_WC_WITH_INV = 4 };

typedef struct QueuePair {
    PyObject_HEAD
    /* The list of all that have, or are about to have, a completion queue; `at` is the place that names this one. */
    struct QueuePair *next, **at;
    const struct ibv_context *context;
    Identifier *identifier;
    PyObject *domain, *posted; /* (object, entries, window) by the number of the work request */
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp; /* NULL once it has ended */
    uint64_t last_number;
    int send_entries, receive_entries, armed; /* `armed`: the descriptor becomes readable at the next completion */
} QueuePair;

static PyTypeObject *queue_pair_type;
static QueuePair *all;

/* The work requests of one list, and the entries of all of them. */
typedef struct {
    struct ibv_send_wr *works;
    struct ibv_sge *entries;
} Batch;

/* ConnectionIdentifier.queue_pair(domain, sends, receives, send_entries, receive_entries) -> QueuePair: the depths of
   both queues, and the number of places that their work requests may gather from or scatter to. */
PyObject *rv_new_queue_pair(PyObject *self, PyObject *args) {
    const Calls *calls = rv_calls();
    Identifier *identifier = (Identifier *)self;
    QueuePair *pair;
    PyObject *domain;
    struct ibv_comp_channel *channel = NULL;
    struct ibv_cq *cq = NULL;
    unsigned int sends, receives, send_entries, receive_entries;
    int failed;
    if (!calls || !PyArg_ParseTuple(args, "O!IIII", rv_domain_type, &domain, &sends, &receives, &send_entries,
                      &receive_entries))
        return NULL;
    if (((Domain *)domain)->identifier != identifier) {
        PyErr_SetString(PyExc_ValueError, "the domain is of another identifier");
        return NULL;
    }
    pair = (QueuePair *)PyType_GenericAlloc(queue_pair_type, 0);
    if (!pair) return NULL;
    pair->identifier = (Identifier *)Py_NewRef(self);
    identifier->users++;
    pair->context = identifier->id->verbs;
    pair->next = all;
    pair->at = &all;
    if (all) all->at = &pair->next;
    all = pair;
    pair->domain = Py_NewRef(domain);
    pair->send_entries = (int)send_entries;
    pair->receive_entries = (int)receive_entries;
    if (!(pair->posted = PyDict_New())) goto failed;
    Py_BEGIN_ALLOW_THREADS
    channel = calls->ibv_create_comp_channel(identifier->id->verbs);
    if (channel) cq = calls->ibv_create_cq(identifier->id->verbs, (int)(sends + receives), NULL, channel, 0);
    Py_END_ALLOW_THREADS
    pair->channel = channel;
    pair->cq = cq;
    if (!cq) {
        rv_failed(0, channel ? "ibv_create_cq" : "ibv_create_comp_channel");
        goto failed;
    }
    if (rv_not_blocking(channel->fd)) goto failed;
    failed = identifier->id->verbs->ops.req_notify_cq(cq, 0);
    if (failed) {
        rv_failed(failed, "ibv_req_notify_cq");
        goto failed;
    }
    struct ibv_qp_init_attr initial = {.send_cq = cq, .recv_cq = cq, .max_send_wr = sends, .max_recv_wr = receives,
        .max_send_sge = send_entries, .max_recv_sge = receive_entries, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
    Py_BEGIN_ALLOW_THREADS
    failed = calls->rdma_create_qp(identifier->id, ((Domain *)domain)->pd, &initial);
    Py_END_ALLOW_THREADS
    if (failed) {
        rv_failed(0, "rdma_create_qp");
        goto failed;
    }
    pair->qp = identifier->id->qp;
    pair->armed = 1;
    return (PyObject *)pair;
failed:
    Py_DECREF(pair);
    return NULL;
}

static void end(QueuePair *pair) {
    if (!pair->qp) return;
    pair->qp = NULL;
    if (!rv_is_parents(pair->identifier)) {
        Py_BEGIN_ALLOW_THREADS
        rv_calls()->rdma_destroy_qp(pair->identifier->id);
        Py_END_ALLOW_THREADS
    }
    PyDict_Clear(pair->posted);
}

static void destroy(QueuePair *pair) {
    struct ibv_cq *cq = pair->cq;
    struct ibv_comp_channel *channel = pair->channel;
    Identifier *identifier = pair->identifier;
    end(pair);
    pair->cq = NULL;
    pair->channel = NULL;
    pair->identifier = NULL;
    if (!identifier) return;
    if (!rv_is_parents(identifier)) {
        Py_BEGIN_ALLOW_THREADS
        if (cq) rv_calls()->ibv_destroy_cq(cq);
        /* On a device that has failed, neither call may have an effect: its removal waits for this descriptor. */
        if (channel && rv_calls()->ibv_destroy_comp_channel(channel)) close(channel->fd);
        Py_END_ALLOW_THREADS
    }
    *pair->at = pair->next;
    if (pair->next) pair->next->at = pair->at;
    Py_CLEAR(pair->domain);
    identifier->users--;
    Py_DECREF((PyObject *)identifier);
}

static void queue_pair_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    destroy((QueuePair *)self);
    Py_XDECREF(((QueuePair *)self)->posted);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* QueuePair.close(): destroys its completion queue and its descriptor as well. */
static PyObject *queue_pair_close(PyObject *self, PyObject *unused) {
    (void)unused;
    destroy((QueuePair *)self);
    return Py_NewRef(Py_None);
}

int rv_has_queue_pairs(const struct ibv_context *context) {
    const QueuePair *pair = all;
    while (pair && pair->context != context) pair = pair->next;
    return pair != NULL;
}

static int is_closed(const QueuePair *pair) {
    if (!pair->channel) PyErr_SetString(PyExc_ValueError, "the queue pair is closed");
    return !pair->channel;
}

/* QueuePair.end(): the device lets go of it and of all posted memory; no completion is reported any more. */
static PyObject *queue_pair_end(PyObject *self, PyObject *unused) {
    (void)unused;
    end((QueuePair *)self);
    return Py_NewRef(Py_None);
}

static PyObject *queue_pair_fileno(PyObject *self, PyObject *unused) {
    (void)unused;
    return is_closed((QueuePair *)self) ? NULL : PyLong_FromLong(((QueuePair *)self)->channel->fd);
}

/* QueuePair.broken() -> whether the device has put it into the state of an error */
static PyObject *queue_pair_broken(PyObject *self, PyObject *unused) {
    QueuePair *pair = (QueuePair *)self;
    union ibv_qp_attr attributes, initial;
    int failed;
    (void)unused;
    if (!pair->qp) return Py_NewRef(Py_False);
    Py_BEGIN_ALLOW_THREADS
    failed = rv_calls()->ibv_query_qp(pair->qp, &attributes, IBV_QP_STATE, &initial);
    Py_END_ALLOW_THREADS
    if (failed) return rv_failed(failed, "ibv_query_qp");
    return PyBool_FromLong(attributes.state == IBV_QPS_ERR);
}

/* Returns the item if it is a tuple, or NULL with an exception set. */
static PyObject *tuple(PyObject *item) {
    if (!item || PyTuple_Check(item)) return item;
    PyErr_SetString(PyExc_TypeError, "a work request is a tuple, and each of its entries is one");
    return NULL;
}

/* Reads entries ((region, start, octets), ...) into `to`; returns their number, or -1 with an exception set. */
static int read_entries(const QueuePair *pair, PyObject *entries, int most, struct ibv_sge *to) {
    const Py_ssize_t count = PyTuple_Size(entries);
    if (count > most) {
        PyErr_SetString(PyExc_ValueError, "more entries than the queue pair has");
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *entry = tuple(PyTuple_GetItem(entries, i)), *region;
        unsigned long long start, octets;
        if (!entry || !PyArg_ParseTuple(entry, "O!KK", rv_region_type, &region, &start, &octets)) return -1;
        const struct ibv_mr *mr = ((Region *)region)->mr;
        if (!mr || (PyObject *)((Region *)region)->domain != pair->domain || octets > UINT32_MAX ||
            start > mr->length || octets > mr->length - start) {
            PyErr_SetString(PyExc_ValueError, "an entry is outside of registered memory of this domain");
            return -1;
        }
        to[i] = (struct ibv_sge){(uintptr_t)mr->addr + start, (uint32_t)octets, mr->lkey};
    }
    return (int)count;
}

/* Keeps the objects of the next work request; returns its number, or 0 with an exception set. */
static uint64_t keep(QueuePair *pair, PyObject *object, PyObject *entries, PyObject *window) {
    PyObject *number = PyLong_FromUnsignedLongLong(++pair->last_number);
    PyObject *kept = PyTuple_Pack(3, object, entries, window);
    const int failed = !number || !kept || PyDict_SetItem(pair->posted, number, kept);
    Py_XDECREF(number);
    Py_XDECREF(kept);
    return failed ? 0 : pair->last_number;
}

/* Forgets the work requests from `first` to the last one, which were not posted. */
static void forget_from(QueuePair *pair, uint64_t first) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    for (uint64_t number = first; number <= pair->last_number; number++) {
        PyObject *key = PyLong_FromUnsignedLongLong(number);
        if (!key || PyDict_DelItem(pair->posted, key)) PyErr_Clear();
        Py_XDECREF(key);
    }
    PyErr_Restore(kind, value, trace);
}

/* Makes a work request that binds a window to its only entry, with rights and under a new handle: 0, or -1 with an
   exception set. */
static int read_bind(
    QueuePair *pair, struct ibv_send_wr *work, PyObject *window, PyObject *entries, uint32_t handle, uint64_t access) {
    struct ibv_mw *mw = Py_IS_TYPE(window, rv_window_type) ? ((Window *)window)->mw : NULL;
    if (!mw || (PyObject *)((Window *)window)->domain != pair->domain || work->num_sge != 1) {
        PyErr_SetString(PyExc_ValueError, "a window is bound to one entry, and both are of the queue pair's domain");
        return -1;
    }
    Region *region = (Region *)PyTuple_GetItem(PyTuple_GetItem(entries, 0), 0);
    work->num_sge = 0;
    work->bind_mw.mw = mw;
    work->bind_mw.rkey = handle;
    work->bind_mw.mr = region->mr;
    work->bind_mw.addr = work->sg_list->addr;
    work->bind_mw.length = work->sg_list->length;
    work->bind_mw.access = (unsigned int)access;
    return 0;
}

/* Stores the handles of the windows that were bound, as the library leaves it to its user. */
static void store_handles(const struct ibv_send_wr *work, const struct ibv_send_wr *bad) {
    for (; work && work != bad; work = work->next)
        if (work->opcode == IBV_WR_BIND_MW) work->bind_mw.mw->rkey = work->bind_mw.rkey;
}

/* Reads a list of work requests into arrays of the batch: 0, or -1 with an exception set. */
static int read_batch(QueuePair *pair, PyObject *list, int most, Batch *batch) {
    const Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : 0;
    if (!PyList_Check(list)) PyErr_SetString(PyExc_TypeError, "work requests are posted in a list");
    batch->works = PyMem_Calloc((size_t)count + 1, sizeof *batch->works);
    batch->entries = PyMem_Calloc((size_t)count * (size_t)most + 1, sizeof *batch->entries);
    if (!batch->works || !batch->entries) PyErr_NoMemory();
    if (!PyErr_Occurred() && !pair->qp) PyErr_SetString(PyExc_ValueError, "the queue pair has ended");
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        struct ibv_send_wr *work = &batch->works[i];
        PyObject *item = tuple(PyList_GetItem(list, i)), *object, *entries, *window = Py_None;
        unsigned long long address = 0;
        unsigned int handle = 0;
        if (!item || !PyArg_ParseTuple(item, "OO!|iIKO", &object, &PyTuple_Type, &entries, &work->opcode, &handle,
                         &address, &window))
            return -1;
        work->sg_list = batch->entries + i * most;
        work->num_sge = read_entries(pair, entries, most, work->sg_list);
        if (work->num_sge < 0) return -1;
        if (work->opcode == IBV_WR_BIND_MW) {
            if (read_bind(pair, work, window, entries, handle, address)) return -1;
        } else {
            work->invalidate_rkey = work->rkey = handle;
            work->remote_addr = address;
        }
        if (!(work->wr_id = keep(pair, object, entries, window))) return -1;
        if (i) work[-1].next = work;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *post(QueuePair *pair, PyObject *list, int receives) {
    Batch batch = {NULL, NULL};
    uint64_t unposted = pair->last_number + 1;
    int failed = 0;
    if (!read_batch(pair, list, receives ? pair->receive_entries : pair->send_entries, &batch) && batch.works->wr_id) {
        const struct ibv_context_ops *ops = &pair->channel->context->ops;
        struct ibv_send_wr *bad = NULL;
        Py_BEGIN_ALLOW_THREADS
        /* The fields of a receive are the first ones of a send: see abi.h. */
        failed = receives ? ops->post_recv(pair->qp, (struct ibv_recv_wr *)batch.works, (struct ibv_recv_wr **)&bad)
                          : ops->post_send(pair->qp, batch.works, &bad);
        Py_END_ALLOW_THREADS
        if (!receives) store_handles(batch.works, failed ? bad : NULL);
        if (failed && bad) unposted = bad->wr_id;
        if (failed) rv_failed(failed, receives ? "ibv_post_recv" : "ibv_post_send");
    }
    PyMem_Free(batch.works);
    PyMem_Free(batch.entries);
    if (!PyErr_Occurred()) return Py_NewRef(Py_None);
    forget_from(pair, unposted);
    return NULL;
}

/* QueuePair.post_sends([(object, entries, opcode, handle, address)]): entries are (region, start, octets); BIND_WINDOW
   has rights in place of an address, and a window as its last item */
static PyObject *queue_pair_post_sends(PyObject *self, PyObject *list) { return post((QueuePair *)self, list, 0); }

/* QueuePair.post_receives([(object, entries)]) */
static PyObject *queue_pair_post_receives(PyObject *self, PyObject *list) { return post((QueuePair *)self, list, 1); }

/* Appends (object, status, octets, invalidated handle) of one completion: 0, or -1 with an exception set. */
static int append(QueuePair *pair, PyObject *found, const struct ibv_wc *completion) {
    PyObject *number = PyLong_FromUnsignedLongLong(completion->wr_id);
    PyObject *kept = number ? PyDict_GetItemWithError(pair->posted, number) : NULL;
    PyObject *report = NULL;
    int failed = PyErr_Occurred() != NULL;
    if (kept) {
        const int done = completion->status == IBV_WC_SUCCESS;
        const int invalidated = done && completion->wc_flags & (IBV_WC_WITH_INV | RXE_WC_WITH_INV);
        report = Py_BuildValue("(OiII)", PyTuple_GetItem(kept, 0), completion->status, done ? completion->byte_len : 0,
            invalidated ? completion->invalidated_rkey : 0);
        failed = !report || PyDict_DelItem(pair->posted, number) || PyList_Append(found, report);
    }
    Py_XDECREF(number);
    Py_XDECREF(report);
    return failed ? -1 : 0;
}

/* QueuePair.completions(most, arm) -> [(object, status, octets, handle)]: at most so many; with `arm`, and less than
   `most`, the file descriptor becomes readable at the next one */
static PyObject *queue_pair_completions(PyObject *self, PyObject *args) {
    QueuePair *pair = (QueuePair *)self;
    long most;
    int arm;
    const struct ibv_context_ops *ops;
    struct ibv_wc taken[TAKEN];
    struct ibv_cq *cq;
    void *user;
    unsigned int events = 0;
    int count, failed;
    PyObject *found;
    if (!PyArg_ParseTuple(args, "lp", &most, &arm) || is_closed(pair) || !(found = PyList_New(0))) return NULL;
    ops = &pair->channel->context->ops;
    /* Without a request there is no event, and no system call that looks for one. */
    while ((arm || pair->armed) && !rv_calls()->ibv_get_cq_event(pair->channel, &cq, &user)) events++;
    if (events) {
        rv_calls()->ibv_ack_cq_events(pair->cq, events);
        pair->armed = 0;
    }
    if (arm && !pair->armed) {
        failed = ops->req_notify_cq(pair->cq, 0);
        if (failed) {
            rv_failed(failed, "ibv_req_notify_cq");
            goto failed;
        }
        pair->armed = 1;
    }
    do {
        const long room = most - PyList_Size(found);
        const int wanted = room < TAKEN ? (int)room : TAKEN;
        /* Drivers leave fields as they were where the flags do not call for them. */
        memset(taken, 0, sizeof taken);
        count = wanted > 0 ? ops->poll_cq(pair->cq, wanted, taken) : 0;
        if (count < 0) {
            /* The result is a number of the driver's own. */
            rv_failed(EIO, "ibv_poll_cq");
            goto failed;
        }
        for (int i = 0; i < count; i++)
            if (append(pair, found, &taken[i])) goto failed;
    } while (count);
    return found;
failed:
    Py_DECREF(found);
    return NULL;
}

int rv_add_queue_pair(PyObject *module) {
    static PyMethodDef methods[] = {{"fileno", queue_pair_fileno, METH_NOARGS, NULL},
        {"post_sends", queue_pair_post_sends, METH_O, NULL},
        {"post_receives", queue_pair_post_receives, METH_O, NULL},
        {"completions", queue_pair_completions, METH_VARARGS, NULL}, {"broken", queue_pair_broken, METH_NOARGS, NULL},
        {"end", queue_pair_end, METH_NOARGS, NULL}, {"close", queue_pair_close, METH_NOARGS, NULL}, {0}};
    static PyType_Slot slots[] = {{Py_tp_dealloc, queue_pair_free}, {Py_tp_methods, methods}, {0, NULL}};
    static PyType_Spec spec = {"rpcrdma_verbs.QueuePair", sizeof(QueuePair), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    queue_pair_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!queue_pair_type || PyModule_AddType(module, queue_pair_type)) return -1;
    return PyModule_AddIntConstant(module, "RDMA_WRITE", IBV_WR_RDMA_WRITE) ||
                   PyModule_AddIntConstant(module, "SEND", IBV_WR_SEND) ||
                   PyModule_AddIntConstant(module, "SEND_WITH_INVALIDATE", IBV_WR_SEND_WITH_INV) ||
                   PyModule_AddIntConstant(module, "RDMA_READ", IBV_WR_RDMA_READ) ||
                   PyModule_AddIntConstant(module, "BIND_WINDOW", IBV_WR_BIND_MW)
               ? -1
               : 0;
}
