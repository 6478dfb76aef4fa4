/* Fuzz target: whatever records a trace holds, in whatever order, every export of them ends without a fault.
 *
 * The input is a list of records for three streams (a thread, another one, a GPU stream) of one process; names and
 * figures come out of it, too.  What is written goes to /dev/shm. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "output/export/export.h"

#define STREAMS 3u
#define RECORDS 4096u
#define HOOKS 3u

static struct opgap_record records[STREAMS][RECORDS];
static size_t counts[STREAMS];

/* A call on a file, a call on an address, an allocation. */
static const struct opgap_event hooks[HOOKS] = {
    {64, OPGAP_SPAN, 2, 1 | 2 | 16, "read", "io", "errno", {{"object", OPGAP_NAME}, {"value", OPGAP_PLAIN}}},
    {65,
     OPGAP_SPAN,
     2,
     1 | 2 | 8,
     "pthread_mutex_lock",
     "sync",
     "errno",
     {{"object", OPGAP_DELTA}, {"value", OPGAP_PLAIN}}},
    {66, OPGAP_SPAN, 2, 1 | 4 | 32, "malloc", "alloc", "errno", {{"object", OPGAP_DELTA}, {"value", OPGAP_PLAIN}}},
};

static const struct opgap_stream_info streams[STREAMS] = {
    {.serial = 1, .kind = OPGAP_STREAM_THREAD, .tid = 100, .name = "main"},
    {.serial = 2, .kind = OPGAP_STREAM_THREAD, .tid = 101, .name = "\xff other"},
    {.serial = 3, .kind = OPGAP_STREAM_GPU, .name = ""}};
static struct opgap_process_info process = {.path = "",
                                            .pid = 100,
                                            .rank = -1,
                                            .host = "host",
                                            .command = "a \"command\"",
                                            .boot_id = "",
                                            .end_ns = 1u << 20,
                                            .complete = true,
                                            .stream_count = STREAMS,
                                            .streams = streams};

/* ---- the source ---- */

static const struct opgap_process_info *get_process(void *context, unsigned index)
{
  (void)context, (void)index;
  return &process;
}

static const struct opgap_event *get_event(void *context, unsigned index, unsigned event)
{
  static const struct opgap_event *builtin[64];
  unsigned count;
  const struct opgap_event *rows = opgap_schema_builtin(&count);
  (void)context, (void)index;
  if (builtin[OPGAP_EV_OP] == NULL)
    for (unsigned i = 0; i < count; i++)
      builtin[rows[i].id] = &rows[i];
  if (event < 64)
    return builtin[event];
  return event < 64 + HOOKS ? &hooks[event - 64] : NULL;
}

static const char *get_name(void *context, unsigned index, uint64_t id, size_t *length)
{
  static const char *const names[] = {"",
                                      "aten::add",
                                      "Optimizer.step#SGD.step",
                                      "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                      "_Z4spiny",
                                      "ncclDevKernel_AllReduce",
                                      "cudaLaunchKernel",
                                      "/data/\xff\xfe\"file",
                                      "pipe:[7]",
                                      "a;b\nc, \\ \"",
                                      "ProfilerStep#3",
                                      "nccl:all_reduce"};
  (void)context, (void)index;
  const char *name = names[id % (sizeof names / sizeof *names)];
  if (length != NULL)
    *length = strlen(name);
  return name;
}

static const char *get_info(void *context, unsigned index, const char *key)
{
  (void)context, (void)index, (void)key;
  return NULL;
}

static const char *get_nothing(void *context, unsigned *at)
{
  (void)context, (void)at;
  return NULL;
}

struct cursor {
  unsigned stream;
  bool done;
};

static void *cursor_open(void *context, unsigned index, unsigned stream)
{
  (void)context, (void)index;
  struct cursor *cursor = calloc(1, sizeof *cursor);
  if (cursor == NULL)
    abort();
  cursor->stream = stream;
  return cursor;
}

static size_t cursor_batch(void *at, const struct opgap_record **batch)
{
  struct cursor *cursor = at;
  if (cursor->done)
    return 0;
  cursor->done = true;
  *batch = records[cursor->stream];
  return counts[cursor->stream];
}

static void cursor_close(void *cursor)
{
  free(cursor);
}

/* ---- the input ---- */

struct input {
  const uint8_t *at;
  size_t left;
};

static uint64_t take(struct input *in, size_t bytes)
{
  uint64_t value = 0;
  bytes = bytes < in->left ? bytes : in->left;
  memcpy(&value, in->at, bytes);
  in->at += bytes;
  in->left -= bytes;
  return value;
}

/* A byte says which stream and how wide figures are; then event, depth, times and fields. */
static void read_record(struct input *in)
{
  static uint64_t clock;
  unsigned how = (unsigned)take(in, 1), stream = how % STREAMS, width = how & 64 ? 8 : 1;
  if (counts[stream] == RECORDS)
    return;
  clock = counts[0] + counts[1] + counts[2] == 0 ? 0 : clock;
  struct opgap_record *r = &records[stream][counts[stream]++];
  *r = (struct opgap_record){.event = (uint16_t)(take(in, 1) % 70), .depth = (uint8_t)take(in, 1)};
  r->status = (uint32_t)take(in, width < 4 ? 1 : 4);
  clock = how & 128 ? take(in, width) : clock + take(in, 1);
  r->end_ns = clock;
  uint64_t duration = take(in, width);
  r->start_ns = how & 32 ? clock + duration : clock >= duration ? clock - duration : 0;
  for (unsigned i = 0; i < 6; i++)
    r->field[i] = take(in, width);
}

/* ---- the exports ---- */

static char folder[64]; /* of this process, in memory; removed at its end */

static void empty_folder(void)
{
  DIR *entries = opendir(folder);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
    if (entry->d_name[0] != '.')
      unlinkat(dirfd(entries), entry->d_name, 0);
  if (entries)
    closedir(entries);
}

static void remove_folder(void)
{
  empty_folder();
  rmdir(folder);
}

/* Small parts, so that exports are divided as well. */
static void export_as(const struct opgap_source *source, const struct opgap_summary *summary,
                      const struct opgap_export_format *format)
{
  char file[80];
  if (folder[0] == '\0') {
    strcpy(folder, "/dev/shm/opgap-fuzz-XXXXXX");
    if (mkdtemp(folder) == NULL)
      abort();
    atexit(remove_folder);
  }
  snprintf(file, sizeof file, "%s/out", folder);
  struct opgap_export_job job = {.source = source, .summary = summary, .path = file, .max_bytes = 4096};
  struct opgap_spans_filter filter = {.min_duration_ns = counts[0] % 3};
  job.spans = opgap_spans_open(source, summary, &filter);
  if (!format->write(&job))
    abort();
  opgap_spans_close(job.spans);
  empty_folder();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct input in = {data, size};
  char error[256];
  memset(counts, 0, sizeof counts);
  while (in.left > 0)
    read_record(&in);
  process.records = counts[0] + counts[1] + counts[2];
  struct opgap_source source = {.path = "fuzz",
                                .process_count = 1,
                                .process = get_process,
                                .event = get_event,
                                .name = get_name,
                                .info = get_info,
                                .damage = get_nothing,
                                .note = get_nothing,
                                .cursor_open = cursor_open,
                                .cursor_batch = cursor_batch,
                                .cursor_close = cursor_close};
  struct opgap_analysis_options options = {0};
  struct opgap_summary *summary = opgap_analyse(&source, &options, error, sizeof error);
  if (summary == NULL)
    return 0;
  size_t first = size % opgap_export_format_count; /* two formats an input: all would make it slow */
  export_as(&source, summary, &opgap_export_formats[first]);
  export_as(&source, summary, &opgap_export_formats[(first + 1) % opgap_export_format_count]);
  opgap_summary_free(summary);
  return 0;
}
