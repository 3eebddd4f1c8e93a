/* The floor of the benchmarks: the system calls of a call over the software RNIC, its FPDUs and digests, no more.
 *
 * `floor serve DIRECTORY...` prints its port and serves one connection from the file "data" of each directory.
 * `floor client PORT` takes orders and answers them, as benchmarks/orders.py says.
 *
 * Calls, replies and requests of RDMA Reads are untagged FPDUs, which carry data of up to 4 KiB. More data is tagged
 * FPDUs of nearly 64 KiB: the server reads a file in pieces of two FPDUs through one warm buffer, and writes a file
 * from two sinks of 1 MiB. Each end receives straight into the memory that the data is for. Both ends trust each other:
 * a wrong digest or data that the file does not have ends the program, and nothing else is checked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "crc32c.h" /* native/src: the digests of the native module */

enum { INLINE = 4096, CALL_MAX = 1 << 20, FILE_OCTETS = 64 << 20, FILLING = 0x5a }; /* as benchmarks/nfs_servers.py */
enum { TAGGED = 65456, TAGGED_HEAD = 16, UNTAGGED_HEAD = 20, BODY = 120, DIGEST = 4 };
enum { FRAMES = 16, VECTORS = 3 * FRAMES, PIECE_FRAMES = 2, SINKS = 2, SLOTS_MAX = 256, SCRATCH = 1 << 16 };
enum kind { NULL_CALL, READ_CALL, WRITE_CALL, READ_REQUEST, REPLY };

/* The body of an untagged FPDU: as long as a header of RPC-over-RDMA with its call. */
struct body {
  uint32_t kind, slot, octets, where;
  uint64_t offset;
  uint32_t stag, with_data;
  uint8_t rest[BODY - 32];
};

static void fail(const char *what) {
  perror(what);
  exit(1);
}

/* One end of the connection. */
struct job { /* an untagged FPDU, or data in tagged ones, that waits for the socket */
  struct job *next;
  struct body body;
  const uint8_t *data; /* in memory; NULL: in a file */
  size_t sent;
  int tagged;
};

static struct {
  int fd, epoll, server, files[2], wants_out;
  uint8_t scratch[SCRATCH];
  size_t filled;
  /* The tagged message that arrives: where to, its length and how much of its octets, headers and digests included. */
  uint8_t *place;
  size_t length, arrived;
  struct body arriving;
  uint8_t heads[SLOTS_MAX][TAGGED_HEAD], digests[SLOTS_MAX][DIGEST];
  /* The octets that the socket did not take: vectors of a job's frames. */
  struct iovec out[VECTORS];
  int out_count, out_first;
  uint8_t out_heads[FRAMES][UNTAGGED_HEAD + BODY], out_digests[FRAMES][DIGEST];
  struct job *first, *last;
  uint8_t *warm, *sinks[SINKS];
  int sink_free[SINKS];
  struct job *waiting_first, *waiting_last;
  uint32_t msn;
} me;

static void append(struct job **first, struct job **last, struct job *job) {
  job->next = NULL;
  if (*first) (*last)->next = job;
  else *first = job;
  *last = job;
}

static void post(const struct body *body, const uint8_t *data, int tagged) {
  struct job *job = calloc(1, sizeof *job);
  if (!job) fail("calloc");
  job->body = *body;
  job->data = data;
  job->tagged = tagged;
  append(&me.first, &me.last, job);
}

static size_t frames_of(size_t length) { return (length + TAGGED - 1) / TAGGED; }
static size_t wire_of(size_t length) { return length + frames_of(length) * (TAGGED_HEAD + DIGEST); }

static void add(const void *start, size_t length) {
  me.out[me.out_count++] = (struct iovec){(void *)start, length};
}

static void frame(uint8_t *head, size_t head_octets, const uint8_t *data, size_t octets, uint8_t *digest) {
  uint16_t length = htons((uint16_t)(head_octets - 2 + octets));
  memcpy(head, &length, 2);
  uint32_t crc = rn_crc32c(0, head, head_octets);
  if (octets) crc = rn_crc32c(crc, data, octets);
  memcpy(digest, &crc, DIGEST);
  add(head, head_octets);
  if (octets) add(data, octets);
  add(digest, DIGEST);
}

static const uint8_t *from_file(const struct body *body, uint8_t *memory, size_t octets, size_t position) {
  if (pread(me.files[body->where], memory, octets, (off_t)(body->offset + position)) != (ssize_t)octets) fail("pread");
  return memory;
}

/* An untagged FPDU, the one with this number of those that leave together. */
static void build_untagged(const struct job *job, size_t number) {
  uint8_t *head = me.out_heads[number];
  uint32_t fields[5] = {htonl(0x4143), job->body.stag, 0, htonl(++me.msn), 0};
  size_t octets = job->body.with_data ? job->body.octets : 0;
  const uint8_t *data = job->data;
  if (octets && !data) data = from_file(&job->body, me.warm + number * INLINE, octets, 0);
  memcpy(head, fields, UNTAGGED_HEAD);
  memcpy(head + UNTAGGED_HEAD, &job->body, sizeof job->body);
  frame(head, UNTAGGED_HEAD + sizeof job->body, data, octets, me.out_digests[number]);
}

/* Tagged FPDUs of the job, as many as leave together. */
static void build_tagged(struct job *job) {
  const struct body *body = &job->body;
  size_t piece = body->octets - job->sent, limit = (job->data ? FRAMES : PIECE_FRAMES) * (size_t)TAGGED;
  if (piece > limit) piece = limit;
  const uint8_t *data = job->data ? job->data + job->sent : from_file(body, me.warm, piece, job->sent);
  for (size_t at = 0; at < piece; at += TAGGED) {
    size_t octets = piece - at < TAGGED ? piece - at : TAGGED;
    uint8_t *head = me.out_heads[at / TAGGED];
    head[2] = (uint8_t)(0x81 | (job->sent + at + octets == body->octets ? 0x40 : 0)), head[3] = 0x40;
    memcpy(head + 4, &body->slot, 4);
    memcpy(head + 8, &body->octets, 4);
    memcpy(head + 12, &body->stag, 4);
    frame(head, TAGGED_HEAD, data + at, octets, me.out_digests[at / TAGGED]);
  }
  job->sent += piece;
}

/* The FPDUs that leave next, in one system call; false if there are none. */
static int build(void) {
  me.out_count = me.out_first = 0;
  for (size_t number = 0; me.first && !me.first->tagged && number < FRAMES; number++) {
    struct job *job = me.first;
    build_untagged(job, number);
    me.first = job->next;
    free(job);
  }
  if (me.out_count || !me.first) return me.out_count;
  struct job *job = me.first;
  build_tagged(job);
  if (job->sent == job->body.octets) {
    me.first = job->next;
    free(job);
  }
  return 1;
}

static void wait_for_room(int wanted) {
  struct epoll_event event = {.events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN};
  if (me.wants_out != wanted && epoll_ctl(me.epoll, EPOLL_CTL_MOD, me.fd, &event)) fail("epoll_ctl");
  me.wants_out = wanted;
}

static void pump(void) {
  for (;;) {
    while (me.out_first < me.out_count) {
      struct msghdr message = {.msg_iov = me.out + me.out_first, .msg_iovlen = (size_t)(me.out_count - me.out_first)};
      ssize_t count = sendmsg(me.fd, &message, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) fail("sendmsg");
      if (count < 0) {
        wait_for_room(1);
        return;
      }
      for (; count; ) {
        struct iovec *vector = &me.out[me.out_first];
        size_t taken = (size_t)count < vector->iov_len ? (size_t)count : vector->iov_len;
        vector->iov_base = (uint8_t *)vector->iov_base + taken;
        vector->iov_len -= taken;
        count -= (ssize_t)taken;
        if (!vector->iov_len) me.out_first++;
      }
    }
    if (!build()) break;
  }
  wait_for_room(0);
}

/* The client's calls. */
static struct {
  uint8_t *memory;
  size_t memory_octets, octets;
  uint32_t kind, where, parts, left[SLOTS_MAX];
  double began[SLOTS_MAX], until, *times;
  size_t calls, room, pending;
} mine;

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void call(uint32_t slot) {
  size_t part_octets = mine.octets / mine.parts;
  mine.began[slot] = now(CLOCK_MONOTONIC);
  mine.left[slot] = mine.parts;
  mine.pending++;
  for (uint32_t part = 0; part < mine.parts; part++) {
    uint32_t place = slot * mine.parts + part;
    uint64_t offset = (uint64_t)place * part_octets % FILE_OCTETS;
    struct body body = {.kind = mine.kind, .slot = place, .octets = (uint32_t)part_octets, .where = mine.where};
    body.offset = offset;
    body.with_data = mine.kind == WRITE_CALL && part_octets <= INLINE;
    post(&body, mine.memory + place * part_octets, 0);
  }
}

static void returned(uint32_t place) {
  uint32_t slot = place / mine.parts;
  if (--mine.left[slot]) return;
  double time = now(CLOCK_MONOTONIC);
  mine.pending--;
  if (mine.calls == mine.room) {
    mine.room = 2 * mine.room + 4096;
    if (!(mine.times = realloc(mine.times, mine.room * sizeof(double)))) fail("realloc");
  }
  mine.times[mine.calls++] = time - mine.began[slot];
  if (time < mine.until) call(slot);
}

static void fetch(struct job *job, int sink) {
  me.sink_free[sink] = 0;
  job->body.kind = READ_REQUEST;
  job->body.stag = (uint32_t)sink;
  post(&job->body, NULL, 0);
  free(job);
}

static void store(struct body *body, const uint8_t *data) {
  if (pwrite(me.files[body->where], data, body->octets, (off_t)body->offset) != (ssize_t)body->octets) fail("pwrite");
  body->kind = REPLY;
  body->with_data = 0;
  post(body, NULL, 0);
}

static struct body fetched[SINKS];

static void untagged(struct body *body, const uint8_t *data) {
  switch (body->kind) {
  case NULL_CALL:
    body->kind = REPLY;
    post(body, NULL, 0);
    break;
  case READ_CALL:
    body->kind = REPLY;
    body->with_data = body->octets <= INLINE;
    if (!body->with_data) post(body, NULL, 1);
    post(body, NULL, 0);
    break;
  case WRITE_CALL:
    if (body->with_data) store(body, data);
    else {
      struct job *job = calloc(1, sizeof *job);
      if (!job) fail("calloc");
      job->body = *body;
      for (int sink = 0; sink < SINKS; sink++)
        if (me.sink_free[sink]) {
          fetched[sink] = *body;
          fetch(job, sink);
          return;
        }
      append(&me.waiting_first, &me.waiting_last, job);
    }
    break;
  case READ_REQUEST:
    post(body, mine.memory + (size_t)body->slot * body->octets, 1);
    break;
  default:
    if (body->with_data) memcpy(mine.memory + (size_t)body->slot * body->octets, data, body->octets);
    returned(body->slot);
  }
}

static void tagged_ended(uint32_t sink) {
  if (!me.server) return;
  store(&fetched[sink], me.sinks[sink]);
  me.sink_free[sink] = 1;
  struct job *job = me.waiting_first;
  if (job) {
    me.waiting_first = job->next;
    fetched[sink] = job->body;
    fetch(job, (int)sink);
  }
}

static void check(uint32_t crc, const uint8_t *digest) {
  if (memcmp(&crc, digest, DIGEST)) fputs("floor: a digest is wrong\n", stderr), exit(1);
}

/* Vectors for octets of the tagged message from `arrived` on. */
static int vectors_of(struct iovec *vectors) {
  int count = 0;
  size_t span = TAGGED + TAGGED_HEAD + DIGEST;
  size_t number = me.arrived / span, at = me.arrived % span;
  for (; number < frames_of(me.length) && count + 3 < VECTORS; number++, at = 0) {
    size_t octets = me.length - number * TAGGED < TAGGED ? me.length - number * TAGGED : TAGGED;
    uint8_t *parts[] = {me.heads[number], me.place + number * TAGGED, me.digests[number]};
    size_t lengths[] = {TAGGED_HEAD, octets, DIGEST};
    for (int part = 0; part < 3; at -= at < lengths[part] ? at : lengths[part], part++)
      if (at < lengths[part]) vectors[count++] = (struct iovec){parts[part] + at, lengths[part] - at};
  }
  return count;
}

static void advance(size_t octets) {
  size_t span = TAGGED + TAGGED_HEAD + DIGEST, wire = wire_of(me.length);
  size_t before = me.arrived / span, after;
  me.arrived += octets;
  after = me.arrived == wire ? frames_of(me.length) : me.arrived / span;
  for (size_t number = before; number < after; number++) {
    size_t length = me.length - number * TAGGED < TAGGED ? me.length - number * TAGGED : TAGGED;
    check(rn_crc32c(rn_crc32c(0, me.heads[number], TAGGED_HEAD), me.place + number * TAGGED, length), me.digests[number]);
  }
  if (me.arrived == wire) {
    uint32_t sink;
    memcpy(&sink, me.heads[0] + 12, 4);
    me.length = 0;
    tagged_ended(sink);
  }
}

/* Takes what the scratch has: untagged FPDUs, and the beginning of a tagged message. */
static void take(void) {
  size_t at = 0;
  while (!me.length && me.filled - at >= UNTAGGED_HEAD) {
    const uint8_t *head = me.scratch + at;
    uint16_t length;
    memcpy(&length, head, 2);
    size_t octets = 2 + (size_t)ntohs(length);
    if (head[2] & 0x80) {
      uint32_t slot, sink, message;
      memcpy(&slot, head + 4, 4), memcpy(&message, head + 8, 4), memcpy(&sink, head + 12, 4);
      me.length = message, me.arrived = 0;
      me.place = me.server ? me.sinks[sink] : mine.memory + (size_t)slot * message;
      struct iovec vectors[VECTORS];
      int count = vectors_of(vectors);
      size_t copied = 0, have = me.filled - at;
      for (int i = 0; i < count && copied < have; i++) {
        size_t part = have - copied < vectors[i].iov_len ? have - copied : vectors[i].iov_len;
        memcpy(vectors[i].iov_base, head + copied, part);
        copied += part;
      }
      at += copied;
      advance(copied);
      continue;
    }
    if (me.filled - at < octets + DIGEST) break;
    struct body body;
    memcpy(&body, head + UNTAGGED_HEAD, sizeof body);
    check(rn_crc32c(0, head, octets), head + octets);
    untagged(&body, head + UNTAGGED_HEAD + sizeof body);
    at += octets + DIGEST;
  }
  memmove(me.scratch, me.scratch + at, me.filled -= at);
}

/* One turn of the loop; false at the end of the connection. */
static int turn(void) {
  struct epoll_event event;
  if (epoll_wait(me.epoll, &event, 1, -1) < 0) fail("epoll_wait");
  if (event.events & (EPOLLIN | EPOLLHUP)) {
    struct iovec vectors[VECTORS + 1];
    int count = me.length ? vectors_of(vectors) : 0;
    size_t direct = 0;
    for (int i = 0; i < count; i++) direct += vectors[i].iov_len;
    if (!me.length || me.arrived + direct == wire_of(me.length))
      vectors[count++] = (struct iovec){me.scratch + me.filled, SCRATCH - me.filled};
    ssize_t got = readv(me.fd, vectors, count);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) return 0;
    if (got < 0 && errno != EAGAIN) fail("readv");
    if (got > 0) {
      size_t placed = (size_t)got < direct ? (size_t)got : direct;
      if (placed) advance(placed);
      me.filled += (size_t)got - placed;
      take();
    }
  }
  pump();
  return 1;
}

static void connected(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* as both ends of the library do over loopback */
  if (fcntl(fd, F_SETFL, O_NONBLOCK)) fail("fcntl");
  me.fd = fd;
  me.epoll = epoll_create1(0);
  if (epoll_ctl(me.epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN})) fail("epoll_ctl");
}

static int serve(int count, char **directories) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  for (int i = 0; i < count && i < 2; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/data", directories[i]);
    if ((me.files[i] = open(path, O_RDWR)) < 0) fail(path);
  }
  me.server = 1;
  me.warm = malloc(PIECE_FRAMES * TAGGED);
  for (int i = 0; i < SINKS; i++) me.sinks[i] = malloc(CALL_MAX), me.sink_free[i] = 1;
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1)) fail("listen");
  getsockname(listener, (struct sockaddr *)&address, &length);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  connected(accept(listener, NULL, NULL));
  while (turn()) {}
  return 0;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int client(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  char name[16];
  unsigned in_flight, where;
  double seconds;
  address.sin_port = htons((uint16_t)port);
  if (connect(fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
  connected(fd);
  while (scanf("%15s %zu %u %u %lf", name, &mine.octets, &in_flight, &where, &seconds) == 5) {
    mine.kind = name[0] == 'N' ? NULL_CALL : name[0] == 'R' ? READ_CALL : WRITE_CALL;
    mine.where = where;
    mine.parts = mine.octets > CALL_MAX ? (uint32_t)(mine.octets / CALL_MAX) : 1;
    if (in_flight * mine.parts > SLOTS_MAX) return 1;
    if (in_flight * mine.octets > mine.memory_octets) {
      free(mine.memory);
      if (!(mine.memory = malloc(mine.memory_octets = in_flight * mine.octets))) fail("malloc");
    }
    if (mine.octets) memset(mine.memory, mine.kind == READ_CALL ? 0 : FILLING, in_flight * mine.octets);
    mine.calls = 0;
    double start = now(CLOCK_MONOTONIC), spent = now(CLOCK_PROCESS_CPUTIME_ID);
    mine.until = start + seconds;
    for (unsigned slot = 0; slot < in_flight; slot++) call(slot);
    for (pump(); mine.pending;)
      if (!turn()) return 1;
    double elapsed = now(CLOCK_MONOTONIC) - start;
    spent = now(CLOCK_PROCESS_CPUTIME_ID) - spent;
    for (size_t at = 0; at < in_flight * mine.octets; at++)
      if (mine.memory[at] != FILLING) return fputs("floor: the octets are not those of the file\n", stderr), 1;
    qsort(mine.times, mine.calls, sizeof(double), by_value);
    printf("%zu %.9f %.9f %.9f\n", mine.calls, elapsed, mine.times[mine.calls / 2], spent);
    fflush(stdout);
  }
  return 0;
}

int main(int count, char **arguments) {
  rn_crc32c_choose();
  if (count > 2 && !strcmp(arguments[1], "serve")) return serve(count - 2, arguments + 2);
  if (count == 3 && !strcmp(arguments[1], "client")) return client(atoi(arguments[2]));
  fputs("usage: floor serve DIRECTORY... | floor client PORT\n", stderr);
  return 2;
}
