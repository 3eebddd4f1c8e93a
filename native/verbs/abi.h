/* The binary interface of libibverbs (IBVERBS_1.1) and librdmacm (RDMACM_1.0), as far as the module uses it.

   The layouts and numbers stem from infiniband/verbs.h and rdma/rdma_cma.h of rdma-core, used here under the second of
   their two licences:

   Copyright (c) 2004, 2005 Topspin Communications.  All rights reserved.
   Copyright (c) 2004, 2011-2012 Intel Corporation.  All rights reserved.
   Copyright (c) 2005, 2006, 2007 Cisco Systems, Inc.  All rights reserved.
   Copyright (c) 2005 PathScale, Inc.  All rights reserved.
   Copyright (c) 2005 Voltaire Inc.  All rights reserved.
   Copyright (c) 2005-2014 Intel Corporation.  All rights reserved.
   Copyright (c) 2020 Intel Corporation.  All rights reserved.

   Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
   following conditions are met:

    - Redistributions of source code must retain the above copyright notice, this list of conditions and the following
      disclaimer.

    - Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the
      following disclaimer in the documentation and/or other materials provided with the distribution.

   THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
   WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
   COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
   OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE. */
#ifndef RPCRDMA_VERBS_ABI_H
#define RPCRDMA_VERBS_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { IBV_LOCAL_WRITE = 1, IBV_REMOTE_WRITE = 2, IBV_REMOTE_READ = 4, IBV_MW_BIND = 16 };
enum { IBV_WR_RDMA_WRITE = 0, IBV_WR_SEND = 2, IBV_WR_RDMA_READ = 4, IBV_WR_BIND_MW = 8, IBV_WR_SEND_WITH_INV = 9 };
enum { IBV_MW_TYPE_2 = 2, IBV_WC_WITH_INV = 8 };
/* The extensions with Send with Invalidate, and either kind of memory window of type 2. */
enum { IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21, IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23 };
enum { IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24 };
enum { IBV_QPT_RC = 2, IBV_QP_STATE = 1, IBV_QPS_ERR = 6, IBV_TRANSPORT_IWARP = 1, IBV_PORT_ACTIVE = 4 };
enum { IBV_WC_SUCCESS = 0, IBV_LINK_LAYER_ETHERNET = 2 };
enum { RDMA_PS_TCP = 0x0106 };
enum { RDMA_CM_CONNECT_REQUEST = 4, RDMA_CM_CONNECT_RESPONSE = 5, RDMA_CM_REJECTED = 8, RDMA_CM_ESTABLISHED = 9 };

struct ibv_cq;
struct ibv_mw;
struct ibv_pd;
struct ibv_qp;
struct ibv_wc;
struct ibv_send_wr;
struct ibv_recv_wr;
struct rdma_event_channel {
    int fd;
};

struct ibv_device {
    void *unused[2];
    int32_t node_type, transport_type;
    char name[64], dev_name[64];
};

struct ibv_context_ops {
    void *unused[7];
    struct ibv_mw *(*alloc_mw)(struct ibv_pd *domain, int type);
    void *unused_between;
    int (*dealloc_mw)(struct ibv_mw *window);
    void *unused_before;
    int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *completions);
    int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
    void *unused_too[12];
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr **bad);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *first, struct ibv_recv_wr **bad);
    void *unused_either[5];
};

struct ibv_context {
    struct ibv_device *device;
    struct ibv_context_ops ops;
    int cmd_fd, async_fd;
};

struct ibv_async_event {
    union {
        void *object;
        int port;
    };
    int event_type;
};

struct ibv_pd {
    struct ibv_context *context;
};

struct ibv_comp_channel {
    struct ibv_context *context;
    int fd;
};

struct ibv_mr {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle, lkey, rkey;
};

struct ibv_mw {
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t rkey, handle;
    int type;
};

struct ibv_sge {
    uint64_t addr;
    uint32_t length, lkey;
};

struct ibv_send_wr {
    uint64_t wr_id;
    struct ibv_send_wr *next;
    struct ibv_sge *sg_list;
    int num_sge, opcode;
    unsigned int send_flags;
    uint32_t invalidate_rkey;
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t unused[3];
    struct {
        struct ibv_mw *mw;
        uint32_t rkey;
        struct ibv_mr *mr;
        uint64_t addr, length;
        unsigned int access;
    } bind_mw;
};

struct ibv_recv_wr {
    uint64_t wr_id;
    struct ibv_recv_wr *next;
    struct ibv_sge *sg_list;
    int num_sge;
};

struct ibv_wc {
    uint64_t wr_id;
    int status, opcode;
    uint32_t vendor_err, byte_len, invalidated_rkey, unused[2];
    unsigned int wc_flags;
    uint32_t unused_too[2];
};

struct ibv_qp_init_attr {
    void *qp_context;
    struct ibv_cq *send_cq, *recv_cq;
    void *srq;
    uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
    int qp_type, sq_sig_all;
};

/* Larger than the structures that ibv_query_qp fills, of which the first field alone is read. */
union ibv_qp_attr {
    int state;
    uint64_t unused[64];
};

struct ibv_device_attr {
    char fw_ver[64];
    uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
    uint32_t vendor_id, vendor_part_id, hw_ver;
    int max_qp, max_qp_wr;
    unsigned int device_cap_flags;
    int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom;
    int max_qp_init_rd_atom, unused[4], max_mw, unused_too[11];
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct ibv_port_attr {
    int state, max_mtu, active_mtu, gid_tbl_len;
    uint32_t port_cap_flags, max_msg_sz, unused[5];
    uint16_t unused_too;
    uint8_t link_layer, flags;
    uint16_t unused_either[2];
};

struct rdma_cm_id {
    struct ibv_context *verbs;
    struct rdma_event_channel *channel;
    void *context;
    struct ibv_qp *qp;
    struct sockaddr_storage source, destination;
    uint64_t unused[7];
    int port_space;
    uint8_t port_num;
};

struct rdma_conn_param {
    const void *private_data;
    uint8_t private_data_len, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
    uint32_t qp_num;
};

struct rdma_cm_event {
    struct rdma_cm_id *id, *listen_id;
    int event, status;
    struct rdma_conn_param conn;
    uint64_t unused[4];
};

#define AT(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define OF(type, octets) _Static_assert(sizeof(struct type) == (octets), "size of " #type)
AT(ibv_device, transport_type, 20);
AT(ibv_context, ops.alloc_mw, 64);
AT(ibv_context, ops.dealloc_mw, 80);
AT(ibv_context, ops.poll_cq, 96);
AT(ibv_context, ops.req_notify_cq, 104);
AT(ibv_context, ops.post_send, 208);
AT(ibv_context, ops.post_recv, 216);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_device, dev_name, 88);
AT(ibv_async_event, event_type, 8);
OF(ibv_async_event, 16);
AT(ibv_comp_channel, fd, 8);
AT(ibv_mr, lkey, 36);
AT(ibv_mr, rkey, 40);
AT(ibv_send_wr, invalidate_rkey, 36);
AT(ibv_send_wr, remote_addr, 40);
AT(ibv_send_wr, rkey, 48);
AT(ibv_send_wr, bind_mw.mw, 80);
AT(ibv_send_wr, bind_mw.access, 120);
AT(ibv_send_wr, num_sge, offsetof(struct ibv_recv_wr, num_sge));
AT(ibv_send_wr, sg_list, offsetof(struct ibv_recv_wr, sg_list));
OF(ibv_send_wr, 128);
OF(ibv_recv_wr, 32);
OF(ibv_sge, 16);
OF(ibv_wc, 48);
AT(ibv_wc, invalidated_rkey, 24);
AT(ibv_wc, wc_flags, 36);
AT(ibv_mw, rkey, 16);
AT(ibv_qp_init_attr, max_send_wr, 32);
AT(ibv_qp_init_attr, qp_type, 52);
OF(ibv_qp_init_attr, 64);
AT(ibv_device_attr, max_mr_size, 80);
AT(ibv_device_attr, max_qp, 108);
AT(ibv_device_attr, max_mw, 176);
AT(ibv_device_attr, phys_port_cnt, 227);
OF(ibv_device_attr, 232);
AT(ibv_port_attr, link_layer, 46);
OF(ibv_port_attr, 52);
AT(rdma_cm_id, qp, 24);
AT(rdma_cm_id, source, 32);
AT(rdma_cm_id, destination, 160);
AT(rdma_cm_id, port_num, 348);
AT(rdma_conn_param, rnr_retry_count, 13);
OF(rdma_conn_param, 24);
AT(rdma_cm_event, status, 20);
AT(rdma_cm_event, conn, 24);
OF(rdma_cm_event, 80);

#endif
