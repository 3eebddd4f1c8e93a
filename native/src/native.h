/* What the files of the extension module share: each adds its functions and types to the module. */
#ifndef RPCRDMA_NATIVE_H
#define RPCRDMA_NATIVE_H

#include "crc32c.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* The functions and types below as one number, which rises with each change of them: src/rpcrdma/wire/native.py uses
   a module of its own number only. */
#define RN_INTERFACE 4

/* Each returns 0, or -1 with an exception set. */
int rn_add_crc32c(PyObject *module);
int rn_add_receiver(PyObject *module);
int rn_add_send(PyObject *module);

/* The octets of FPDUs: RFC 5044 section 4, RFC 5041 section 4, RFC 5040 section 4. The sizes of headers include
   ULPDU_Length. */
enum { TAGGED_OCTETS = 16, UNTAGGED_OCTETS = 20, READ_HEADER_OCTETS = 28, CRC_OCTETS = 4 };
enum { DDP_TAGGED = 0x80, DDP_LAST = 0x40, DDP_VERSION = 0x01 };
enum {
    RDMAP_WRITE = 0x40,
    RDMAP_READ_REQUEST = 0x41,
    RDMAP_READ_RESPONSE = 0x42,
    RDMAP_SEND = 0x43,
    RDMAP_SEND_INVALIDATE = 0x44,
    RDMAP_SEND_SOLICITED_INVALIDATE = 0x46,
};

static inline uint32_t get_u16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static inline uint32_t get_u32(const uint8_t *p) { return get_u16(p) << 16 | get_u16(p + 2); }
static inline uint64_t get_u64(const uint8_t *p) { return (uint64_t)get_u32(p) << 32 | get_u32(p + 4); }

static inline void put_u32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* An attribute that is a number of up to 64 bits. */
static inline int rn_get_number(PyObject *object, PyObject *name, uint64_t *number) {
    PyObject *value = PyObject_GetAttr(object, name);
    *number = value ? PyLong_AsUnsignedLongLong(value) : 0;
    Py_XDECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

#endif
