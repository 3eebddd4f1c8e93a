/* The receiving half of full operation, for usual FPDUs.

   `receive` reads the socket until it is empty. It checks each FPDU, places tagged payload, and delivers whole Sends
   and RDMA Read Requests. It stops before an FPDU that is unusual in anything: nothing of that FPDU is taken, and the
   receiver in Python, which has all rules and reports all faults, gets its octets.

   The payload of a large FPDU goes from the socket straight into its target, after its header has passed every check
   and before its CRC has (rpcrdma/iwarp/receiver.py says why): memory of a region, or for a Send in one FPDU the object
   that is delivered. If the target is withdrawn meanwhile, or the CRC is wrong, Python gets the unfinished FPDU as
   well. No memory of a region is held between two calls. */
#include "native.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <structmember.h>
#include <sys/socket.h>

enum {
    IDLE_OCTETS = 1 << 13,    /* offered while no large FPDU is expected: little of a bulk payload has to be copied */
    SCRATCH_OCTETS = 9 << 13, /* room for any FPDU */
    DIRECT_OCTETS_MIN = 2048, /* octets of an FPDU still to come from which on they go straight into their target */
    BULK_OCTETS_MIN = 4096,   /* after such an FPDU only the next header of its message goes into the scratch */
    KIND_OCTETS = 16,         /* the part of a message's header that has its kind (ReceiveSource) */
};

/* The sum of these is what `receive` returns. */
enum { STOPPED = 1, END_OF_STREAM = 2 };

/* The attributes of memory regions (from RIGHTS), receive sources and RDMA Reads that are read, and names to call. */
enum { RIGHTS, ABANDONED, OFFSET, LENGTH, VIEW, SHORT, OCTETS, SCATTERED, SINK_HANDLE, SINK_OFFSET, APPEND, NAMES };
static const char *const name_strings[NAMES] = {"rights", "abandoned", "offset", "length", "view", "short_octets",
    "octets", "scattered", "sink_handle", "sink_offset", "append"};
static PyObject *names[NAMES];

/* Types and constants of Python: see `use_types`. */
enum { COMPLETION, READ_RESPONSE, READ_HEADER, RECEIVE, SUCCESS, TYPES };
static PyObject *types[TYPES], *tuple_new;

enum { REMOTE_READ = 2, REMOTE_WRITE = 4 }; /* rpcrdma.verbs.Access */

typedef struct {
    uint32_t length, handle;
    uint64_t offset;
    uint8_t control, rdmap;
} Header;

/* The queue pair's objects that a receiver works on; READ_ANSWERED is called at the end of the first of READS. */
enum { REGIONS, READS, RESPONSES, COMPLETIONS, READ_ANSWERED, POOL, OBJECTS };

/* The fields in `members` are the ones that Python sets when it hands over, and reads when it takes over. */
typedef struct {
    PyObject_HEAD
    PyObject *objects[OBJECTS];
    uint32_t msn[2];
    Py_ssize_t posted, reads_max, filled;
    uint8_t *own; /* the octets of an FPDU that has arrived in part, else NULL */
    uint64_t received; /* octets of the response to the first of READS */
    char crc, opened, bulk, sends, busy;
    uint8_t opened_rdmap; /* of the tagged message that has arrived in part, if `opened` */
    uint32_t opened_handle;
    Header direct; /* the FPDU whose payload goes straight into its target, while `trailer` is not 0 */
    PyObject *send; /* that target, if the FPDU is a Send */
    Py_ssize_t placed, left, trailer;
    uint32_t digest;
    uint8_t *message; /* a Send that has arrived in part, else NULL */
    Py_ssize_t message_octets;
    uint8_t message_rdmap;
    uint32_t message_handle;
} Receiver;

/* One call of `receive`: the source of octets, and the memory and the RDMA Read that were looked up last. */
typedef struct {
    Receiver *r;
    int fd;
    const uint8_t *source; /* if `fd` is -1 */
    Py_ssize_t source_octets;
    uint8_t *scratch;
    PyObject *region;
    Py_buffer target;
    uint32_t handle;
    uint64_t base, length;
    int reading; /* whether the fields of the RDMA Read are set */
    uint64_t read_handle, read_start, read_length;
    long outcome;
} Turn;

/* A named tuple of `type`, without the Python function that its class has for it. Takes over `fields`. */
static PyObject *named_tuple(PyObject *type, PyObject *fields) {
    PyObject *made = fields ? PyObject_CallFunctionObjArgs(tuple_new, type, fields, NULL) : NULL;
    Py_XDECREF(fields);
    return made;
}

/* Appends `item`, which it takes over, to a list or deque: 1 or -1. */
static int append(PyObject *list, PyObject *item) {
    PyObject *none = item ? PyObject_CallMethodObjArgs(list, names[APPEND], item, NULL) : NULL;
    Py_XDECREF(item);
    Py_XDECREF(none);
    return none ? 1 : -1;
}

static void let_go_of_region(Turn *t) {
    if (t->region) PyBuffer_Release(&t->target);
    Py_CLEAR(t->region);
}

/* Whether all `octets` from `offset` on are in memory: the one check of bounds before placement and RDMA Reads. */
static int within(uint64_t offset, uint64_t octets, uint64_t base, uint64_t length) {
    return offset >= base && octets <= length && offset - base <= length - octets;
}

/* In all that follows, 1 is success, 0 an FPDU that is not usual, -1 a Python exception. */

/* Finds the region of a steering tag, if it grants `right`; a borrowed reference. */
static int find_region(Turn *t, uint32_t handle, unsigned right, PyObject **region, uint64_t *base, uint64_t *length) {
    uint64_t rights, abandoned;
    PyObject *key = PyLong_FromUnsignedLong(handle);
    *region = key ? PyDict_GetItemWithError(t->r->objects[REGIONS], key) : NULL;
    Py_XDECREF(key);
    if (!*region) return PyErr_Occurred() ? -1 : 0;
    if (rn_get_number(*region, names[RIGHTS], &rights) || rn_get_number(*region, names[ABANDONED], &abandoned) ||
        rn_get_number(*region, names[OFFSET], base) || rn_get_number(*region, names[LENGTH], length))
        return -1;
    return rights & right && !abandoned;
}

/* Makes the region of `handle` the turn's target. */
static int take_region(Turn *t, uint32_t handle) {
    PyObject *region, *view;
    uint64_t base, length;
    int found = find_region(t, handle, REMOTE_WRITE, &region, &base, &length);
    if (found != 1) return found;
    let_go_of_region(t);
    view = PyObject_GetAttr(region, names[VIEW]);
    found = view ? PyObject_GetBuffer(view, &t->target, PyBUF_WRITABLE) : -1;
    Py_XDECREF(view);
    if (found) return -1;
    t->region = Py_NewRef(region);
    t->handle = handle;
    t->base = base;
    t->length = (uint64_t)t->target.len < length ? (uint64_t)t->target.len : length;
    return 1;
}

/* Takes up the RDMA Read that the peer is answering. */
static int take_read(Turn *t) {
    PyObject *reads = t->r->objects[READS], *read = PyList_Size(reads) > 0 ? PyList_GetItem(reads, 0) : NULL;
    if (!read) return 0;
    if (rn_get_number(read, names[SINK_HANDLE], &t->read_handle) ||
        rn_get_number(read, names[SINK_OFFSET], &t->read_start) || rn_get_number(read, names[LENGTH], &t->read_length))
        return -1;
    return t->reading = 1;
}

/* Where the payload of a tagged FPDU belongs. */
static int find_target(Turn *t, const Header *h, Py_ssize_t payload, uint8_t **target) {
    Receiver *r = t->r;
    int found;
    uint64_t octets = (uint64_t)payload;
    if (r->send) {
        *target = (uint8_t *)PyBytes_AsString(r->send);
        return 1;
    }
    if ((h->control & ~DDP_LAST) != (DDP_TAGGED | DDP_VERSION) || !octets ||
        (h->rdmap != RDMAP_WRITE && h->rdmap != RDMAP_READ_RESPONSE) ||
        (r->opened && (h->rdmap != r->opened_rdmap || h->handle != r->opened_handle)))
        return 0;
    if ((!t->region || t->handle != h->handle) && (found = take_region(t, h->handle)) != 1) return found;
    if (h->rdmap == RDMAP_READ_RESPONSE) {
        if (!t->reading && (found = take_read(t)) != 1) return found;
        if (h->handle != t->read_handle || h->offset != t->read_start + t->r->received ||
            octets > t->read_length - t->r->received ||
            (h->control & DDP_LAST && octets != t->read_length - t->r->received))
            return 0;
    }
    if (!within(h->offset, octets, t->base, t->length)) return 0;
    *target = (uint8_t *)t->target.buf + (h->offset - t->base);
    return 1;
}

/* A tagged FPDU is in place. */
static int end_tagged(Turn *t, const Header *h, Py_ssize_t payload) {
    Receiver *r = t->r;
    PyObject *none;
    r->opened = !(h->control & DDP_LAST);
    r->opened_rdmap = h->rdmap;
    r->opened_handle = h->handle;
    if (h->rdmap != RDMAP_READ_RESPONSE) return 1;
    r->received += (uint64_t)payload;
    if (r->opened) return 1;
    r->received = 0;
    t->reading = 0;
    none = PyObject_CallNoArgs(r->objects[READ_ANSWERED]);
    Py_XDECREF(none);
    return none ? 1 : -1;
}

/* Ends the region of a Send with Invalidate; `ended` is a new reference to its handle. */
static int invalidate(Turn *t, uint32_t handle, PyObject **ended) {
    PyObject *regions = t->r->objects[REGIONS], *key = PyLong_FromUnsignedLong(handle);
    int known = key ? PyDict_Contains(regions, key) : -1;
    if (known == 1 && PyDict_DelItem(regions, key)) known = -1;
    if (known == 1 && t->region && t->handle == handle) let_go_of_region(t);
    *ended = key;
    return known;
}

/* Whether a Send of `total` octets is delivered as `bytes`. `head` is where its first KIND_OCTETS are, or NULL. */
static int is_plain(Turn *t, Py_ssize_t total, const uint8_t *head) {
    PyObject *pool = t->r->objects[POOL], *kinds, *kind;
    uint64_t room;
    int found = -1;
    if (rn_get_number(pool, names[SHORT], &room)) return -1;
    if ((uint64_t)total <= room) return 1;
    if (rn_get_number(pool, names[OCTETS], &room)) return -1;
    if ((uint64_t)total > room || !head) return 0;
    kinds = PyObject_GetAttr(pool, names[SCATTERED]);
    kind = kinds ? Py_BuildValue("(II)", get_u32(head + 4), get_u32(head + 12)) : NULL;
    if (kind) found = PySequence_Contains(kinds, kind);
    Py_XDECREF(kind);
    Py_XDECREF(kinds);
    return found < 0 ? -1 : !found;
}

/* Whether an FPDU is a segment of the next Send, and one for which a receive is posted. */
static int is_next_send(const Receiver *r, const uint8_t *fpdu) {
    return (fpdu[2] & ~DDP_LAST) == DDP_VERSION && !get_u32(fpdu + 8) && get_u32(fpdu + 12) == r->msn[0] &&
        fpdu[3] >= RDMAP_SEND && fpdu[3] <= RDMAP_SEND_SOLICITED_INVALIDATE && r->posted > 0 && r->objects[POOL];
}

/* Delivers a Send: `data`, which it takes over. */
static int deliver(Turn *t, uint8_t rdmap, uint32_t handle, PyObject *data) {
    Receiver *r = t->r;
    PyObject *ended = Py_None;
    int known;
    if (!(rdmap & 1) && (known = invalidate(t, handle, &ended)) != 1) {
        Py_XDECREF(ended);
        Py_DECREF(data);
        return known;
    }
    PyMem_Free(r->message);
    r->message = NULL;
    r->message_octets = 0;
    r->posted--;
    r->msn[0]++;
    return append(r->objects[COMPLETIONS], named_tuple(types[COMPLETION], Py_BuildValue(
        ended == Py_None ? "(NOOnO)" : "(NOOnN)", data, types[RECEIVE], types[SUCCESS], PyBytes_Size(data), ended)));
}

/* Takes a whole segment of a Send. */
static int take_send(Turn *t, const uint8_t *fpdu, Py_ssize_t octets) {
    Receiver *r = t->r;
    const uint32_t handle = get_u32(fpdu + 4);
    const Py_ssize_t total = r->message_octets + octets;
    const uint8_t *payload = fpdu + UNTAGGED_OCTETS, *head = r->message_octets ? r->message : payload;
    PyObject *data;
    int plain;
    if (!is_next_send(r, fpdu) || get_u32(fpdu + 16) != (uint32_t)r->message_octets ||
        (r->message && (fpdu[3] != r->message_rdmap || handle != r->message_handle)))
        return 0;
    if ((r->message_octets ? r->message_octets : octets) < KIND_OCTETS) head = NULL;
    if ((plain = is_plain(t, total, head)) != 1) return plain;
    if (!(fpdu[2] & DDP_LAST)) {
        uint8_t *message = PyMem_Realloc(r->message, (size_t)total + 1);
        if (!message) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(message + r->message_octets, payload, (size_t)octets);
        r->message = message;
        r->message_octets = total;
        r->message_rdmap = fpdu[3];
        r->message_handle = handle;
        return 1;
    }
    data = PyBytes_FromStringAndSize(NULL, total);
    if (!data) return -1;
    if (r->message) memcpy(PyBytes_AsString(data), r->message, (size_t)r->message_octets);
    memcpy(PyBytes_AsString(data) + r->message_octets, payload, (size_t)octets);
    r->sends = octets >= BULK_OCTETS_MIN;
    return deliver(t, fpdu[3], handle, data);
}

/* Begins a Send in one FPDU, of which `available` octets are here: the payload goes straight into the object that will
   be delivered. */
static int start_send(Turn *t, const uint8_t *fpdu, Py_ssize_t available, Py_ssize_t octets) {
    Receiver *r = t->r;
    int plain;
    if (available < UNTAGGED_OCTETS + KIND_OCTETS || !is_next_send(r, fpdu) || !(fpdu[2] & DDP_LAST) ||
        get_u32(fpdu + 16) || r->message)
        return 0;
    if ((plain = is_plain(t, octets, fpdu + UNTAGGED_OCTETS)) != 1) return plain;
    r->send = PyBytes_FromStringAndSize(NULL, octets);
    r->sends = 1;
    return r->send ? 1 : -1;
}

/* Takes a whole RDMA Read Request. */
static int take_read_request(Turn *t, const uint8_t *fpdu, Py_ssize_t octets) {
    Receiver *r = t->r;
    PyObject *region, *header, *request;
    uint64_t base, length;
    const uint8_t *p = fpdu + UNTAGGED_OCTETS;
    int found;
    if (octets != READ_HEADER_OCTETS || !(fpdu[2] & DDP_LAST) || get_u32(fpdu + 16) || !get_u32(p + 12) ||
        PyList_Size(r->objects[RESPONSES]) >= r->reads_max)
        return 0;
    found = find_region(t, get_u32(p + 16), REMOTE_READ, &region, &base, &length);
    if (found != 1 || !within(get_u64(p + 20), get_u32(p + 12), base, length)) return found < 0 ? -1 : 0;
    header = named_tuple(types[READ_HEADER], Py_BuildValue("(IKIIK)", get_u32(p), (unsigned long long)get_u64(p + 4),
        get_u32(p + 12), get_u32(p + 16), (unsigned long long)get_u64(p + 20)));
    request = Py_BuildValue("(IiiIIII)", get_u16(fpdu), fpdu[2], fpdu[3], get_u32(fpdu + 4), get_u32(fpdu + 8),
        get_u32(fpdu + 12), get_u32(fpdu + 16));
    r->msn[1]++;
    return append(r->objects[RESPONSES], named_tuple(types[READ_RESPONSE], Py_BuildValue("(NN)", header, request)));
}

/* Takes a whole untagged FPDU. */
static int take_untagged(Turn *t, const uint8_t *fpdu, Py_ssize_t octets) {
    uint32_t queue = get_u32(fpdu + 8);
    if (!queue) return take_send(t, fpdu, octets);
    if ((fpdu[2] & ~DDP_LAST) != DDP_VERSION || queue > 1 || get_u32(fpdu + 12) != t->r->msn[queue]) return 0;
    return fpdu[3] == RDMAP_READ_REQUEST ? take_read_request(t, fpdu, octets) : 0;
}

/* Whether a digest is that of the CRC field, the only field in little-endian order (RFC 5044 section 4.4). */
static int crc_matches(uint32_t digest, const uint8_t *field) {
    return digest == ((uint32_t)field[3] << 24 | (uint32_t)field[2] << 16 | (uint32_t)field[1] << 8 | field[0]);
}

/* Takes one FPDU, of which `available` octets are in the scratch: its size, 0 for more octets or one that stops, -1. */
static Py_ssize_t take_fpdu(Turn *t, const uint8_t *fpdu, Py_ssize_t available) {
    Receiver *r = t->r;
    const Header h = {get_u16(fpdu), get_u32(fpdu + 4), get_u64(fpdu + 8), fpdu[2], fpdu[3]};
    const int tagged = h.control & DDP_TAGGED;
    const Py_ssize_t head = tagged ? TAGGED_OCTETS : UNTAGGED_OCTETS, octets = (Py_ssize_t)h.length + 2 - head;
    const Py_ssize_t frame = ((Py_ssize_t)(h.length + 5) & ~3) + CRC_OCTETS;
    uint8_t *target = NULL;
    int usual = octets >= 0;
    if (available < frame && frame - available < DIRECT_OCTETS_MIN && usual) return 0;
    if (tagged) {
        r->sends = 0;
        if (usual && (usual = find_target(t, &h, octets, &target)) < 0) return -1;
    } else if (available < frame && usual) {
        if ((usual = start_send(t, fpdu, available, octets)) < 0) return -1;
        if (usual) target = (uint8_t *)PyBytes_AsString(r->send);
    }
    if (available < frame && usual) {
        r->direct = h;
        r->placed = available - head;
        r->left = octets - r->placed;
        r->trailer = frame - head - octets;
        r->bulk = frame >= BULK_OCTETS_MIN && !(h.control & DDP_LAST);
        memcpy(target, fpdu + head, (size_t)r->placed);
        r->digest = r->crc ? rn_crc32c(0, fpdu, (size_t)available) : 0;
        return available;
    }
    if (available < frame && octets >= 0) {
        /* Another large Send goes into a buffer that the receiver in Python chooses. */
        if (!tagged && available >= UNTAGGED_OCTETS + KIND_OCTETS && !get_u32(fpdu + 8) && !r->message)
            t->outcome |= STOPPED;
        return 0;
    }
    if (usual && r->crc && !crc_matches(rn_crc32c(0, fpdu, (size_t)(frame - CRC_OCTETS)), fpdu + frame - CRC_OCTETS))
        usual = 0;
    if (usual && tagged) {
        memcpy(target, fpdu + head, (size_t)octets);
        usual = end_tagged(t, &h, octets);
    } else if (usual)
        usual = take_untagged(t, fpdu, octets);
    if (usual < 1) t->outcome |= STOPPED;
    r->bulk = tagged && frame >= BULK_OCTETS_MIN && !(h.control & DDP_LAST);
    return usual < 1 ? usual : frame;
}

/* Takes the FPDUs at the begin of the scratch; returns the octets taken, or -1. */
static Py_ssize_t take_fpdus(Turn *t, Py_ssize_t filled) {
    Receiver *r = t->r;
    Py_ssize_t position = 0, taken;
    if (r->trailer) {
        const size_t padding = (size_t)(r->trailer - CRC_OCTETS);
        if (filled < r->trailer) return 0;
        if (r->crc && !crc_matches(rn_crc32c(r->digest, t->scratch, padding), t->scratch + padding)) {
            t->outcome |= STOPPED;
            return 0;
        }
        if (!r->send) taken = end_tagged(t, &r->direct, r->placed);
        else if ((taken = deliver(t, r->direct.rdmap, r->direct.handle, Py_NewRef(r->send))) == 1) Py_CLEAR(r->send);
        if (taken < 1) {
            t->outcome |= STOPPED;
            return taken;
        }
        position = r->trailer;
        r->trailer = 0;
    }
    while (filled - position >= TAGGED_OCTETS && !r->trailer) {
        taken = take_fpdu(t, t->scratch + position, filled - position);
        if (taken <= 0) return taken < 0 ? -1 : position;
        position += taken;
    }
    if (!r->trailer && filled - position >= 2 && get_u16(t->scratch + position) < TAGGED_OCTETS - 2)
        t->outcome |= STOPPED; /* no header has room in it */
    return position;
}

/* Fills the places in order from the source. Computes the CRC of the first `direct` octets while they are cached. */
static Py_ssize_t fill(Turn *t, struct iovec *places, size_t count, Py_ssize_t direct) {
    Py_ssize_t octets = 0;
    int error = EAGAIN;
    Py_BEGIN_ALLOW_THREADS
    if (t->fd >= 0) {
        struct msghdr message = {.msg_iov = places, .msg_iovlen = count};
        while ((octets = recvmsg(t->fd, &message, 0)) < 0 && errno == EINTR) {}
        error = errno;
    }
    for (size_t i = 0; t->fd < 0 && i < count && t->source_octets; i++) {
        Py_ssize_t room = (Py_ssize_t)places[i].iov_len, part = room < t->source_octets ? room : t->source_octets;
        memcpy(places[i].iov_base, t->source, (size_t)part);
        t->source += part;
        t->source_octets -= part;
        octets += part;
    }
    if (octets > 0 && direct && t->r->crc)
        t->r->digest = rn_crc32c(t->r->digest, places[0].iov_base, (size_t)(octets < direct ? octets : direct));
    Py_END_ALLOW_THREADS
    errno = error;
    return octets || t->fd >= 0 ? octets : -1;
}

/* Receives until the source is empty, `most` octets have come, or something is unusual; 0, or -1. */
static int receive_all(Turn *t, Py_ssize_t most) {
    Receiver *r = t->r;
    int full = 0;
    while (most > 0 && !(t->outcome & STOPPED)) {
        struct iovec places[2];
        size_t count = 0;
        Py_ssize_t direct = r->trailer ? r->left : 0, limit = IDLE_OCTETS, octets, taken;
        if (direct) {
            uint8_t *target = NULL;
            int found = find_target(t, &r->direct, r->placed + direct, &target);
            if (found != 1) {
                t->outcome |= STOPPED;
                return found;
            }
            places[count++] = (struct iovec){target + r->placed, (size_t)direct};
        }
        if (r->bulk && r->filled < r->trailer + TAGGED_OCTETS) limit = r->trailer + TAGGED_OCTETS;
        else if (full || r->sends || r->filled >= limit || (r->filled >= 2 && get_u16(t->scratch) > IDLE_OCTETS - 10))
            limit = SCRATCH_OCTETS;
        places[count++] = (struct iovec){t->scratch + r->filled, (size_t)(limit - r->filled)};
        octets = fill(t, places, count, direct);
        if (octets < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (octets <= 0) {
            t->outcome |= octets ? 0 : END_OF_STREAM;
            return 0;
        }
        most -= octets;
        full = octets == direct + limit - r->filled;
        taken = octets < direct ? octets : direct;
        r->placed += taken;
        r->left -= taken;
        r->filled += octets - taken;
        if (octets >= direct) {
            taken = take_fpdus(t, r->filled);
            if (taken < 0) return -1;
            r->filled -= taken;
            if (r->filled && taken) memmove(t->scratch, t->scratch + taken, (size_t)r->filled);
        }
        if (!full && t->fd >= 0) return 0;
    }
    return 0;
}

/* Whether no other thread is in this receiver, which lets go of the interpreter's lock at times. `leave` follows. */
static int enter(Receiver *r) {
    if (!__atomic_test_and_set(&r->busy, __ATOMIC_ACQUIRE)) return 1;
    PyErr_SetString(PyExc_RuntimeError, "another thread receives with this Receiver: call it from one thread");
    return 0;
}

static void leave(Receiver *r) { __atomic_clear(&r->busy, __ATOMIC_RELEASE); }

/* One turn with a scratch on the stack: an incomplete FPDU moves into memory of its own. Returns 0 or -1. */
static int take_turn(Turn *t, Py_ssize_t most) {
    Receiver *r = t->r;
    uint8_t scratch[SCRATCH_OCTETS];
    int failed;
    if (!enter(r)) return -1;
    t->scratch = r->own ? r->own : scratch;
    failed = receive_all(t, most);
    let_go_of_region(t);
    if (!r->filled) {
        PyMem_Free(r->own);
        r->own = NULL;
    } else if (!r->own && !(r->own = PyMem_Malloc(SCRATCH_OCTETS))) {
        r->filled = 0;
        PyErr_NoMemory();
        failed = -1;
    } else if (t->scratch == scratch)
        memcpy(r->own, scratch, (size_t)r->filled);
    leave(r);
    return failed;
}

static PyObject *receiver_receive(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Turn t = {.r = (Receiver *)self, .fd = count == 2 ? (int)PyLong_AsLong(args[0]) : -1};
    Py_ssize_t most = count == 2 ? PyLong_AsSsize_t(args[1]) : 0;
    if (!PyErr_Occurred() && t.fd < 0)
        PyErr_SetString(PyExc_TypeError, "receive takes a file descriptor and a number of octets");
    return PyErr_Occurred() || take_turn(&t, most) ? NULL : PyLong_FromLong(t.outcome);
}

static PyObject *receiver_feed(PyObject *self, PyObject *octets) {
    Turn t = {.r = (Receiver *)self, .fd = -1};
    Py_buffer source;
    int failed;
    if (PyObject_GetBuffer(octets, &source, PyBUF_SIMPLE)) return NULL;
    t.source = source.buf;
    t.source_octets = source.len;
    failed = take_turn(&t, LONG_MAX);
    PyBuffer_Release(&source);
    return failed ? NULL : Py_BuildValue("ln", t.outcome, source.len - t.source_octets);
}

static void forget(Receiver *r) {
    PyMem_Free(r->own);
    PyMem_Free(r->message);
    Py_CLEAR(r->send);
    r->own = r->message = NULL;
    r->filled = r->message_octets = r->trailer = r->left = 0;
    r->opened = r->bulk = r->sends = 0;
}

/* Gives back the octets of an incomplete FPDU and those of an incomplete Send, and forgets both. */
static PyObject *receiver_hand_over(PyObject *self, PyObject *unused) {
    Receiver *r = (Receiver *)self;
    PyObject *octets, *message;
    (void)unused;
    if (!enter(r)) return NULL;
    octets = PyBytes_FromStringAndSize((const char *)r->own, r->filled);
    message = r->send ? PyBytes_FromStringAndSize(PyBytes_AsString(r->send), r->placed)
                      : PyBytes_FromStringAndSize((const char *)r->message, r->message_octets);
    if (octets && message) forget(r);
    leave(r);
    return Py_BuildValue("(NN)", octets, message);
}

static PyObject *receiver_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *given[OBJECTS - 1];
    Receiver *r;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!O!O!OO", &PyDict_Type, &given[REGIONS], &PyList_Type, &given[READS], &PyList_Type,
            &given[RESPONSES], &given[COMPLETIONS], &given[READ_ANSWERED]))
        return NULL;
    r = (Receiver *)PyType_GenericAlloc(type, 0);
    for (int i = 0; r && i < OBJECTS - 1; i++) r->objects[i] = Py_NewRef(given[i]);
    return (PyObject *)r;
}

static int receiver_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    for (int i = 0; i < OBJECTS; i++) Py_VISIT(((Receiver *)self)->objects[i]);
    return 0;
}

static int receiver_clear(PyObject *self) {
    for (int i = 0; i < OBJECTS; i++) Py_CLEAR(((Receiver *)self)->objects[i]);
    return 0;
}

static void receiver_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    forget((Receiver *)self);
    receiver_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

#define FIELD(name, type, field, flags) {name, type, offsetof(Receiver, field), flags, NULL}
static PyMemberDef members[] = {
    FIELD("send_number", T_UINT, msn[0], 0), FIELD("read_number", T_UINT, msn[1], 0),
    FIELD("posted", T_PYSSIZET, posted, 0), FIELD("reads_max", T_PYSSIZET, reads_max, 0),
    FIELD("pool", T_OBJECT, objects[POOL], 0), FIELD("crc", T_BOOL, crc, 0), FIELD("opened", T_BOOL, opened, 0),
    FIELD("received", T_ULONGLONG, received, 0), FIELD("opened_rdmap", T_UBYTE, opened_rdmap, 0),
    FIELD("opened_handle", T_UINT, opened_handle, 0),
    FIELD("length", T_UINT, direct.length, READONLY), FIELD("control", T_UBYTE, direct.control, READONLY),
    FIELD("rdmap", T_UBYTE, direct.rdmap, READONLY), FIELD("handle", T_UINT, direct.handle, READONLY),
    FIELD("offset", T_ULONGLONG, direct.offset, READONLY), FIELD("placed", T_PYSSIZET, placed, READONLY),
    FIELD("left", T_PYSSIZET, left, READONLY), FIELD("trailer", T_PYSSIZET, trailer, READONLY),
    FIELD("digest", T_UINT, digest, READONLY), FIELD("message_rdmap", T_UBYTE, message_rdmap, READONLY),
    FIELD("message_handle", T_UINT, message_handle, READONLY), {NULL, 0, 0, 0, NULL}};
static PyMethodDef methods[] = {{"receive", (PyCFunction)(void (*)(void))receiver_receive, METH_FASTCALL, NULL},
    {"feed", receiver_feed, METH_O, NULL},
    {"hand_over", receiver_hand_over, METH_NOARGS, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, receiver_new}, {Py_tp_dealloc, receiver_free}, {Py_tp_methods, methods},
    {Py_tp_members, members}, {Py_tp_traverse, receiver_traverse}, {Py_tp_clear, receiver_clear}, {0, NULL}};
static PyType_Spec spec = {
    "rpcrdma_native.Receiver", sizeof(Receiver), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

/* use_types(Completion, ReadResponse, ReadHeader, Verb.RECEIVE, Status.SUCCESS): what messages are reported with. */
static PyObject *use_types(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != TYPES) return PyErr_Format(PyExc_TypeError, "use_types of %R takes %d objects", module, TYPES);
    for (Py_ssize_t i = 0; i < TYPES; i++) {
        PyObject *before = types[i];
        types[i] = Py_NewRef(args[i]);
        Py_XDECREF(before);
    }
    return Py_NewRef(Py_None);
}
static PyMethodDef functions[] = {{"use_types", (PyCFunction)(void (*)(void))use_types, METH_FASTCALL, NULL}, {0}};

int rn_add_receiver(PyObject *module) {
    PyObject *type = PyType_FromSpec(&spec);
    int added = PyModule_AddObject(module, "Receiver", type);
    for (int i = 0; i < NAMES && !added; i++)
        added = names[i] || (names[i] = PyUnicode_InternFromString(name_strings[i])) ? 0 : -1;
    if (!tuple_new) tuple_new = PyObject_GetAttrString((PyObject *)&PyTuple_Type, "__new__");
    if (added || !tuple_new || PyModule_AddFunctions(module, functions)) return -1;
    if (PyModule_AddIntMacro(module, STOPPED)) return -1;
    return PyModule_AddIntConstant(module, "END_OF_STREAM", END_OF_STREAM);
}
