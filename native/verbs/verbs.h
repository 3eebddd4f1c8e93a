/* What the files of the extension module `rpcrdma_verbs` share. */
#ifndef RPCRDMA_VERBS_H
#define RPCRDMA_VERBS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "abi.h"

#include <pthread.h>

/* The functions and types of the module as one number, which rises with each change of them:
   src/rpcrdma/verbs/binding.py uses a module of its own number only. */
#define RV_INTERFACE 4

/* Every call into the two libraries: result, name, parameters. */
#define RV_VERBS_CALLS(CALL) \
    CALL(struct ibv_device **, ibv_get_device_list, (int *count)) \
    CALL(void, ibv_free_device_list, (struct ibv_device **list)) \
    CALL(const char *, ibv_get_device_name, (struct ibv_device *device)) \
    CALL(struct ibv_context *, ibv_open_device, (struct ibv_device *device)) \
    CALL(int, ibv_close_device, (struct ibv_context *context)) \
    CALL(int, ibv_query_device, (struct ibv_context *context, struct ibv_device_attr *attributes)) \
    CALL(int, ibv_query_port, (struct ibv_context *context, uint8_t port, struct ibv_port_attr *attributes)) \
    CALL(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context)) \
    CALL(int, ibv_dealloc_pd, (struct ibv_pd *domain)) \
    CALL(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd *domain, void *address, size_t octets, int access)) \
    CALL(int, ibv_dereg_mr, (struct ibv_mr *region)) \
    CALL(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context *context)) \
    CALL(int, ibv_destroy_comp_channel, (struct ibv_comp_channel *channel)) \
    CALL(struct ibv_cq *, ibv_create_cq, \
        (struct ibv_context *context, int entries, void *user, struct ibv_comp_channel *channel, int vector)) \
    CALL(int, ibv_destroy_cq, (struct ibv_cq *cq)) \
    CALL(int, ibv_get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user)) \
    CALL(void, ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int count)) \
    CALL(int, ibv_query_qp, (struct ibv_qp *qp, union ibv_qp_attr *attributes, int mask, union ibv_qp_attr *initial)) \
    CALL(const char *, ibv_wc_status_str, (int status)) \
    CALL(int, ibv_get_async_event, (struct ibv_context *context, struct ibv_async_event *event)) \
    CALL(void, ibv_ack_async_event, (struct ibv_async_event *event))
#define RV_MANAGER_CALLS(CALL) \
    CALL(struct rdma_event_channel *, rdma_create_event_channel, (void)) \
    CALL(void, rdma_destroy_event_channel, (struct rdma_event_channel *channel)) \
    CALL(int, rdma_get_cm_event, (struct rdma_event_channel *channel, struct rdma_cm_event **event)) \
    CALL(int, rdma_ack_cm_event, (struct rdma_cm_event *event)) \
    CALL(int, rdma_create_id, (struct rdma_event_channel *channel, struct rdma_cm_id **id, void *user, int space)) \
    CALL(int, rdma_destroy_id, (struct rdma_cm_id *id)) \
    CALL(int, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *address)) \
    CALL(int, rdma_listen, (struct rdma_cm_id *id, int backlog)) \
    CALL(int, rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)) \
    CALL(int, rdma_resolve_route, (struct rdma_cm_id *id, int timeout_ms)) \
    CALL(int, rdma_connect, (struct rdma_cm_id *id, struct rdma_conn_param *parameters)) \
    CALL(int, rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *parameters)) \
    CALL(int, rdma_reject, (struct rdma_cm_id *id, const void *data, uint8_t octets)) \
    CALL(int, rdma_disconnect, (struct rdma_cm_id *id)) \
    CALL(int, rdma_create_qp, (struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *initial)) \
    CALL(void, rdma_destroy_qp, (struct rdma_cm_id *id))

typedef struct {
#define CALL(result, name, parameters) result(*name) parameters;
    RV_VERBS_CALLS(CALL)
    RV_MANAGER_CALLS(CALL)
#undef CALL
} Calls;

/* The functions of both libraries, which the first call opens; NULL with an OSError set where one is missing. */
const Calls *rv_calls(void);
/* Sets an OSError with the name of the call, for a result above 0 or else for errno; returns NULL. */
PyObject *rv_failed(int result, const char *call);
/* The attributes of an open device as a dictionary, `ports` among them. */
PyObject *rv_attributes(const Calls *calls, struct ibv_context *context);
/* Makes a file descriptor non-blocking: 0, or -1 with an exception set. */
int rv_not_blocking(int descriptor);
/* Whether `Device.let_go` has closed the descriptors of the context: the kernel has freed all that was on it. */
int rv_let_go(const struct ibv_context *context);

/* An identifier of the connection manager. `key` names it in the events of its channel. */
typedef struct {
    PyObject_HEAD
    struct rdma_cm_id *id;
    PyObject *channel, *key;
    Py_ssize_t users; /* domains and queue pairs that were made from it and exist */
} Identifier;

/* A protection domain. */
typedef struct {
    PyObject_HEAD
    struct ibv_pd *pd;
    Identifier *identifier;
    PyObject *device;
} Domain;

/* Registered memory, and the buffer that it keeps unless its owner does. */
typedef struct {
    PyObject_HEAD
    struct ibv_mr *mr;
    Domain *domain;
    Py_buffer buffer;
} Region;

/* A memory window of type 2; `mw` is NULL once it has ended. */
typedef struct {
    PyObject_HEAD
    struct ibv_mw *mw;
    Domain *domain;
} Window;

extern PyTypeObject *rv_domain_type, *rv_region_type, *rv_window_type;
PyObject *rv_new_domain(PyObject *identifier, PyObject *unused);
PyObject *rv_new_queue_pair(PyObject *identifier, PyObject *args);
PyObject *rv_open_device(PyObject *identifier, PyObject *unused);

/* Each returns 0, or -1 with an exception set. */
int rv_add_devices(PyObject *module);
int rv_add_manager(PyObject *module);
int rv_add_memory(PyObject *module);
int rv_add_queue_pair(PyObject *module);
int rv_add_watch(PyObject *module);

#endif
