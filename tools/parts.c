/* Several traces and summaries as one: read on all CPUs, merged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ahead.h"
#include "opgap.h"
#include "parts.h"
#include "format/recover.h"

struct input {
  const char *path;
  struct opgap_parts parts;
  bool failed; /* see error */
  bool none;   /* --process: it has no such process */
  char error[1024];
};

struct reading {
  struct opgap_analysis_options options;
  struct input *inputs;
  size_t count;
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

static void read_input(void *context, size_t i)
{
  struct reading *r = context;
  struct input *input = &r->inputs[i];
  if (opgap_parts_is_file(input->path))
    read_summary(input, &r->options);
  else
    read_trace(input, &r->options);
}

static void read_all(struct reading *r)
{
  unsigned threads = r->options.threads != 0 ? r->options.threads : opgap_cpus();
  if (threads > 1 && r->count > 1)
    r->options.threads = 1; /* each */
  ahead_divide(threads, r->count, read_input, r);
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
