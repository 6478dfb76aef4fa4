/* Runs a program twice, plainly and traced, and compares: what it prints, how it ends, and what the trace holds.
 *
 *   check [options] -- PROGRAM [ARGUMENTS] -- EXPECTATION...
 *   check --dump TRACE
 *
 * Options
 *   --preload LIB       the tracer
 *   --before LIB        another library to preload before the tracer, --after LIB: behind it
 *   --setting NAME=VALUE   an environment variable of the traced run
 *   --base ARGUMENT     a second traced run with this argument alone; its counts are subtracted, so that what libc and
 *                       the loader do for themselves falls out
 *   --incomplete        the trace may say that a process was killed
 *   --lossy             records may be lost; `lost` says how many
 * Expectations (all processes of the trace together)
 *   EVENT.calls=N .bytes .failed .timed  totals of a counted hook; timed: calls that the estimated time comes from
 *   EVENT.records=N .value .errors     records of an event: how many, the sum of `value`, how many with a status
 *   EVENT.status=N                     the status of the last record with one
 *   EVENT:NAME=N                       how many records of the event have an object (or program, message) named NAME;
 *                                      a * at its end or beginning stands for anything
 *   ...>=N                             at least N, where the schedule decides
 *   threads=N lost_threads=N           threads: of which there is something in the trace
 *   processes=N clean=N exec=N killed=N lost=N monotonic=N      monotonic: processes that were stamped by that clock
 *   rings=N                            rings left in memory that recovery folds (the trace is read as it was before)
 *   A+B=N                              sums of these
 * Always: no record lost, no damage. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/recover.h"

struct totals {
  uint64_t calls, bytes, failed, timed, records, value, errors;
  uint32_t status;
};

struct counts {
  char names[OPGAP_MAX_EVENTS][64];
  struct totals totals[OPGAP_MAX_EVENTS];
  unsigned events, processes, clean, exec, killed, monotonic, rings;
  uint64_t lost, threads, lost_threads;
};

static const char *tracer, *before, *after, *base_argument;
static const char *settings[16];
static unsigned setting_count;
static int incomplete, lossy, failures;

static void die(const char *what)
{
  fprintf(stderr, "check: %s: %s\n", what, strerror(errno));
  exit(2);
}

static struct totals *totals_of(struct counts *counts, const char *name)
{
  for (unsigned i = 0; i < counts->events; i++)
    if (strcmp(counts->names[i], name) == 0)
      return &counts->totals[i];
  if (counts->events == OPGAP_MAX_EVENTS)
    die("too many events");
  snprintf(counts->names[counts->events], sizeof counts->names[0], "%.63s", name);
  return &counts->totals[counts->events++];
}

/* ---- reading ---- */

static void add_record(struct counts *counts, const struct opgap_event *event, const struct opgap_record *record)
{
  struct totals *t = totals_of(counts, event->name);
  t->records++;
  if (record->status) {
    t->errors++;
    t->status = record->status;
  }
  for (unsigned i = 0; i < event->field_count; i++)
    if (strcmp(event->fields[i].name, "value") == 0)
      t->value += record->field[i];
}

/* Counters are cumulative: a stream's last record of each counts. */
static void read_stream(const struct opgap_trace *trace, unsigned process, unsigned stream, struct counts *counts,
                        int print)
{
  static struct totals last[OPGAP_MAX_EVENTS];
  memset(last, 0, sizeof last);
  struct opgap_cursor *cursor = opgap_cursor_open(trace, process, stream);
  const struct opgap_record *r;
  while ((r = opgap_cursor_next(cursor)) != NULL) {
    const struct opgap_event *event = opgap_trace_event(trace, process, r->event);
    if (r->event == OPGAP_EV_COUNTER)
      last[r->status % OPGAP_MAX_EVENTS] =
          (struct totals){.calls = r->field[0], .bytes = r->field[1], .failed = r->field[2], .timed = r->field[3]};
    else if (event)
      add_record(counts, event, r);
    if (!print || event == NULL)
      continue;
    printf("  %s depth %u status %u %llu+%llu", event->name, r->depth, r->status, (unsigned long long)r->start_ns,
           (unsigned long long)(r->end_ns - r->start_ns));
    for (unsigned i = 0; i < event->field_count; i++)
      if (event->fields[i].coding == OPGAP_NAME)
        printf(" %s=%s", event->fields[i].name, opgap_trace_name(trace, process, r->field[i], NULL));
      else
        printf(" %s=%llu", event->fields[i].name, (unsigned long long)r->field[i]);
    printf("\n");
  }
  opgap_cursor_close(cursor);
  for (unsigned i = 0; i < OPGAP_MAX_EVENTS; i++) {
    const struct opgap_event *event = last[i].calls ? opgap_trace_event(trace, process, i) : NULL;
    if (event == NULL)
      continue;
    struct totals *t = totals_of(counts, event->name);
    t->calls += last[i].calls;
    t->bytes += last[i].bytes;
    t->failed += last[i].failed;
    t->timed += last[i].timed;
  }
}

static struct opgap_trace *open_trace(const char *path)
{
  char error[512];
  struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
  if (trace == NULL) {
    fprintf(stderr, "check: %s\n", error);
    exit(2);
  }
  return trace;
}

static void read_trace(const char *path, struct counts *counts, int print)
{
  struct opgap_trace *trace = open_trace(path);
  counts->processes = opgap_trace_process_count(trace);
  for (unsigned p = 0; p < counts->processes; p++) {
    const struct opgap_process_info *info = opgap_trace_process(trace, p);
    counts->clean += info->ended == OPGAP_ENDED_CLEAN;
    counts->exec += info->ended == OPGAP_ENDED_EXEC;
    counts->killed += info->ended == OPGAP_ENDED_KILLED;
    const char *clock = opgap_trace_info(trace, p, "clock");
    counts->monotonic += clock != NULL && strcmp(clock, "monotonic") == 0;
    if (print)
      printf("process %d parent %d ended %d status %d forked %d records %llu lost %llu: %s\n", info->pid, info->ppid,
             info->ended, info->exit_status, info->forked, (unsigned long long)info->records,
             (unsigned long long)info->lost_records, info->command);
    counts->lost += info->lost_records;
    counts->lost_threads += info->lost_threads;
    for (unsigned i = 0; i < info->stream_count; i++)
      counts->threads += info->streams[i].kind == OPGAP_STREAM_THREAD;
    if ((info->lost_records && !lossy) || info->invalid_records || (!info->complete && !incomplete)) {
      failures++;
      printf("process %d: lost %llu, invalid %llu, complete %d\n", info->pid, (unsigned long long)info->lost_records,
             (unsigned long long)info->invalid_records, info->complete);
    }
    for (unsigned s = 0; s < info->stream_count; s++) {
      if (print)
        printf(" thread %d %s\n", info->streams[s].tid, info->streams[s].name);
      read_stream(trace, p, s, counts, print);
    }
  }
  unsigned at = 0;
  for (const char *damage; (damage = opgap_trace_damage(trace, &at)) != NULL;) {
    printf("damage: %s\n", damage);
    failures += !incomplete;
  }
  opgap_trace_close(trace);
}

static int matches(const char *pattern, size_t length, const char *text)
{
  if (length && pattern[0] == '*') {
    size_t n = strlen(text);
    return n >= length - 1 && memcmp(text + n - (length - 1), pattern + 1, length - 1) == 0;
  }
  if (length && pattern[length - 1] == '*')
    return strncmp(pattern, text, length - 1) == 0;
  return strlen(text) == length && memcmp(pattern, text, length) == 0;
}

/* Records of `event` whose first name field matches. */
static uint64_t count_named(const char *path, const char *event_name, size_t event_length, const char *pattern,
                            size_t length)
{
  uint64_t count = 0;
  struct opgap_trace *trace = open_trace(path);
  for (unsigned p = 0; p < opgap_trace_process_count(trace); p++)
    for (unsigned s = 0; s < opgap_trace_process(trace, p)->stream_count; s++) {
      struct opgap_cursor *cursor = opgap_cursor_open(trace, p, s);
      const struct opgap_record *r;
      while ((r = opgap_cursor_next(cursor)) != NULL) {
        const struct opgap_event *event = opgap_trace_event(trace, p, r->event);
        if (event == NULL || !matches(event_name, event_length, event->name))
          continue;
        for (unsigned i = 0; i < event->field_count; i++)
          if (event->fields[i].coding == OPGAP_NAME) {
            count += (uint64_t)matches(pattern, length, opgap_trace_name(trace, p, r->field[i], NULL));
            break;
          }
      }
      opgap_cursor_close(cursor);
    }
  opgap_trace_close(trace);
  return count;
}

/* ---- running ---- */

struct outcome {
  int status; /* of waitpid */
  char *text;
  size_t length;
};

static void child(char **command, const char *trace, int output)
{
  dup2(output, 1);
  if (trace) {
    char preload[4096];
    snprintf(preload, sizeof preload, "%s%s%s%s%s", before ? before : "", before ? ":" : "", tracer, after ? ":" : "",
             after ? after : "");
    setenv("LD_PRELOAD", preload, 1);
    setenv("OPGAP_OUT", trace, 1);
    for (unsigned i = 0; i < setting_count; i++)
      putenv((char *)(uintptr_t)settings[i]);
  } else if (before || after) {
    setenv("LD_PRELOAD", before ? before : after, 1);
  }
  execvp(command[0], command);
  fprintf(stderr, "check: %s: %s\n", command[0], strerror(errno));
  _exit(127);
}

static struct outcome run(char **command, const char *trace)
{
  struct outcome outcome = {0};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0)
    die("pipe");
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0)
    die("fork");
  if (pid == 0)
    child(command, trace, ends[1]);
  close(ends[1]);
  for (;;) {
    char buffer[4096];
    ssize_t n = read(ends[0], buffer, sizeof buffer);
    if (n <= 0)
      break;
    outcome.text = realloc(outcome.text, outcome.length + (size_t)n);
    memcpy(outcome.text + outcome.length, buffer, (size_t)n);
    outcome.length += (size_t)n;
  }
  close(ends[0]);
  if (waitpid(pid, &outcome.status, 0) < 0)
    die("waitpid");
  return outcome;
}

static void compare(const struct outcome *plain, const struct outcome *traced)
{
  if (plain->status != traced->status) {
    failures++;
    printf("ended with wait status %#x, traced with %#x\n", plain->status, traced->status);
  }
  if (plain->length != traced->length || (plain->length && memcmp(plain->text, traced->text, plain->length) != 0)) {
    failures++;
    printf("printed, plain:\n%.*s\ntraced:\n%.*s\n", (int)plain->length, plain->text, (int)traced->length,
           traced->text);
  }
}

/* ---- expectations ---- */

static uint64_t metric(struct counts *counts, const char *event, const char *name)
{
  const struct totals *t = totals_of(counts, event);
  if (strcmp(name, "calls") == 0)
    return t->calls;
  if (strcmp(name, "bytes") == 0)
    return t->bytes;
  if (strcmp(name, "failed") == 0)
    return t->failed;
  if (strcmp(name, "timed") == 0)
    return t->timed;
  if (strcmp(name, "records") == 0)
    return t->records;
  if (strcmp(name, "value") == 0)
    return t->value;
  if (strcmp(name, "errors") == 0)
    return t->errors;
  if (strcmp(name, "status") == 0)
    return t->status;
  fprintf(stderr, "check: no such metric: %s\n", name);
  exit(2);
}

static uint64_t look_up(struct counts *counts, const char *path, const char *what, size_t length)
{
  char name[256];
  snprintf(name, sizeof name, "%.*s", (int)length, what);
  if (strcmp(name, "processes") == 0)
    return counts->processes;
  if (strcmp(name, "clean") == 0)
    return counts->clean;
  if (strcmp(name, "exec") == 0)
    return counts->exec;
  if (strcmp(name, "killed") == 0)
    return counts->killed;
  if (strcmp(name, "monotonic") == 0)
    return counts->monotonic;
  if (strcmp(name, "lost") == 0)
    return counts->lost;
  if (strcmp(name, "rings") == 0)
    return counts->rings;
  if (strcmp(name, "threads") == 0)
    return counts->threads;
  if (strcmp(name, "lost_threads") == 0)
    return counts->lost_threads;
  char *colon = strchr(name, ':');
  if (colon)
    return count_named(path, name, (size_t)(colon - name), colon + 1, strlen(colon + 1));
  char *dot = strrchr(name, '.');
  if (dot == NULL) {
    fprintf(stderr, "check: no such expectation: %s\n", what);
    exit(2);
  }
  *dot = 0;
  return metric(counts, name, dot + 1);
}

/* A sum of metrics. */
static uint64_t add_up(struct counts *counts, const char *path, const char *what, size_t length)
{
  uint64_t sum = 0;
  while (length) {
    const char *plus = memchr(what, '+', length);
    size_t part = plus ? (size_t)(plus - what) : length;
    sum += look_up(counts, path, what, part);
    what += part + (plus != NULL);
    length -= part + (plus != NULL);
  }
  return sum;
}

static void expect(struct counts *counts, const char *path, struct counts *base, const char *base_path,
                   const char *expectation)
{
  const char *equal = strrchr(expectation, '=');
  if (equal == NULL) {
    fprintf(stderr, "check: no = in %s\n", expectation);
    exit(2);
  }
  size_t length = (size_t)(equal - expectation);
  int at_least = length && expectation[length - 1] == '>';
  length -= (size_t)at_least;
  uint64_t wanted = strtoull(equal + 1, NULL, 0), found = add_up(counts, path, expectation, length);
  if (base)
    found -= add_up(base, base_path, expectation, length);
  if (at_least ? found < wanted : found != wanted) {
    failures++;
    printf("%.*s is %lld, expected %s%lld\n", (int)length, expectation, (long long)found, at_least ? "at least " : "",
           (long long)wanted);
  }
}

static char **split(char **arguments)
{
  while (*arguments && strcmp(*arguments, "--") != 0)
    arguments++;
  if (*arguments == NULL) {
    fprintf(stderr, "check: -- is missing\n");
    exit(2);
  }
  *arguments = NULL;
  return arguments + 1;
}

static char **options(char **at)
{
  for (; *at; at += 2) {
    if (strcmp(*at, "--preload") == 0)
      tracer = at[1];
    else if (strcmp(*at, "--before") == 0)
      before = at[1];
    else if (strcmp(*at, "--after") == 0)
      after = at[1];
    else if (strcmp(*at, "--base") == 0)
      base_argument = at[1];
    else if (strcmp(*at, "--setting") == 0 && setting_count < sizeof settings / sizeof *settings)
      settings[setting_count++] = at[1];
    else if (strcmp(*at, "--incomplete") == 0)
      incomplete = 1, at--;
    else if (strcmp(*at, "--lossy") == 0)
      lossy = 1, at--;
    else
      return at;
  }
  return at;
}

static void remove_folder(const char *path)
{
  char command[4200];
  snprintf(command, sizeof command, "rm -rf '%s'", path);
  if (system(command) != 0)
    fprintf(stderr, "check: cannot remove %s\n", path);
}

int main(int count, char **arguments)
{
  static struct counts counts, base;
  if (count == 3 && strcmp(arguments[1], "--dump") == 0) {
    incomplete = 1;
    read_trace(arguments[2], &counts, 1);
    for (unsigned i = 0; i < counts.events; i++) {
      const struct totals *t = &counts.totals[i];
      printf("%s calls %llu bytes %llu failed %llu records %llu value %llu errors %llu\n", counts.names[i],
             (unsigned long long)t->calls, (unsigned long long)t->bytes, (unsigned long long)t->failed,
             (unsigned long long)t->records, (unsigned long long)t->value, (unsigned long long)t->errors);
    }
    return 0;
  }
  char **command = split(options(arguments + 1));
  char **expectations = split(command);
  char folder[] = "/tmp/opgap-check-XXXXXX", trace[64], base_trace[64];
  if (tracer == NULL || *command == NULL || mkdtemp(folder) == NULL)
    die("usage");
  snprintf(trace, sizeof trace, "%s/t.opgap", folder);
  snprintf(base_trace, sizeof base_trace, "%s/base.opgap", folder);
  struct outcome plain = run(command, NULL);
  if (WIFEXITED(plain.status) && WEXITSTATUS(plain.status) == 77) {
    printf("skipped: %.*s", (int)plain.length, plain.text);
    remove_folder(folder);
    return 77;
  }
  struct outcome traced = run(command, trace);
  compare(&plain, &traced);
  read_trace(trace, &counts, 0);
  if (base_argument) {
    char *base_command[] = {command[0], (char *)(uintptr_t)base_argument, NULL};
    run(base_command, base_trace);
    read_trace(base_trace, &base, 0);
  }
  counts.rings = (unsigned)opgap_trace_recover(trace);
  for (; *expectations; expectations++)
    expect(&counts, trace, base_argument ? &base : NULL, base_trace, *expectations);
  if (failures)
    printf("%d expectations failed\n", failures);
  remove_folder(folder);
  return failures != 0;
}
