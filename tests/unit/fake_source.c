#include "fake_source.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"

#define PROCESSES 8
#define STREAMS 8
#define NAMES 512

struct fake_stream {
  VEC(struct opgap_record) records;
};
static struct fake_process {
  struct opgap_process_info info;
  struct opgap_stream_info streams[STREAMS];
  struct fake_stream data[STREAMS];
  const char *names[NAMES];
  size_t lengths[NAMES];
  unsigned name_count;
  const char *keys[8], *values[8];
  unsigned key_count;
} processes[PROCESSES];
static unsigned process_count;

#define FIELDS                                                                                                         \
  {                                                                                                                    \
    {"object", OPGAP_PLAIN},                                                                                           \
    {                                                                                                                  \
      "value", OPGAP_PLAIN                                                                                             \
    }                                                                                                                  \
  }
static const struct opgap_event hooks[] = {
    {FAKE_READ, OPGAP_SPAN, 2, 1 | 2 | 16, "read", "io", "errno", FIELDS},
    {FAKE_WRITE, OPGAP_SPAN, 2, 1 | 2 | 16, "write", "io", "errno", FIELDS},
    {FAKE_OPEN, OPGAP_SPAN, 2, 1 | 16, "open", "io", "errno", FIELDS}, /* "may block" is missing: an older trace */
    {FAKE_POLL, OPGAP_SPAN, 2, 1 | 2 | 16, "poll", "net", "errno", FIELDS},
    {FAKE_SEM_WAIT, OPGAP_SPAN, 2, 1 | 2 | 4, "sem_wait", "sync", "errno", FIELDS},
    {FAKE_SEM_POST, OPGAP_INSTANT, 2, 1 | 8, "sem_post", "sync", "errno", FIELDS},
    {FAKE_MUTEX_LOCK, OPGAP_SPAN, 2, 1 | 2 | 4, "pthread_mutex_lock", "sync", "errno", FIELDS},
    {FAKE_MUTEX_UNLOCK, OPGAP_INSTANT, 2, 1 | 4 | 8, "pthread_mutex_unlock", "sync", "errno", FIELDS},
    {FAKE_COND_WAIT, OPGAP_SPAN, 2, 1 | 2, "pthread_cond_wait", "sync", "errno", FIELDS},
    {FAKE_COND_TIMEDWAIT, OPGAP_SPAN, 2, 1 | 2, "pthread_cond_timedwait", "sync", "errno", FIELDS},
    {FAKE_COND_SIGNAL, OPGAP_INSTANT, 2, 1 | 8, "pthread_cond_signal", "sync", "errno", FIELDS},
    {FAKE_JOIN, OPGAP_SPAN, 2, 1 | 2, "pthread_join", "thread", "errno", FIELDS},
    {FAKE_SLEEP, OPGAP_SPAN, 2, 1 | 2, "nanosleep", "sync", "errno", FIELDS},
    {FAKE_MALLOC, OPGAP_SPAN, 2, 1 | 4 | 32, "malloc", "alloc", "errno", FIELDS},
    {FAKE_FREE, OPGAP_SPAN, 2, 1 | 4 | 64, "free", "alloc", "errno", FIELDS},
    {FAKE_CUDA_SYNC, OPGAP_SPAN, 2, 1 | 2, "cudaDeviceSynchronize", "cuda", "errno", FIELDS},
    {FAKE_WAITPID, OPGAP_SPAN, 2, 1 | 2, "waitpid", "process", "errno", FIELDS},
    {FAKE_CUDA_MALLOC, OPGAP_SPAN, 2, 1, "cudaMalloc", "cuda", "cudaError_t", FIELDS},
    {FAKE_BARRIER, OPGAP_SPAN, 2, 1 | 2, "pthread_barrier_wait", "sync", "errno", FIELDS},
    {FAKE_MMAP, OPGAP_SPAN, 2, 1 | 16, "mmap", "io", "errno", FIELDS},
    {FAKE_CLOSE, OPGAP_SPAN, 2, 1 | 2 | 16, "close", "io", "errno", FIELDS},
    {FAKE_STAT, OPGAP_SPAN, 2, 1 | 2 | 16, "stat", "io", "errno", FIELDS},
    {FAKE_FLOCK, OPGAP_SPAN, 2, 1 | 2 | 16, "flock", "io", "errno", FIELDS},
    {FAKE_RENAME, OPGAP_SPAN, 2, 1 | 2 | 16, "rename", "io", "errno", FIELDS},
    {FAKE_UNLINK, OPGAP_SPAN, 2, 1 | 2 | 16, "unlink", "io", "errno", FIELDS},
    {FAKE_MSYNC, OPGAP_SPAN, 2, 1 | 2, "msync", "io", "errno", FIELDS},
    {FAKE_EPOLL, OPGAP_SPAN, 2, 1 | 2 | 16 | 128, "epoll_wait", "net", "errno", FIELDS},
    {FAKE_YIELD, OPGAP_SPAN, 2, 1 | 4, "sched_yield", "sync", "errno", FIELDS},
};

void fake_reset(void)
{
  for (unsigned p = 0; p < process_count; p++)
    for (unsigned s = 0; s < STREAMS; s++)
      VEC_FREE(&processes[p].data[s].records);
  memset(processes, 0, sizeof processes);
  process_count = 0;
}

unsigned fake_process(int pid, int ppid, const char *command)
{
  struct fake_process *p = &processes[process_count];
  p->info = (struct opgap_process_info){.path = "fake.opgt",
                                        .pid = pid,
                                        .ppid = ppid,
                                        .rank = -1,
                                        .local_rank = -1,
                                        .world_size = -1,
                                        .host = "host",
                                        .command = command,
                                        .boot_id = "boot",
                                        .ended = OPGAP_ENDED_CLEAN,
                                        .start_ns = 1000,
                                        .end_ns = 1000,
                                        .kill_safe = true,
                                        .complete = true,
                                        .streams = p->streams};
  p->names[p->name_count++] = "";
  return process_count++;
}

unsigned fake_stream(unsigned process, enum opgap_stream_kind kind)
{
  struct fake_process *p = &processes[process];
  unsigned stream = p->info.stream_count++;
  p->streams[stream] = (struct opgap_stream_info){.serial = stream + 1, .kind = kind, .name = ""};
  return stream;
}

unsigned fake_thread(unsigned process, int tid, const char *name)
{
  unsigned stream = fake_stream(process, OPGAP_STREAM_THREAD);
  processes[process].streams[stream].tid = tid;
  processes[process].streams[stream].name = name;
  return stream;
}

struct opgap_process_info *fake_info(unsigned process)
{
  return &processes[process].info;
}

void fake_setting(unsigned process, const char *key, const char *value)
{
  struct fake_process *p = &processes[process];
  p->keys[p->key_count] = key;
  p->values[p->key_count++] = value;
}

uint64_t fake_bytes(unsigned process, const void *bytes, size_t length)
{
  struct fake_process *p = &processes[process];
  for (unsigned i = 0; i < p->name_count; i++)
    if (p->lengths[i] == length && memcmp(p->names[i], bytes, length) == 0)
      return i;
  ck_assert_uint_lt(p->name_count, NAMES);
  p->lengths[p->name_count] = length;
  p->names[p->name_count] = bytes;
  return p->name_count++;
}

uint64_t fake_name(unsigned process, const char *text)
{
  return fake_bytes(process, text, strlen(text));
}

void fake_record(unsigned process, unsigned stream, struct opgap_record record)
{
  struct fake_process *p = &processes[process];
  struct fake_stream *s = &p->data[stream];
  if (s->records.count == 0)
    p->streams[stream].first_ns = record.start_ns;
  *VEC_PUSH(&s->records) = record;
  p->streams[stream].last_ns = record.end_ns;
  p->streams[stream].records++;
  p->info.records++;
  if (record.end_ns > p->info.end_ns)
    p->info.end_ns = record.end_ns;
}

static void op_record(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us,
                      const char *name, unsigned event, uint32_t status, uint64_t allocs, uint64_t bytes)
{
  fake_record(process, stream,
              (struct opgap_record){.event = (uint16_t)event,
                                    .depth = (uint8_t)depth,
                                    .status = status,
                                    .start_ns = start_us * 1000,
                                    .end_ns = end_us * 1000,
                                    .field = {fake_name(process, name), 0, allocs, bytes, 0, 0}});
}

void fake_op(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us, const char *name,
             uint64_t allocs, uint64_t bytes)
{
  op_record(process, stream, depth, start_us, end_us, name, OPGAP_EV_OP, 0, allocs, bytes);
}

void fake_user_op(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us,
                  const char *name)
{
  op_record(process, stream, depth, start_us, end_us, name, OPGAP_EV_OP, 7, 0, 0);
}

void fake_range(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us, const char *name)
{
  op_record(process, stream, depth, start_us, end_us, name, OPGAP_EV_RANGE, 2, 0, 0);
}

void fake_step(unsigned process, unsigned stream, uint64_t at_us)
{
  fake_record(process, stream,
              (struct opgap_record){.event = OPGAP_EV_STEP, .start_ns = at_us * 1000, .end_ns = at_us * 1000});
}

void fake_call(unsigned process, unsigned stream, unsigned depth, enum fake_hook hook, uint64_t start_us,
               uint64_t end_us, uint64_t object, uint64_t value, uint32_t status)
{
  fake_record(process, stream,
              (struct opgap_record){.event = (uint16_t)hook,
                                    .depth = (uint8_t)depth,
                                    .status = status,
                                    .start_ns = start_us * 1000,
                                    .end_ns = end_us * 1000,
                                    .field = {object, value}});
}

void fake_file_call(unsigned process, unsigned stream, unsigned depth, enum fake_hook hook, uint64_t start_us,
                    uint64_t end_us, const char *path, uint64_t value)
{
  fake_call(process, stream, depth, hook, start_us, end_us, fake_name(process, path), value, 0);
}

void fake_counter(unsigned process, unsigned stream, enum fake_hook hook, uint64_t at_us, uint64_t calls,
                  uint64_t bytes, uint64_t failed, uint64_t timed, uint64_t time_ns)
{
  fake_record(process, stream,
              (struct opgap_record){.event = OPGAP_EV_COUNTER,
                                    .status = hook,
                                    .start_ns = at_us * 1000,
                                    .end_ns = at_us * 1000,
                                    .field = {calls, bytes, failed, timed, time_ns}});
}

static const struct opgap_process_info *get_process(void *context, unsigned process)
{
  (void)context;
  return &processes[process].info;
}

static const struct opgap_event *get_event(void *context, unsigned process, unsigned event)
{
  unsigned count;
  const struct opgap_event *builtin = opgap_schema_builtin(&count);
  (void)context;
  (void)process;
  for (unsigned i = 0; i < count; i++)
    if (builtin[i].id == event)
      return &builtin[i];
  return event >= OPGAP_FIRST_HOOK && event < FAKE_HOOK_END ? &hooks[event - OPGAP_FIRST_HOOK] : NULL;
}

static const char *get_name(void *context, unsigned process, uint64_t name_id, size_t *length)
{
  (void)context;
  const struct fake_process *p = &processes[process];
  bool known = name_id < p->name_count;
  if (length != NULL)
    *length = known ? p->lengths[name_id] : 1;
  return known ? p->names[name_id] : "?";
}

static const char *get_info(void *context, unsigned process, const char *key)
{
  (void)context;
  for (unsigned i = 0; i < processes[process].key_count; i++)
    if (strcmp(processes[process].keys[i], key) == 0)
      return processes[process].values[i];
  return NULL;
}

static const char *get_nothing(void *context, unsigned *at)
{
  (void)context;
  (void)at;
  return NULL;
}

/* Batches of seven, so that batch ends fall everywhere. */
#define BATCH 7u
struct fake_cursor {
  const struct fake_stream *stream;
  size_t next;
};

static void *open_cursor(void *context, unsigned process, unsigned stream)
{
  struct fake_cursor *cursor = calloc(1, sizeof *cursor);
  (void)context;
  cursor->stream = &processes[process].data[stream];
  return cursor;
}

static size_t read_batch(void *opaque, const struct opgap_record **records)
{
  struct fake_cursor *cursor = opaque;
  size_t left = cursor->stream->records.count - cursor->next, count = left < BATCH ? left : BATCH;
  *records = cursor->stream->records.at + cursor->next;
  cursor->next += count;
  return count;
}

static void close_cursor(void *cursor)
{
  free(cursor);
}

struct opgap_source fake_source(void)
{
  return (struct opgap_source){.path = "fake.opgap",
                               .process_count = process_count,
                               .process = get_process,
                               .event = get_event,
                               .name = get_name,
                               .info = get_info,
                               .damage = get_nothing,
                               .note = get_nothing,
                               .cursor_open = open_cursor,
                               .cursor_batch = read_batch,
                               .cursor_close = close_cursor};
}

struct opgap_summary *fake_analyse(const struct opgap_analysis_options *options)
{
  struct opgap_analysis_options defaults = {0};
  struct opgap_source source = fake_source();
  char error[256] = "";
  struct opgap_summary *summary = opgap_analyse(&source, options ? options : &defaults, error, sizeof error);
  ck_assert_msg(summary != NULL, "analysis failed: %s", error);
  return summary;
}
