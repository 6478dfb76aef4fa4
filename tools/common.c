/* What the commands share.  See opgap.h. */
#include "opgap.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "format/reader.h"
#include "output/replace.h"
#include "output/table.h"

#define PROGRESS_AFTER_NS 1000000000u

/* One line, safe for a terminal whatever names and arguments are in it. */
static void complain(const char *command, const char *format, va_list arguments)
{
  char *message;
  fflush(stdout);
  fputs("opgap", stderr);
  if (command != NULL)
    fprintf(stderr, " %s", command);
  fputs(": ", stderr);
  if (vasprintf(&message, format, arguments) < 0)
    return;
  char *clean = text_clean(message);
  fputs(clean, stderr);
  free(clean);
  free(message);
}

int opgap_usage_error(const char *command, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  complain(command, format, arguments);
  va_end(arguments);
  if (command != NULL)
    fprintf(stderr, " (see: opgap %s --help)\n", command);
  else
    fputs(" (see: opgap --help)\n", stderr);
  return OPGAP_EXIT_USAGE;
}

int opgap_fail(int code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  complain(NULL, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  return code;
}

int opgap_damage_exit(const char *damage, size_t files)
{
  char others[64] = "";
  if (damage == NULL)
    return OPGAP_EXIT_DONE;
  if (files > 1)
    snprintf(others, sizeof others, " (and %zu more file%s: see opgap report)", files - 1, files == 2 ? "" : "s");
  return opgap_fail(OPGAP_EXIT_DAMAGED, "the trace is damaged: %s%s", damage, others);
}

int opgap_summary_exit(const struct opgap_summary *summary)
{
  if (summary->complete)
    return OPGAP_EXIT_DONE;
  return opgap_damage_exit(summary->damage_count > 0 ? summary->damage[0] : "bytes are missing", summary->damage_count);
}

int opgap_trace_exit(const struct opgap_trace *trace)
{
  unsigned at = 0;
  const char *first = opgap_trace_damage(trace, &at);
  size_t files = first != NULL;
  while (opgap_trace_damage(trace, &at) != NULL)
    files++;
  return opgap_damage_exit(first, files);
}

/* Edit distance of two short words; long ones count as far apart. */
static size_t distance(const char *a, const char *b)
{
  enum { MAX = 32 };
  size_t n = strlen(a), m = strlen(b), row[MAX + 1];
  if (n > MAX || m > MAX)
    return SIZE_MAX;
  for (size_t j = 0; j <= m; j++)
    row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
      if (above + 1 < best)
        best = above + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      row[j] = best;
      diagonal = above;
    }
  }
  return row[m];
}

const char *opgap_nearest(const char *word, const char *const *words, size_t count)
{
  const char *best = NULL;
  size_t best_distance = SIZE_MAX;
  for (size_t i = 0; i < count; i++) {
    size_t d = distance(word, words[i]);
    if (d < best_distance) {
      best_distance = d;
      best = words[i];
    }
  }
  return best != NULL && best_distance * 3 <= strlen(best) ? best : NULL;
}

bool opgap_parse_number(const char *text, uint64_t *value)
{
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || text[0] == '+')
    return false;
  *value = number;
  return true;
}

int opgap_take_threads(const char *command, const char *text, unsigned *threads)
{
  uint64_t number;
  if (!opgap_parse_number(text, &number) || number == 0 || number > UINT_MAX)
    return opgap_usage_error(command, "--threads %s: must be a number of CPUs, at least 1", text);
  *threads = (unsigned)number;
  return 0;
}

bool opgap_parse_time(const char *text, uint64_t *ns)
{
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  char *end;
  double value = strtod(text, &end);
  if (end == text || !(value >= 0))
    return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strcmp(end, units[i].unit) == 0 && value * units[i].ns <= 1e18) {
      *ns = (uint64_t)(value * units[i].ns);
      return true;
    }
  return false;
}

int opgap_take_steps(const char *command, const char *text, struct opgap_analysis_options *options)
{
  char *copy = strdup(text), *colon = copy ? strchr(copy, ':') : NULL;
  options->steps_given = false;
  if (colon != NULL) {
    *colon = '\0';
    options->steps_given = opgap_parse_number(copy, &options->first_step) &&
                           opgap_parse_number(colon + 1, &options->last_step) &&
                           options->first_step <= options->last_step;
  }
  free(copy);
  if (!options->steps_given)
    return opgap_usage_error(command, "--steps %s: must be A:B, the first and last step, counted from 0", text);
  return 0;
}

int opgap_take_min_gap(const char *command, const char *text, struct opgap_analysis_options *options)
{
  if (!opgap_parse_time(text, &options->gpu_min_gap_ns) || options->gpu_min_gap_ns == 0)
    return opgap_usage_error(command, "--min-gap %s: must be a time such as 50us or 1ms", text);
  return 0;
}

uint64_t opgap_monotonic_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void opgap_progress_begin(struct opgap_progress *progress, const char *what)
{
  *progress = (struct opgap_progress){
      .what = what, .start_ns = opgap_monotonic_ns(), .percent = -1, .terminal = isatty(STDERR_FILENO)};
}

void opgap_progress_show(void *context, uint64_t done, uint64_t total)
{
  struct opgap_progress *progress = context;
  int percent = total ? (int)(100.0 * (double)done / (double)total) : 0;
  if (!progress->terminal || percent == progress->percent ||
      opgap_monotonic_ns() - progress->start_ns < PROGRESS_AFTER_NS)
    return;
  progress->percent = percent;
  fprintf(stderr, "\ropgap: %s: %d %%", progress->what, percent > 100 ? 100 : percent);
}

void opgap_progress_end(struct opgap_progress *progress)
{
  if (progress->percent >= 0)
    fputs("\r\033[K", stderr);
  progress->percent = -1;
}

/* Returns 0 or the error of the first call that failed. */
static int write_stream(FILE *file, bool (*write)(void *context, FILE *file), void *context)
{
  errno = 0;
  bool good = write(context, file) && fflush(file) == 0 && !ferror(file);
  return good ? 0 : errno ? errno : EIO;
}

static int write_named(const char *name, bool (*write)(void *context, FILE *file), void *context)
{
  FILE *file = fopen(name, "w");
  if (file == NULL)
    return errno;
  int error = write_stream(file, write, context);
  if (fclose(file) != 0 && error == 0)
    error = errno;
  return error;
}

static int write_replaced(const char *path, bool (*write)(void *context, FILE *file), void *context)
{
  char *temporary = replace_begin(path);
  if (temporary == NULL)
    return errno;
  int error = write_named(temporary, write, context), renamed = replace_end(temporary, path, error == 0);
  return error ? error : renamed;
}

static int cannot_write(const char *path, int error)
{
  return opgap_fail(OPGAP_EXIT_USAGE, "cannot write %s: %s", strcmp(path, "-") == 0 ? "the output" : path,
                    strerror(error));
}

int opgap_check_output(const char *path)
{
  int error = path == NULL || strcmp(path, "-") == 0 ? 0 : replace_check(path);
  return error == 0 ? OPGAP_EXIT_DONE : cannot_write(path, error);
}

int opgap_write_file(const char *path, bool (*write)(void *context, FILE *file), void *context)
{
  struct stat info;
  int error;
  signal(SIGXFSZ, SIG_IGN); /* a limit of size or a closed pipe is an error of the write, not the program's end */
  signal(SIGPIPE, SIG_IGN);
  if (strcmp(path, "-") == 0)
    error = write_stream(stdout, write, context);
  else if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    error = write_named(path, write, context);
  else
    error = write_replaced(path, write, context);
  return error == 0 ? OPGAP_EXIT_DONE : cannot_write(path, error);
}

const char *opgap_printable(const char *text)
{
  static char *kept[4];
  static unsigned next;
  char **place = &kept[next++ % 4];
  free(*place);
  *place = text_clean(text);
  return *place;
}

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), m = strlen(end);
  return n > m && strcmp(text + n - m, end) == 0;
}

static char *join(const char *folder, const char *name)
{
  char *path;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* A trace's time is that of its folder's last new file: later look-ups change nothing there. */
char *opgap_newest_trace(const char *folder)
{
  char *newest = NULL;
  bool is_trace = false;
  struct timespec when = {0, 0};
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return NULL;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    struct stat info;
    is_trace = is_trace || ends_with(entry->d_name, ".opgt");
    if (!ends_with(entry->d_name, ".opgap"))
      continue;
    char *path = strcmp(folder, ".") == 0 ? strdup(entry->d_name) : join(folder, entry->d_name);
    bool newer = path != NULL && stat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
                 (newest == NULL || info.st_mtim.tv_sec > when.tv_sec ||
                  (info.st_mtim.tv_sec == when.tv_sec && info.st_mtim.tv_nsec > when.tv_nsec));
    if (newer) {
      free(newest);
      newest = path;
      when = info.st_mtim;
    } else {
      free(path);
    }
  }
  closedir(dir);
  return newest == NULL && is_trace ? strdup(folder) : newest;
}

/* Beside the executable (build tree), or where an installation puts libraries. */
char *opgap_tracer_path(void)
{
  static const char *const places[] = {
    "",
    "../lib/",
    "../lib64/",
#if defined(__x86_64__)
    "../lib/x86_64-linux-gnu/",
#elif defined(__aarch64__)
    "../lib/aarch64-linux-gnu/",
#endif
    "../lib/opgap/"
  };
  char self[4096];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0)
    return NULL;
  self[length] = '\0';
  char *slash = strrchr(self, '/');
  if (slash == NULL)
    return NULL;
  *slash = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    char *path, *resolved;
    if (asprintf(&path, "%s/%slibopgap.so", self, places[i]) < 0)
      return NULL;
    resolved = realpath(path, NULL);
    free(path);
    if (resolved != NULL)
      return resolved;
  }
  return NULL;
}

int opgap_take_text(void *text, int option, const char *value)
{
  (void)option;
  *(const char **)text = value;
  return OPGAP_EXIT_DONE;
}

int opgap_options(const char *command, int argc, char **argv, const char *letters, const struct option *options,
                  void (*help)(void), int (*take)(void *context, int option, const char *value), void *context)
{
  int option;
  optind = 0;
  opterr = 0;
  while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
    if (option == 'h') {
      help();
      return OPGAP_EXIT_DONE;
    }
    if (option == '?')
      return opgap_usage_error(command, "unknown option %s", argv[optind - 1]);
    if (option == ':')
      return opgap_usage_error(command, "%s needs a value", argv[optind - 1]);
    int code = take(context, option, optarg);
    if (code != OPGAP_EXIT_DONE)
      return code;
  }
  return -1;
}
