/* opgap info: what a trace holds, as it was written, and what this build can record.
 *
 * No analysis here: processes, streams, losses and damage, the process descriptions, the schema, the raw records; and
 * a copy for another machine.
 */
#include "opgap.h"
#include "copy.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "format/losses.h"
#include "format/reader.h"
#include "hooks/hook_table.h"
#include "format/recover.h"

#define NAME "info"

struct options {
  bool hooks, schema, records;
  const char *path, *archive;
};

static void print_help(void)
{
  puts("Usage: opgap info [--schema] [--records] [TRACE]\n"
       "       opgap info --archive FOLDER [TRACE]\n"
       "       opgap info --hooks\n"
       "\n"
       "Shows what a trace (default: the newest *.opgap here, or this folder itself) holds: processes, streams, what\n"
       "is lost or damaged.\n"
       "  --schema   the events that the trace describes, with their fields\n"
       "  --records  every record, one a line: process, stream, event, start and duration in ns, fields\n"
       "  --archive FOLDER\n"
       "             copies the trace to a new folder, with what another machine needs to read it: the programs and\n"
       "             libraries that its native stacks go through, and their debug information\n"
       "  --hooks    the functions that this build can record\n"
       "\n"
       "Exit status: 0 done, 2 wrong usage or unreadable trace, 4 bytes of the trace are damaged or missing");
}

enum { OPT_HOOKS = 256, OPT_SCHEMA, OPT_RECORDS, OPT_ARCHIVE };

static int take(void *context, int option, const char *value)
{
  struct options *options = context;
  options->hooks = options->hooks || option == OPT_HOOKS;
  options->schema = options->schema || option == OPT_SCHEMA;
  options->records = options->records || option == OPT_RECORDS;
  if (option == OPT_ARCHIVE) {
    options->archive = value;
    if (value[0] == '\0')
      return opgap_usage_error(NAME, "--archive needs the name of a new folder");
  }
  return OPGAP_EXIT_DONE;
}

/* Returns an exit code, or -1 to go on. */
static int parse_arguments(struct options *options, int argc, char **argv)
{
  static const struct option table[] = {{"hooks", no_argument, NULL, OPT_HOOKS},
                                        {"schema", no_argument, NULL, OPT_SCHEMA},
                                        {"records", no_argument, NULL, OPT_RECORDS},
                                        {"archive", required_argument, NULL, OPT_ARCHIVE},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  int code = opgap_options(NAME, argc, argv, ":h", table, print_help, take, options);
  if (code >= 0)
    return code;
  if (argc - optind > 1)
    return opgap_usage_error(NAME, "more than one trace given");
  options->path = argv[optind];
  if (options->hooks && (options->path != NULL || options->schema || options->records || options->archive != NULL))
    return opgap_usage_error(NAME, "--hooks needs no trace and goes with no other option");
  if (options->archive != NULL && (options->schema || options->records))
    return opgap_usage_error(NAME, "--archive goes with no other option");
  return -1;
}

/* ---- hooks ---- */

static const char *kind_of_hook(const struct opgap_hook_info *hook)
{
  switch (hook->kind) {
  case OPGAP_HOOK_SPAN:
    return "span";
  case OPGAP_HOOK_POINT:
    return "edge";
  case OPGAP_HOOK_COUNTED:
    return "counted";
  case OPGAP_HOOK_ALIAS:
    return "alias";
  case OPGAP_HOOK_BODY:
    return "watched";
  }
  return "?";
}

static void print_hooks(void)
{
  unsigned count;
  const struct opgap_hook_info *hooks = opgap_hook_infos(&count);
  printf("%-28s %-8s %-8s %s\n", "FUNCTION", "GROUP", "KIND", "WHAT IS RECORDED");
  for (unsigned i = 0; i < count; i++) {
    const struct opgap_hook_info *hook = &hooks[i];
    printf("%-28s %-8s %-8s %s%s\n", hook->name, hook->group, kind_of_hook(hook),
           hook->kind == OPGAP_HOOK_ALIAS ? "as " : "", hook->kind == OPGAP_HOOK_ALIAS ? hook->base : hook->doc);
  }
  printf("\n%u functions.  span: every call with start and end; counted: exact totals, long calls also as spans;\n"
         "edge: a wake-up of another thread; watched: followed, not recorded as a call.\n",
         count);
}

/* ---- a trace ---- */

static const char *stream_text(uint8_t kind)
{
  switch ((enum opgap_stream_kind)kind) {
  case OPGAP_STREAM_THREAD:
    return "thread";
  case OPGAP_STREAM_PROCESS:
    return "process";
  case OPGAP_STREAM_GPU:
    return "gpu";
  }
  return "unknown";
}

static void print_process(const struct opgap_trace *trace, unsigned number)
{
  static const char *const keys[] = {"exe", "cwd", "cpu", "cores", "kernel", "clock", "opgap_version"};
  const struct opgap_process_info *p = opgap_trace_process(trace, number);
  printf("process %d (parent %d) on %s: %s\n", p->pid, p->ppid, opgap_printable(p->host), opgap_printable(p->command));
  printf("  file      %s\n", opgap_printable(p->path));
  printf("  ended     %s", opgap_ended_name(p->ended));
  if (p->ended == OPGAP_ENDED_CLEAN)
    printf(", exit status %d", p->exit_status);
  printf("%s%s\n", p->forked ? ", began by fork" : "", p->kill_safe ? "" : ", not kill-safe");
  if (p->rank >= 0)
    printf("  rank      %d of %d, local %d\n", p->rank, p->world_size, p->local_rank);
  printf("  duration  %" PRIu64 " ns\n", p->end_ns - p->start_ns);
  printf("  records   %" PRIu64 ", lost %" PRIu64 ", invalid %" PRIu64 "\n", p->records, p->lost_records,
         p->invalid_records);
  if (p->lost_threads_confined > 0)
    printf("  lost      %" PRIu64 " threads, which began below a filter of system calls\n", p->lost_threads_confined);
  if (p->lost_threads > p->lost_threads_confined)
    printf("  lost      %" PRIu64 " threads, which found no room\n", p->lost_threads - p->lost_threads_confined);
  for (unsigned loss = 0; loss < OPGAP_LOSS_COUNT; loss++)
    if (p->lost_by[loss] > 0) {
      const struct opgap_loss_words *words = opgap_loss_words_of(p, (enum opgap_loss)loss);
      printf("  lost      %" PRIu64 " %s (%s)\n", p->lost_by[loss], words->what, words->remedy);
    }
  printf("  bytes     %" PRIu64 " stored, %" PRIu64 " damaged%s\n", p->stored_bytes, p->damaged_bytes,
         p->complete ? "" : ", incomplete");
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *value = opgap_trace_info(trace, number, keys[i]);
    if (value != NULL)
      printf("  %-9s %s\n", strcmp(keys[i], "opgap_version") == 0 ? "opgap" : keys[i], opgap_printable(value));
  }
  for (unsigned i = 0; i < p->stream_count; i++) {
    const struct opgap_stream_info *s = &p->streams[i];
    printf("  stream    %u %s %d '%s': %" PRIu64 " records, lost %" PRIu64 "\n", s->serial, stream_text(s->kind),
           s->tid, opgap_printable(s->name), s->records, s->lost);
  }
}

static const char *kind_of_event(const struct opgap_event *event)
{
  return event->kind == OPGAP_SPAN ? "span" : event->kind == OPGAP_INSTANT ? "instant" : "series";
}

static void print_schema(const struct opgap_trace *trace, unsigned process)
{
  for (unsigned id = 0; id < OPGAP_MAX_EVENTS; id++) {
    const struct opgap_event *event = opgap_trace_event(trace, process, id);
    if (event == NULL)
      continue;
    printf("event %u '%s' category '%s' %s", id, opgap_printable(event->name), opgap_printable(event->category),
           kind_of_event(event));
    if (*event->status != '\0')
      printf(", status: %s", opgap_printable(event->status));
    for (unsigned i = 0; i < event->field_count; i++)
      printf("%s%s%s", i == 0 ? ", fields: " : " ", opgap_printable(event->fields[i].name),
             event->fields[i].coding == OPGAP_NAME ? "(name)" : "");
    putchar('\n');
  }
}

static void print_record(const struct opgap_trace *trace, unsigned process, const struct opgap_stream_info *stream,
                         const struct opgap_record *record)
{
  const struct opgap_event *event = opgap_trace_event(trace, process, record->event);
  printf("%d %u %s %" PRIu64 " %" PRIu64 " depth=%u status=%u", opgap_trace_process(trace, process)->pid,
         stream->serial, event != NULL ? opgap_printable(event->name) : "?", record->start_ns,
         record->end_ns - record->start_ns, record->depth, record->status);
  for (unsigned i = 0; event != NULL && i < event->field_count; i++) {
    if (event->fields[i].coding == OPGAP_NAME)
      printf(" %s='%s'", event->fields[i].name,
             opgap_printable(opgap_trace_name(trace, process, record->field[i], NULL)));
    else
      printf(" %s=%" PRIu64, event->fields[i].name, record->field[i]);
  }
  putchar('\n');
}

static void print_records(const struct opgap_trace *trace, unsigned process)
{
  const struct opgap_process_info *p = opgap_trace_process(trace, process);
  for (unsigned i = 0; i < p->stream_count; i++) {
    struct opgap_cursor *cursor = opgap_cursor_open(trace, process, i);
    const struct opgap_record *record;
    while (cursor != NULL && (record = opgap_cursor_next(cursor)) != NULL)
      print_record(trace, process, &p->streams[i], record);
    opgap_cursor_close(cursor);
  }
}

static int archive_trace(const struct opgap_source *source, const struct opgap_trace *trace, const char *folder)
{
  struct opgap_copied copied;
  unsigned running;
  if (mkdir(folder, 0700) != 0)
    return opgap_fail(OPGAP_EXIT_USAGE, "cannot make the folder %s: %s", folder, strerror(errno));
  if (!opgap_copy_trace(trace, folder, &running) || !opgap_copy_modules(source, folder, &copied)) {
    int code = opgap_fail(OPGAP_EXIT_USAGE, "cannot write to %s: %s", folder, strerror(errno));
    opgap_copy_remove(folder);
    return code;
  }
  printf("%u process%s copied to %s; of the native stacks %u file%s, %u with debug information apart, %u left out\n",
         source->process_count, source->process_count == 1 ? "" : "es", opgap_printable(folder), copied.modules,
         copied.modules == 1 ? "" : "s", copied.debug_files, copied.left_out);
  return OPGAP_EXIT_DONE;
}

static void print_whole(const struct options *options, const struct opgap_trace *trace, const char *path)
{
  unsigned count = opgap_trace_process_count(trace);
  bool overview = !options->schema && !options->records;
  if (overview)
    printf("trace %s: %u process%s\n", opgap_printable(path), count, count == 1 ? "" : "es");
  for (unsigned i = 0; i < count; i++) {
    if (options->schema)
      print_schema(trace, i);
    if (options->records)
      print_records(trace, i);
    if (overview)
      print_process(trace, i);
  }
  if (!overview)
    return;
  unsigned at = 0;
  for (const char *damage; (damage = opgap_trace_damage(trace, &at)) != NULL;)
    printf("damage      %s\n", opgap_printable(damage));
  at = 0;
  for (const char *note; (note = opgap_trace_note(trace, &at)) != NULL;)
    printf("note        %s\n", opgap_printable(note));
}

static int print_trace(const struct options *options, const char *path)
{
  char error[512];
  opgap_trace_recover(path);
  struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
  if (trace == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  struct opgap_source source = opgap_source_of_trace(trace, path);
  int code = OPGAP_EXIT_DONE;
  if (options->archive != NULL)
    code = archive_trace(&source, trace, options->archive);
  else
    print_whole(options, trace, path);
  if (code == OPGAP_EXIT_DONE)
    code = opgap_trace_exit(trace);
  opgap_trace_close(trace);
  return code;
}

int opgap_cmd_info(int argc, char **argv)
{
  struct options options = {0};
  int code = parse_arguments(&options, argc, argv);
  if (code >= 0)
    return code;
  if (options.hooks) {
    print_hooks();
    return OPGAP_EXIT_DONE;
  }
  if (options.path != NULL)
    return print_trace(&options, options.path);
  char *newest = opgap_newest_trace(".");
  if (newest == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "no *.opgap folder here: name a trace, or make one with: opgap record");
  code = print_trace(&options, newest);
  free(newest);
  return code;
}
