/* Several traces and summaries as one: read on all CPUs, merged. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opgap.h"
#include "parts.h"
#include "format/recover.h"

#define THREADS_MOST 16u

struct input {
  const char *path;
  struct opgap_parts parts;
  bool failed; /* see error */
  bool none;   /* --process: it has no such process */
  char error[1024];
};

/* Shared by the reading threads: each takes the next input that nobody has taken. */
struct reading {
  struct opgap_analysis_options options;
  struct input *inputs;
  size_t count;
  atomic_size_t next; /* relaxed: the inputs are joined by pthread_join */
};

static void read_trace(struct input *input, const struct opgap_analysis_options *options)
{
  opgap_trace_recover(input->path);
  struct opgap_trace *trace = opgap_trace_open(input->path, input->error, sizeof input->error);
  input->failed = trace == NULL;
  if (trace == NULL)
    return;
  struct opgap_source source = opgap_source_of_trace(trace, input->path);
  struct opgap_summary *summary = opgap_analyse(&source, options, input->error, sizeof input->error);
  if (summary != NULL)
    *VEC_PUSH(&input->parts.v) = summary;
  input->none = summary == NULL && options->process != NULL && !options->steps_given;
  input->failed = summary == NULL && !input->none;
  opgap_trace_close(trace);
}

static void read_summary(struct input *input, const struct opgap_analysis_options *options)
{
  bool whole = options->process == NULL && !options->steps_given;
  if (!whole)
    snprintf(input->error, sizeof input->error, "%s: a summary cannot be cut down: --process and --steps need traces",
             input->path);
  input->failed = !whole || !opgap_parts_read(&input->parts, input->path, input->error, sizeof input->error);
}

static void *read_inputs(void *context)
{
  struct reading *r = context;
  for (;;) {
    size_t i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    if (i >= r->count)
      return NULL;
    struct input *input = &r->inputs[i];
    if (opgap_parts_is_file(input->path))
      read_summary(input, &r->options);
    else
      read_trace(input, &r->options);
  }
}

static void read_all(struct reading *r)
{
  pthread_t threads[THREADS_MOST];
  size_t wanted = r->options.threads != 0 ? r->options.threads : opgap_cpus(), started = 0;
  wanted = wanted < THREADS_MOST ? wanted : THREADS_MOST;
  wanted = wanted < r->count ? wanted : r->count;
  if (wanted > 1)
    r->options.threads = 1; /* each */
  while (started + 1 < wanted && pthread_create(&threads[started], NULL, read_inputs, r) == 0)
    started++;
  read_inputs(r);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
}

bool opgap_read_parts(const char *const *paths, size_t count, const struct opgap_analysis_options *options,
                      struct opgap_parts *parts, char *error, size_t size)
{
  struct reading r = {.options = *options, .inputs = opgap_xcalloc(count, sizeof *r.inputs), .count = count};
  bool good = true;
  for (size_t i = 0; i < count; i++)
    r.inputs[i].path = paths[i];
  read_all(&r);
  for (size_t i = 0; i < count; i++) {
    struct input *input = &r.inputs[i];
    if (input->failed && good)
      snprintf(error, size, "%s", input->error);
    good = good && !input->failed;
    for (size_t k = 0; k < input->parts.v.count; k++)
      *VEC_PUSH(&parts->v) = input->parts.v.at[k];
    VEC_FREE(&input->parts.v);
  }
  if (good && parts->v.count == 0) {
    snprintf(error, size, "%s", r.inputs[0].error);
    good = false;
  }
  good = good && opgap_parts_leave_out_repeats(parts, error, size);
  if (!good)
    opgap_parts_free(parts);
  free(r.inputs);
  return good;
}
