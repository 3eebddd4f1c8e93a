/* The sending half of full operation: frames messages, and sends them until the socket takes no more.

   Python chooses the messages and their order. FPDUs of which TCP has taken nothing are forgotten: they are framed
   again later, with the content that the memory has then. Of an FPDU that TCP has taken in part, the caller gets a copy
   of the rest: its CRC stays right, and no memory is shown after its invalidation. */
#include "native.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

enum {
    PIECES = 256,          /* of gather lists in one call */
    FRAMES = 64,           /* of one system call: the replies to READs of 64 KiB have three each, with their data */
    PLACES = 256, FRAME_PLACES = 64, /* the length of its gather list; without so many left, no FPDU is begun */
    /* Of the first: a result of 1 MiB with its reply, for which the peer wakes once. Of a further one: FPDUs that TCP
       does not take are framed again. */
    FIRST_OCTETS = 17 << 16, NEXT_OCTETS = 1 << 17,
    LONG_OCTETS = 1 << 14, /* a CRC over so many octets is computed without the interpreter's lock */
};

enum { CONTROL, HANDLE, OFFSET, LENGTH, GATHER, NAMES };
static const char *const name_strings[NAMES] = {"control", "handle", "offset", "length", "gather"};
static PyObject *names[NAMES];

typedef struct {
    uint64_t control, handle, offset, length, position;
    int piece; /* the first one that is not framed as a whole, and the octets of it that are */
    size_t piece_start;
} Message;

typedef struct {
    uint8_t header[UNTAGGED_OCTETS], trailer[3 + CRC_OCTETS];
    size_t octets;
    uint64_t position; /* of its message behind it, 0 at the end */
    int queue;         /* whose message it ends, -1 for none */
} Frame;

/* One call. What TCP has taken: `done` messages, `position` octets of the next one, `sent` octets of FPDUs in all. */
typedef struct {
    int fd, crc, blocked, pieces, frames, places;
    size_t payload_max[2];
    uint32_t numbers[2], framing[2]; /* MSNs of the queues: behind the sent messages, and behind the framed ones */
    Py_ssize_t done, room; /* `room`: octets that the batch still takes */
    uint64_t position, sent;
    PyObject *rest;
    Py_buffer piece[PIECES];
    struct iovec place[PLACES];
    Frame frame[FRAMES];
} Sending;

/* Copies the octets from `start` to `end` of the batch. */
static PyObject *copy_of(const Sending *s, size_t start, size_t end) {
    PyObject *copy = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(end - start));
    char *to = copy ? PyBytes_AsString(copy) : NULL;
    for (int i = 0; to && start < end; i++) {
        const size_t length = s->place[i].iov_len;
        if (start < length) {
            const size_t part = (end < length ? end : length) - start;
            memcpy(to, (const char *)s->place[i].iov_base + start, part);
            to += part;
            start += part;
        }
        start -= length; /* may wrap: both wrap back with the next piece */
        end -= length;
    }
    return copy;
}

/* Sends the batch, and notes what TCP has taken; 0, or -1 with an exception. */
static int send_batch(Sending *s, int more) {
    struct msghdr message = {.msg_iov = s->place, .msg_iovlen = (size_t)s->places};
    ssize_t taken = 0;
    size_t end = 0;
    if (!s->frames) return 0;
    Py_BEGIN_ALLOW_THREADS
    while ((taken = sendmsg(s->fd, &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0))) < 0 && errno == EINTR) {}
    Py_END_ALLOW_THREADS
    if (taken < 0 && errno != EAGAIN && errno != EWOULDBLOCK && !s->sent) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    for (int i = 0; i < s->frames && !s->blocked; i++) {
        const Frame *f = &s->frame[i];
        const size_t start = end;
        end += f->octets;
        s->blocked = (ssize_t)end > taken;
        if (s->blocked && (ssize_t)start >= taken) break;
        s->sent += f->octets;
        s->position = f->position;
        s->done += !f->position;
        if (f->queue >= 0) s->numbers[f->queue]++;
        if (s->blocked && !(s->rest = copy_of(s, (size_t)taken, end))) return -1;
    }
    s->frames = s->places = 0;
    s->room = NEXT_OCTETS;
    return 0;
}

/* Frames the next octets of a message. */
static void add_frame(Sending *s, Message *m) {
    Frame *f = &s->frame[s->frames++];
    const int tagged = m->control == RDMAP_WRITE || m->control == RDMAP_READ_RESPONSE;
    const int queue = m->control == RDMAP_READ_REQUEST, first = s->places++;
    const size_t head = tagged ? TAGGED_OCTETS : UNTAGGED_OCTETS;
    size_t octets = 0, most = s->payload_max[tagged], padding;
    uint32_t digest;
    int last;
    if (m->length - m->position < most) most = (size_t)(m->length - m->position);
    while (octets < most && m->piece < s->pieces && s->places < PLACES - 1) {
        const Py_buffer *b = &s->piece[m->piece];
        size_t part = (size_t)b->len - m->piece_start;
        part = part < most - octets ? part : most - octets;
        s->place[s->places++] = (struct iovec){(char *)b->buf + m->piece_start, part};
        octets += part;
        m->piece_start += part;
        if (m->piece_start == (size_t)b->len) {
            m->piece++;
            m->piece_start = 0;
        }
    }
    last = m->position + octets == m->length;
    padding = -octets & 3;
    f->header[0] = (uint8_t)((head - 2 + octets) >> 8);
    f->header[1] = (uint8_t)(head - 2 + octets);
    f->header[2] = (uint8_t)((tagged ? DDP_TAGGED : 0) | (last ? DDP_LAST : 0) | DDP_VERSION);
    f->header[3] = (uint8_t)m->control;
    put_u32(f->header + 4, (uint32_t)m->handle);
    if (tagged) {
        put_u32(f->header + 8, (uint32_t)((m->offset + m->position) >> 32));
        put_u32(f->header + 12, (uint32_t)(m->offset + m->position));
    } else {
        put_u32(f->header + 8, (uint32_t)queue);
        put_u32(f->header + 12, s->framing[queue]);
        put_u32(f->header + 16, (uint32_t)m->position);
    }
    memset(f->trailer, 0, sizeof f->trailer);
    s->place[first] = (struct iovec){f->header, head};
    if (s->crc) {
        PyThreadState *lock = octets >= LONG_OCTETS ? PyEval_SaveThread() : NULL;
        digest = rn_crc32c(0, f->header, head);
        for (int i = first + 1; i < s->places; i++)
            digest = rn_crc32c(digest, s->place[i].iov_base, s->place[i].iov_len);
        digest = rn_crc32c(digest, f->trailer, padding);
        if (lock) PyEval_RestoreThread(lock);
        for (int i = 0; i < CRC_OCTETS; i++) f->trailer[padding + (size_t)i] = (uint8_t)(digest >> 8 * i);
    }
    s->place[s->places++] = (struct iovec){f->trailer, padding + CRC_OCTETS};
    m->position += octets;
    f->octets = head + octets + padding + CRC_OCTETS;
    f->position = last ? 0 : m->position;
    f->queue = last && !tagged ? queue : -1;
    if (f->queue >= 0) s->framing[queue]++;
    s->room -= (Py_ssize_t)f->octets;
}

/* Takes up the pieces of a message from its position on, as many as there is room for; 0, or -1. */
static int take_pieces(Sending *s, Message *m, PyObject *gather) {
    const Py_ssize_t count = PySequence_Size(gather);
    uint64_t position = 0;
    m->piece = s->pieces;
    m->piece_start = 0;
    for (Py_ssize_t i = 0; i < count && s->pieces < PIECES; i++) {
        PyObject *piece = PySequence_GetItem(gather, i);
        Py_buffer *b = &s->piece[s->pieces];
        const int failed = piece ? PyObject_GetBuffer(piece, b, PyBUF_SIMPLE) : -1;
        Py_XDECREF(piece);
        if (failed) return -1;
        if (position < m->position && position + (uint64_t)b->len > m->position)
            m->piece_start = (size_t)(m->position - position);
        position += (uint64_t)b->len;
        if (position > m->position) s->pieces++;
        else PyBuffer_Release(b);
    }
    return count < 0 ? -1 : 0;
}

/* Frames one message, as far as it is taken up, and sends batches that are full; 0, or -1. */
static int frame_message(Sending *s, Message *m, PyObject *gather) {
    if (take_pieces(s, m, gather)) return -1;
    do {
        if ((s->room <= 0 || s->frames == FRAMES || s->places > PLACES - FRAME_PLACES) && send_batch(s, 1)) return -1;
        if (!s->blocked) add_frame(s, m);
    } while (!s->blocked && m->position < m->length && m->piece < s->pieces);
    return 0;
}

/* Reads the attributes of a message: 1, 0 where Python has to decide, -1. */
static int read_message(PyObject *work, Message *m, PyObject **gather, long *reads) {
    if (rn_get_number(work, names[CONTROL], &m->control)) return -1;
    if (m->control < RDMAP_WRITE || m->control > RDMAP_SEND_INVALIDATE) return 0;
    if (m->control == RDMAP_READ_REQUEST && !(*reads)--) return 0;
    if (m->control == RDMAP_READ_REQUEST) { /* its message is the Read Request header */ m->handle = m->offset = 0;
        m->length = READ_HEADER_OCTETS;
        return (*gather = PyObject_GetAttr(work, names[GATHER])) ? 1 : -1;
    }
    if (rn_get_number(work, names[HANDLE], &m->handle) || rn_get_number(work, names[OFFSET], &m->offset) ||
        rn_get_number(work, names[LENGTH], &m->length) || !(*gather = PyObject_GetAttr(work, names[GATHER])))
        return -1;
    return 1;
}

/* send(fd, messages, position, numbers, tagged_max, untagged_max, crc, reads): see the stubs. */
static PyObject *send_messages(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    Sending *s = PyMem_Malloc(sizeof *s);
    Message m = {0};
    PyObject *result = NULL, *numbers = nargs == 8 ? args[3] : NULL;
    Py_ssize_t count = nargs == 8 ? PyList_Size(args[1]) : -1;
    long reads = 0;
    int failed = 0;
    (void)module;
    if (!s || count < 0) {
        PyMem_Free(s);
        return PyErr_Format(PyExc_TypeError, "send takes a list of messages and seven more arguments");
    }
    memset(s, 0, offsetof(Sending, piece));
    s->fd = (int)PyLong_AsLong(args[0]);
    s->room = FIRST_OCTETS;
    m.position = s->position = PyLong_AsUnsignedLongLong(args[2]);
    for (int i = 0; i < 2; i++)
        s->numbers[i] = s->framing[i] = (uint32_t)PyLong_AsUnsignedLong(PyList_GetItem(numbers, i));
    s->payload_max[1] = PyLong_AsSize_t(args[4]);
    s->payload_max[0] = PyLong_AsSize_t(args[5]);
    s->crc = PyObject_IsTrue(args[6]);
    reads = PyLong_AsLong(args[7]);
    failed = PyErr_Occurred() ? -1 : 0;
    for (Py_ssize_t i = 0; i < count && !failed && !s->blocked && s->pieces < PIECES; i++) {
        PyObject *gather = NULL;
        const int usual = read_message(PyList_GetItem(args[1], i), &m, &gather, &reads);
        failed = usual == 1 ? frame_message(s, &m, gather) : usual;
        Py_XDECREF(gather);
        if (usual != 1) break;
        m.position = 0;
    }
    if (!failed && !s->blocked) failed = send_batch(s, 0);
    for (int i = 0; i < 2 && !failed; i++)
        failed = PyList_SetItem(numbers, i, PyLong_FromUnsignedLong(s->numbers[i]));
    while (s->pieces) PyBuffer_Release(&s->piece[--s->pieces]);
    if (!failed && s->blocked && !s->rest) s->rest = PyBytes_FromStringAndSize(NULL, 0);
    if (!failed)
        result = Py_BuildValue("(nKKO)", s->done, (unsigned long long)s->position, (unsigned long long)s->sent,
            s->rest ? s->rest : Py_None);
    Py_XDECREF(s->rest);
    PyMem_Free(s);
    return result;
}

static PyMethodDef functions[] = {{"send", (PyCFunction)(void (*)(void))send_messages, METH_FASTCALL, NULL}, {0}};

int rn_add_send(PyObject *module) {
    for (int i = 0; i < NAMES; i++)
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(name_strings[i]))) return -1;
    return PyModule_AddFunctions(module, functions);
}
