/* Stands for libibverbs and librdmacm: a device without hardware, which the module for devices is tried with.
 *
 * Tests read and write its exported variables. An object that is destroyed twice, or is used after its end, is memory
 * that AddressSanitizer guards. As with rdma-core, a destroying call that fails leaves the object, calls fail with EIO
 * once the device is `unplugged`, and destroying ones then succeed where RDMAV_ALLOW_DISASSOC_DESTROY asks for that. */
#define _GNU_SOURCE
#include "../verbs/abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define COUNT(queue) (int)(sizeof queue / sizeof *queue)

/* The number of objects that exist, by kind. */
EXPORTED int channels, identifiers, contexts, domains, regions, windows, completion_channels, completion_queues, pairs;
/* Error numbers with which calls fail; 0: they succeed. */
EXPORTED int fail_create_id, fail_create_qp, fail_reg_mr, fail_destroy, fail_post, fail_poll, fail_notify;
EXPORTED int unplugged, forks_prepared, reads, notified, posted_before_failure;
/* Work that was posted and has not completed yet, and the completions to come. */
EXPORTED int sends, receives, completed, events, device_events;
EXPORTED struct ibv_send_wr sent[64];
EXPORTED struct ibv_recv_wr received[64];
EXPORTED struct ibv_wc done[64];
EXPORTED struct rdma_conn_param parameters;
EXPORTED char private_data[256];

static struct ibv_device device = {.transport_type = 0, .name = "fake0", .dev_name = "uverbs7"};
static struct ibv_context *shared; /* of all identifiers, as in librdmacm */
static struct rdma_cm_event waiting[128];
static struct ibv_async_event happened[8];
static struct rdma_cm_id *last_id;
static int tolerant;

static int failing(int number) {
    errno = number ? number : unplugged ? EIO : 0;
    return errno ? -1 : 0;
}

/* The result of a call that destroys an object: 0, or an error number. */
static int destroyed(const struct ibv_context *context, void *object, int *count) {
    if (fail_destroy) return fail_destroy;
    if (unplugged && !tolerant) return EIO;
    if (context && (fcntl(context->cmd_fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return ENOTTY;
    (*count)--;
    free(object);
    return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *domain, int type) {
    if (failing(0)) return NULL;
    struct ibv_mw *window = calloc(1, sizeof *window);
    *window = (struct ibv_mw){domain->context, domain, (uint32_t)++windows << 8, 0, type};
    return window;
}

static int dealloc_mw(struct ibv_mw *window) { return destroyed(window->context, window, &windows); }

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *to) {
    int taken = 0;
    (void)cq;
    if (fail_poll) return fail_poll;
    for (; taken < count && completed; taken++, completed--) {
        /* As drivers do: no field but these is written. */
        to[taken].wr_id = done[0].wr_id;
        to[taken].status = done[0].status;
        to[taken].byte_len = done[0].byte_len;
        to[taken].wc_flags = done[0].wc_flags;
        if (done[0].invalidated_rkey) to[taken].invalidated_rkey = done[0].invalidated_rkey;
        memmove(done, done + 1, sizeof done - sizeof *done);
    }
    return taken;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only) {
    (void)cq;
    notified += !solicited_only;
    return fail_notify;
}

static int post_send(struct ibv_qp *pair, struct ibv_send_wr *work, struct ibv_send_wr **bad) {
    (void)pair;
    for (int done_here = 0; work; work = work->next, done_here++) {
        *bad = work;
        if (fail_post && done_here == posted_before_failure) return fail_post;
        if (sends == COUNT(sent)) return ENOMEM;
        sent[sends] = *work;
        /* Its address and length are read: they are those of live memory. */
        if (work->num_sge) sent[sends].rkey += !work->sg_list->length;
        sends++;
    }
    return 0;
}

static int post_recv(struct ibv_qp *pair, struct ibv_recv_wr *work, struct ibv_recv_wr **bad) {
    (void)pair;
    for (; work; work = work->next) {
        *bad = work;
        if (receives == COUNT(received)) return ENOMEM;
        received[receives++] = *work;
    }
    return 0;
}

EXPORTED int ibv_fork_init(void) { return forks_prepared++ ? EINVAL : 0; }

EXPORTED struct ibv_device **ibv_get_device_list(int *count) {
    struct ibv_device **list = calloc(2, sizeof *list);
    list[0] = &device;
    *count = 1;
    return list;
}

EXPORTED void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORTED const char *ibv_get_device_name(struct ibv_device *of) { return of->name; }

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *of) {
    /* libibverbs reads it once. */
    tolerant = getenv("RDMAV_ALLOW_DISASSOC_DESTROY") != NULL;
    if (failing(0)) return NULL;
    struct ibv_context *context = calloc(1, sizeof *context);
    context->device = of;
    context->ops = (struct ibv_context_ops){.alloc_mw = alloc_mw, .dealloc_mw = dealloc_mw, .poll_cq = poll_cq,
        .req_notify_cq = req_notify_cq, .post_send = post_send, .post_recv = post_recv};
    context->cmd_fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    context->async_fd = eventfd(0, EFD_CLOEXEC);
    contexts++;
    return context;
}

EXPORTED int ibv_close_device(struct ibv_context *context) {
    close(context->cmd_fd);
    close(context->async_fd);
    contexts--;
    free(context);
    return 0;
}

EXPORTED int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *to) {
    (void)context;
    if (failing(0)) return errno;
    *to = (struct ibv_device_attr){.fw_ver = "1.2.3", .max_mr_size = 1ull << 40, .max_qp_wr = 1024, .max_sge = 4,
        .max_cqe = 4096, .max_mr = 10, .max_mw = 10, .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 8, .phys_port_cnt = 2,
        .device_cap_flags = IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW_TYPE_2B};
    return 0;
}

EXPORTED int ibv_query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *to) {
    (void)context;
    *to = (struct ibv_port_attr){.state = number == 1 ? IBV_PORT_ACTIVE : 1, .max_msg_sz = 1u << 30, .link_layer = 2};
    return 0;
}

EXPORTED struct ibv_pd *ibv_alloc_pd(struct ibv_context *context) {
    struct ibv_pd *domain = calloc(1, sizeof *domain);
    domain->context = context;
    domains++;
    return domain;
}

EXPORTED int ibv_dealloc_pd(struct ibv_pd *domain) { return destroyed(domain->context, domain, &domains); }

EXPORTED struct ibv_mr *ibv_reg_mr(struct ibv_pd *domain, void *address, size_t octets, int access) {
    static uint32_t handle = 100;
    (void)access;
    if (failing(fail_reg_mr)) return NULL;
    struct ibv_mr *region = calloc(1, sizeof *region);
    handle++;
    *region = (struct ibv_mr){domain->context, domain, address, octets, 0, handle, handle};
    regions++;
    return region;
}

EXPORTED int ibv_dereg_mr(struct ibv_mr *region) { return destroyed(region->context, region, &regions); }

EXPORTED struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context) {
    struct ibv_comp_channel *channel = calloc(1, sizeof *channel);
    *channel = (struct ibv_comp_channel){context, eventfd(0, EFD_CLOEXEC)};
    completion_channels++;
    return channel;
}

EXPORTED int ibv_destroy_comp_channel(struct ibv_comp_channel *channel) {
    if (completion_channels <= completion_queues) return EBUSY;
    close(channel->fd);
    completion_channels--;
    free(channel);
    return 0;
}

struct ibv_cq {
    struct ibv_context *context;
};

EXPORTED struct ibv_cq *ibv_create_cq(
    struct ibv_context *context, int entries, void *user, struct ibv_comp_channel *channel, int vector) {
    (void)user, (void)channel, (void)vector;
    if (failing(entries > 4096 ? EINVAL : 0)) return NULL;
    struct ibv_cq *cq = calloc(1, sizeof *cq);
    cq->context = context;
    completion_queues++;
    return cq;
}

EXPORTED int ibv_destroy_cq(struct ibv_cq *cq) { return destroyed(cq->context, cq, &completion_queues); }

EXPORTED int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user) {
    uint64_t count;
    (void)cq, (void)user;
    reads++;
    return read(channel->fd, &count, sizeof count) == sizeof count ? 0 : -1;
}

EXPORTED void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count) { (void)cq, (void)count; }

EXPORTED int ibv_query_qp(struct ibv_qp *pair, union ibv_qp_attr *to, int mask, union ibv_qp_attr *initial) {
    (void)pair, (void)mask, (void)initial;
    to->state = unplugged ? IBV_QPS_ERR : 3;
    return 0;
}

EXPORTED const char *ibv_wc_status_str(int status) { return status ? "a fault" : "success"; }

EXPORTED int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
    (void)context;
    if (!device_events) return failing(EAGAIN);
    *event = happened[--device_events];
    return 0;
}

EXPORTED void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }

/* An event of the device. */
EXPORTED void device_event(int kind, int port) {
    happened[device_events++] = (struct ibv_async_event){.port = port, .event_type = kind};
}

EXPORTED struct rdma_event_channel *rdma_create_event_channel(void) {
    struct rdma_event_channel *channel = calloc(1, sizeof *channel);
    channel->fd = eventfd(0, EFD_CLOEXEC);
    channels++;
    return channel;
}

EXPORTED void rdma_destroy_event_channel(struct rdma_event_channel *channel) {
    close(channel->fd);
    channels--;
    free(channel);
}

/* An event of the identifier that was made last; a request for a connection brings a new one, with its context. */
EXPORTED void manager_event(int kind, int status, const char *data, int octets) {
    struct rdma_cm_event *event = &waiting[events++];
    *event = (struct rdma_cm_event){.id = last_id, .event = kind, .status = status,
        .conn = {.private_data = data, .private_data_len = (uint8_t)octets, .responder_resources = 3,
            .initiator_depth = 5}};
    if (kind != RDMA_CM_CONNECT_REQUEST) return;
    event->id = malloc(sizeof *event->id);
    *event->id = *last_id;
    event->listen_id = last_id;
    identifiers++;
}

EXPORTED int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event) {
    (void)channel;
    if (!events) return failing(EAGAIN);
    *event = malloc(sizeof **event);
    **event = waiting[0];
    events--;
    memmove(waiting, waiting + 1, sizeof waiting - sizeof *waiting);
    return 0;
}

EXPORTED int rdma_ack_cm_event(struct rdma_cm_event *event) {
    free(event);
    return 0;
}

EXPORTED int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *user, int space) {
    (void)space;
    if (failing(fail_create_id)) return -1;
    *id = last_id = calloc(1, sizeof **id);
    last_id->channel = channel;
    last_id->context = user;
    identifiers++;
    return 0;
}

EXPORTED int rdma_destroy_id(struct rdma_cm_id *id) {
    int left = 0;
    /* Its events go with it; a request to it has an identifier of its own. */
    for (int i = 0; i < events; i++)
        if (waiting[i].id != id) waiting[left++] = waiting[i];
    events = left;
    identifiers--;
    if (last_id == id) last_id = NULL;
    free(id);
    if (identifiers || !shared) return 0;
    ibv_close_device(shared);
    shared = NULL;
    return 0;
}

EXPORTED int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address) {
    if (failing(0) || (!shared && !(shared = ibv_open_device(&device)))) return -1;
    id->verbs = shared;
    memcpy(&id->source, address, sizeof id->source);
    id->destination = id->source;
    return 0;
}

EXPORTED int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms) {
    (void)from;
    return timeout_ms > 0 ? rdma_bind_addr(id, to) : failing(EINVAL);
}

static int with_parameters(const struct rdma_cm_id *id, const struct rdma_conn_param *given) {
    if (!id->qp) return failing(EINVAL);
    parameters = *given;
    memcpy(private_data, given->private_data, given->private_data_len);
    return 0;
}

EXPORTED int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms) {
    (void)timeout_ms;
    return failing(id->verbs ? 0 : EINVAL);
}

EXPORTED int rdma_listen(struct rdma_cm_id *id, int backlog) {
    (void)id;
    return failing(backlog > 0 ? 0 : EINVAL);
}

EXPORTED int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *given) { return with_parameters(id, given); }
EXPORTED int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *given) { return with_parameters(id, given); }

EXPORTED int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t octets) {
    (void)id;
    memcpy(private_data, data, octets);
    return 0;
}

EXPORTED int rdma_disconnect(struct rdma_cm_id *id) { return failing(id->qp ? 0 : EINVAL); }

EXPORTED int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *initial) {
    (void)domain, (void)initial;
    if (failing(fail_create_qp)) return -1;
    id->qp = calloc(1, 256);
    pairs++;
    return 0;
}

EXPORTED void rdma_destroy_qp(struct rdma_cm_id *id) {
    destroyed(id->verbs, id->qp, &pairs);
    id->qp = NULL;
}
