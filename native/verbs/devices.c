/* The devices of this machine, with their attributes and ports. */
#include "verbs.h"

#include <string.h>

static PyObject *port_attributes(const Calls *calls, struct ibv_context *context, uint8_t number) {
    struct ibv_port_attr port;
    int failed;
    memset(&port, 0, sizeof port);
    Py_BEGIN_ALLOW_THREADS
    failed = calls->ibv_query_port(context, number, &port);
    Py_END_ALLOW_THREADS
    if (failed) return rv_failed(failed, "ibv_query_port");
    return Py_BuildValue("{s:i,s:O,s:O,s:I}", "number", (int)number, "active",
        port.state == IBV_PORT_ACTIVE ? Py_True : Py_False, "ethernet",
        port.link_layer == IBV_LINK_LAYER_ETHERNET ? Py_True : Py_False, "max_message_octets", port.max_msg_sz);
}

PyObject *rv_attributes(const Calls *calls, struct ibv_context *context) {
    struct ibv_device_attr device;
    PyObject *ports, *attributes;
    int failed;
    memset(&device, 0, sizeof device);
    Py_BEGIN_ALLOW_THREADS
    failed = calls->ibv_query_device(context, &device);
    Py_END_ALLOW_THREADS
    if (failed) return rv_failed(failed, "ibv_query_device");
    device.fw_ver[sizeof device.fw_ver - 1] = 0;
    if (!(ports = PyList_New(0))) return NULL;
    for (uint8_t number = 1; number && number <= device.phys_port_cnt; number++) {
        PyObject *port = port_attributes(calls, context, number);
        if (!port || PyList_Append(ports, port)) {
            Py_XDECREF(port);
            Py_DECREF(ports);
            return NULL;
        }
        Py_DECREF(port);
    }
    const int windows = device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS &&
        device.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    attributes = Py_BuildValue("{s:s,s:O,s:s,s:i,s:i,s:i,s:i,s:i,s:O,s:i,s:i,s:K,s:O}", "name",
        calls->ibv_get_device_name(context->device), "iwarp",
        context->device->transport_type == IBV_TRANSPORT_IWARP ? Py_True : Py_False, "firmware", device.fw_ver,
        "max_queue_pair_work", device.max_qp_wr, "max_entries", device.max_sge, "max_completions", device.max_cqe,
        "max_regions", device.max_mr, "max_windows", device.max_mw, "type_2_windows",
        windows ? Py_True : Py_False, "max_inbound_reads", device.max_qp_rd_atom,
        "max_outbound_reads", device.max_qp_init_rd_atom, "max_region_octets",
        (unsigned long long)device.max_mr_size, "ports", ports);
    Py_DECREF(ports);
    return attributes;
}

static PyObject *attributes_of(const Calls *calls, struct ibv_device *device) {
    struct ibv_context *context;
    PyObject *attributes;
    Py_BEGIN_ALLOW_THREADS
    context = calls->ibv_open_device(device);
    Py_END_ALLOW_THREADS
    if (!context) return rv_failed(0, "ibv_open_device");
    attributes = rv_attributes(calls, context);
    Py_BEGIN_ALLOW_THREADS
    calls->ibv_close_device(context);
    Py_END_ALLOW_THREADS
    return attributes;
}

/* devices() -> the attributes of each device that can be opened; an OSError where none of them can */
static PyObject *devices(PyObject *module, PyObject *unused) {
    const Calls *calls = rv_calls();
    struct ibv_device **list;
    PyObject *found;
    int count = 0;
    (void)module;
    (void)unused;
    if (!calls) return NULL;
    Py_BEGIN_ALLOW_THREADS
    list = calls->ibv_get_device_list(&count);
    Py_END_ALLOW_THREADS
    if (!list) return rv_failed(0, "ibv_get_device_list");
    found = PyList_New(0);
    for (int i = 0; found && i < count; i++) {
        PyObject *attributes;
        PyErr_Clear();
        attributes = attributes_of(calls, list[i]);
        if (attributes && PyList_Append(found, attributes)) Py_CLEAR(found);
        Py_XDECREF(attributes);
    }
    if (found && PyList_Size(found))
        PyErr_Clear();
    else if (PyErr_Occurred())
        Py_CLEAR(found);
    calls->ibv_free_device_list(list);
    return found;
}

/* status_text(status) -> a completion's status in words */
static PyObject *status_text(PyObject *module, PyObject *status) {
    const Calls *calls = rv_calls();
    const long number = PyLong_AsLong(status);
    (void)module;
    if (!calls || PyErr_Occurred()) return NULL;
    return PyUnicode_FromString(calls->ibv_wc_status_str((int)number));
}

static PyMethodDef functions[] = {
    {"devices", devices, METH_NOARGS, NULL}, {"status_text", status_text, METH_O, NULL}, {0}};

int rv_add_devices(PyObject *module) { return PyModule_AddFunctions(module, functions); }
