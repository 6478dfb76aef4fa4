/* opgap record: runs a program with the tracer preloaded, and exits as it exits.
 *
 * The program and its children write the trace by themselves and need no launcher; this command adds checked settings,
 * a reason when nothing was traced, and the recovery of what killed processes left in their rings.
 */
#include "opgap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/recover.h"
#include "format/trace_format.h"
#include "record/settings.h"

#define NAME "record"

struct recording {
  char **program;          /* argv of the program */
  char *path;              /* where PATH finds it, or NULL */
  const char *untraceable; /* known beforehand, or NULL */
  char *tracer;
  struct opgap_settings settings;
  char *folder;        /* absolute; NULL: the program runs untraced */
  bool folder_is_ours; /* made by this run */
  pid_t child;
  int *start_error; /* shared with the child: errno of its exec, 0: that succeeded */
};

/* ---- arguments and settings ---- */

static void print_help(void)
{
  puts("Usage: opgap record [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
       "\n"
       "Runs PROGRAM with the tracer preloaded and exits with its status.  Each option can also be given as an\n"
       "environment variable, and works the same with LD_PRELOAD=libopgap.so alone.  -o PATH is --out PATH.\n");
  for (unsigned i = 0; i < opgap_setting_count; i++) {
    const struct opgap_setting *s = &opgap_setting_table[i];
    printf("  --%s %s\n      %s", s->flag, s->value, s->help);
    if (*s->standard != '\0' && strcmp(s->standard, "0") != 0)
      printf(" (default %s)", s->standard);
    printf("\n      [%s]\n", s->env);
  }
}

static int unknown_option(const char *argument, size_t length)
{
  enum { MAX = 64 };
  const char *flags[MAX];
  char given[256];
  snprintf(given, sizeof given, "%.*s", (int)(length < 200 ? length : 200), argument);
  for (unsigned i = 0; i < opgap_setting_count && i < MAX; i++)
    flags[i] = opgap_setting_table[i].flag;
  const char *near = opgap_nearest(given + strspn(given, "-"), flags, opgap_setting_count);
  if (near != NULL)
    return opgap_usage_error(NAME, "unknown option '%s', did you mean '--%s'?", given, near);
  return opgap_usage_error(NAME, "unknown option '%s'", given);
}

/* Takes the option at argv[*index]: checks its value and puts it into the environment. */
static int take_option(struct recording *r, int argc, char **argv, int *index)
{
  char message[OPGAP_SETTING_MESSAGE_MAX], name[64];
  char *argument = argv[*index];
  size_t length = strcspn(argument, "=");
  const struct opgap_setting *setting = argument[1] == '-'            ? opgap_setting_find(argument, length)
                                        : strcmp(argument, "-o") == 0 ? opgap_setting_find("--out", strlen("--out"))
                                                                      : NULL;
  if (setting == NULL)
    return unknown_option(argument, length);
  snprintf(name, sizeof name, "--%s", setting->flag);
  const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
  if (value == NULL) {
    if (*index + 1 >= argc)
      return opgap_usage_error(NAME, "option '%s' needs a value", name);
    value = argv[++*index];
  }
  if (opgap_settings_set(&r->settings, name, value, message, sizeof message) != 0)
    return opgap_usage_error(NAME, "%s", message);
  setenv(setting->env, value, 1);
  return 0;
}

static const char *from_environment(const char *name, void *ctx)
{
  (void)ctx;
  return getenv(name);
}

/* All settings, after the options were put into the environment. */
static int check_settings(struct recording *r)
{
  extern char **environ;
  char message[OPGAP_SETTING_MESSAGE_MAX];
  const char *unknown = opgap_settings_unknown(environ);
  if (unknown != NULL)
    return opgap_usage_error(NAME, "unknown setting %s", unknown);
  if (opgap_settings_parse(&r->settings, from_environment, NULL, message, sizeof message) != 0)
    return opgap_usage_error(NAME, "%s", message);
  return 0;
}

/* Returns an exit code, or -1 to go on. */
static int parse_arguments(struct recording *r, int argc, char **argv)
{
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
    if (strcmp(argv[i], "--") == 0) {
      i++;
      break;
    }
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      print_help();
      return OPGAP_EXIT_DONE;
    }
    int code = take_option(r, argc, argv, &i);
    if (code != 0)
      return code;
  }
  if (i >= argc)
    return opgap_usage_error(NAME, "no program given");
  r->program = argv + i;
  int code = check_settings(r);
  return code != 0 ? code : -1;
}

/* ---- the trace folder ---- */

/* Whether a process file holds anything: on a full disk it stays empty. */
static bool is_readable(const char *folder, const char *name)
{
  char *path, error[512];
  if (asprintf(&path, "%s/%s", folder, name) < 0)
    return false;
  struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
  bool readable = trace != NULL && opgap_trace_process_count(trace) > 0 && opgap_trace_process(trace, 0)->pid > 0;
  opgap_trace_close(trace);
  free(path);
  return readable;
}

/* Number of readable process files in the trace; *of_child is set when one is the child's: <host>-<pid>-<start>.opgt.
 */
static unsigned count_files(const char *folder, pid_t child, bool *of_child)
{
  unsigned count = 0;
  char part[32];
  snprintf(part, sizeof part, "-%ld-", (long)child);
  DIR *dir = opendir(folder);
  if (dir == NULL)
    return 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    size_t length = strlen(entry->d_name);
    if (length < 5 || strcmp(entry->d_name + length - 5, ".opgt") != 0 || !is_readable(folder, entry->d_name))
      continue;
    count++;
    *of_child |= strstr(entry->d_name, part) != NULL;
  }
  closedir(dir);
  return count;
}

/* Several ranks started one by one share the folder that they all name; anything else must not mix two runs. */
static bool is_rank(void)
{
  return getenv("RANK") != NULL || getenv("SLURM_PROCID") != NULL || getenv("OMPI_COMM_WORLD_RANK") != NULL;
}

static void default_name(const char *program, char *name, size_t size)
{
  char base[65], date[32];
  time_t now = time(NULL);
  struct tm utc; /* as the tracer alone would name it */
  const char *slash = strrchr(program, '/');
  snprintf(base, sizeof base, "%s", slash != NULL ? slash + 1 : program);
  for (char *c = base; *c != '\0'; c++) {
    if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *c) == NULL)
      *c = '_';
  }
  strftime(date, sizeof date, "%Y%m%d-%H%M%S", gmtime_r(&now, &utc));
  snprintf(name, size, "opgap-%s-%s-%ld.opgap", base, date, (long)getpid());
}

static char *absolute_path(const char *path)
{
  char *absolute, *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
  if (here == NULL || asprintf(&absolute, "%s%s%s", here, path[0] == '/' ? "" : "/", path) < 0)
    absolute = NULL;
  free(here);
  return absolute;
}

/* Makes the trace folder.  Returns an exit code, or -1 to go on: traced, or untraced with one line said about it. */
static int make_folder(struct recording *r)
{
  char standard[160];
  bool any;
  if (r->settings.off)
    return -1;
  default_name(r->program[0], standard, sizeof standard);
  const char *wanted = r->settings.out[0] != '\0' ? r->settings.out : standard;
  char *folder = absolute_path(wanted);
  if (folder != NULL && mkdir(folder, 0700) == 0) {
    r->folder = folder;
    r->folder_is_ours = true;
    return -1;
  }
  int error = errno;
  struct stat info;
  if (folder != NULL && error == EEXIST && stat(folder, &info) == 0) {
    error = S_ISDIR(info.st_mode) ? EACCES : ENOTDIR;
    if (error == EACCES && count_files(folder, 0, &any) > 0 && !is_rank()) {
      free(folder);
      return opgap_usage_error(NAME, "%s already holds a trace: name another --out, or remove it", wanted);
    }
    if (error == EACCES && access(folder, W_OK | X_OK) == 0) {
      r->folder = folder;
      return -1;
    }
  }
  free(folder);
  opgap_fail(0, "cannot write to the trace folder %s: %s; the program runs untraced", wanted, strerror(error));
  return -1;
}

/* ---- running the program ---- */

static volatile sig_atomic_t forward_to;

/* What a signal means when no process sent it: the kernel did. */
enum from_kernel {
  KERNEL_GROUP, /* the terminal sends it to the whole group: the program has it already */
  KERNEL_TIMER, /* a timer that was set before this program was started: meant for the program */
  KERNEL_LIMIT, /* this process met a limit or a closed pipe: not the program's business, the call fails */
  KERNEL_FAULT  /* this process is broken */
};

/* All that would end this process and leave the program alone, and two more that programs listen to. */
static const struct {
  int number;
  enum from_kernel from_kernel;
} signals[] = {{SIGTERM, KERNEL_GROUP}, {SIGHUP, KERNEL_GROUP},    {SIGINT, KERNEL_GROUP},   {SIGQUIT, KERNEL_GROUP},
               {SIGUSR1, KERNEL_GROUP}, {SIGUSR2, KERNEL_GROUP},   {SIGWINCH, KERNEL_GROUP}, {SIGCONT, KERNEL_GROUP},
               {SIGPWR, KERNEL_GROUP},  {SIGIO, KERNEL_LIMIT},     {SIGPIPE, KERNEL_LIMIT},  {SIGXCPU, KERNEL_LIMIT},
               {SIGXFSZ, KERNEL_LIMIT}, {SIGSTKFLT, KERNEL_LIMIT}, {SIGALRM, KERNEL_TIMER},  {SIGVTALRM, KERNEL_TIMER},
               {SIGPROF, KERNEL_TIMER}, {SIGABRT, KERNEL_FAULT},   {SIGSEGV, KERNEL_FAULT},  {SIGBUS, KERNEL_FAULT},
               {SIGFPE, KERNEL_FAULT},  {SIGILL, KERNEL_FAULT},    {SIGTRAP, KERNEL_FAULT},  {SIGSYS, KERNEL_FAULT}};
#define SIGNAL_COUNT (sizeof signals / sizeof *signals)

static enum from_kernel meaning_of(int number)
{
  for (size_t i = 0; i < SIGNAL_COUNT; i++)
    if (signals[i].number == number)
      return signals[i].from_kernel;
  return KERNEL_GROUP; /* real-time signals: only processes send them */
}

/* Passes a signal on to the program.  What the program itself sent is not: it signalled its group, and has the signal,
 * or its parent, and does not mean itself.  Another process that signals the whole group cannot be told from one that
 * signals this process alone: the program then gets the signal twice. */
static void forward(int number, siginfo_t *info, void *context)
{
  int error = errno;
  pid_t program = (pid_t)forward_to;
  (void)context;
  if (info->si_code > 0 || info->si_pid == getpid()) {
    enum from_kernel meaning = meaning_of(number);
    if (meaning == KERNEL_FAULT)
      signal(number, SIG_DFL); /* ends this process when the fault comes again */
    else if (program > 0 && (meaning == KERNEL_TIMER || (meaning == KERNEL_GROUP && getpgid(program) != getpgrp())))
      kill(program, number);
  } else if (program > 0 && info->si_pid != program) {
    if (info->si_code == SI_QUEUE)
      sigqueue(program, number, info->si_value);
    else
      kill(program, number);
  }
  errno = error;
}

static void catch_signal(int number)
{
  struct sigaction old, action = {.sa_sigaction = forward, .sa_flags = SA_RESTART | SA_SIGINFO};
  if (sigaction(number, NULL, &old) == 0 && (old.sa_flags & SA_SIGINFO) == 0 && old.sa_handler == SIG_DFL)
    sigaction(number, &action, NULL);
}

static void release_signal(int number)
{
  struct sigaction old;
  if (sigaction(number, NULL, &old) == 0 && (old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction == forward)
    signal(number, SIG_DFL);
}

static void for_each_signal(void (*act)(int number))
{
  for (size_t i = 0; i < SIGNAL_COUNT; i++)
    act(signals[i].number);
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
    act(number);
}

/* The tracer goes first in LD_PRELOAD: behind an allocator that does not call the next one it would see no allocation.
 * The user's own libraries keep their order.  A list that names the tracer somewhere already stays as it is: whoever
 * wrote it chose the place. */
static void preload(const struct recording *r)
{
  const char *old = getenv("LD_PRELOAD");
  char *list;
  if (old != NULL && strstr(old, r->tracer) != NULL)
    return;
  if (asprintf(&list, "%s%s%s", r->tracer, old != NULL && *old != '\0' ? ":" : "", old != NULL ? old : "") >= 0) {
    setenv("LD_PRELOAD", list, 1);
    free(list);
  }
}

/* AddressSanitizer ends a program whose list of libraries does not begin with its runtime, unless told otherwise;
 * behind the tracer it works as well, its own malloc being the next one. */
static void allow_asan_behind(const struct recording *r)
{
  const char *preloaded = getenv("LD_PRELOAD"), *old = getenv("ASAN_OPTIONS");
  char *options;
  if (!(preloaded != NULL && opgap_is_asan_runtime(preloaded)) &&
      !(r->path != NULL && opgap_needs_asan_runtime(r->path)))
    return;
  if (asprintf(&options, "%s%sverify_asan_link_order=0", old != NULL ? old : "", old != NULL && *old ? ":" : "") >= 0) {
    setenv("ASAN_OPTIONS", options, 1);
    free(options);
  }
}

static _Noreturn void become_program(const struct recording *r, const sigset_t *mask)
{
  for_each_signal(release_signal);
  sigprocmask(SIG_SETMASK, mask, NULL);
  char *session = NULL;
  if (r->folder != NULL && asprintf(&session, "%s/", r->folder) >= 0) /* the slash: the trace's first process */
    setenv("OPGAP_SESSION", session, 1);
  else
    unsetenv("OPGAP_SESSION");
  if (r->folder != NULL || r->settings.off) {
    preload(r);
    allow_asan_behind(r);
  }
  execvp(r->program[0], r->program);
  *r->start_error = errno;
  _exit(127);
}

/* Starts the program.  Returns 0, or the errno that kept it from being tried; what its exec fails with is in
 * r->start_error when it has ended.  That is shared memory: a pipe would take descriptors, of which there may be none.
 */
static int start_program(struct recording *r)
{
  int error = 0;
  sigset_t all, old;
  r->start_error = mmap(NULL, sizeof *r->start_error, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (r->start_error == MAP_FAILED)
    return errno;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old);
  for_each_signal(catch_signal); /* exec resets handlers; an ignored signal stays ignored, as with nohup */
  r->child = fork();
  if (r->child == 0)
    become_program(r, &old);
  if (r->child < 0)
    error = errno;
  forward_to = r->child;
  sigprocmask(SIG_SETMASK, &old, NULL);
  return error;
}

/* Waits for the end; the child is reaped only when no handler can send to its pid any more. */
static int wait_for_program(const struct recording *r)
{
  siginfo_t info;
  int status = 0;
  while (waitid(P_PID, (id_t)r->child, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
    ;
  forward_to = 0;
  while (waitpid(r->child, &status, 0) < 0 && errno == EINTR)
    ;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Codes as a shell gives them. */
static int report_not_started(const struct recording *r, int error)
{
  const char *name = opgap_printable(r->program[0]);
  if (r->folder_is_ours)
    rmdir(r->folder);
  if (error == ENOENT && r->path == NULL)
    return opgap_fail(127, "%s: command not found", name);
  if (error == ENOENT)
    return opgap_fail(127, "%s: cannot be executed: its interpreter is missing", name);
  return opgap_fail(126, "%s: cannot be executed: %s", name, strerror(error));
}

/* ---- after the end ---- */

static bool is_full(const char *folder)
{
  struct statvfs space;
  return statvfs(folder, &space) == 0 && (space.f_bavail == 0 || (space.f_files > 0 && space.f_favail == 0));
}

/* Why the trace file takes no more, as far as this process can tell; NULL: it cannot. */
static const char *why_unwritable(const char *folder)
{
  static char limit[80];
  struct rlimit file;
  if (access(folder, W_OK) == 0 && is_full(folder))
    return "no space is left there";
  if (getrlimit(RLIMIT_FSIZE, &file) != 0 || file.rlim_cur == RLIM_INFINITY)
    return NULL;
  snprintf(limit, sizeof limit, "no file may be larger than %llu KiB (ulimit -f)",
           (unsigned long long)file.rlim_cur >> 10);
  return limit;
}

/* Whether the program itself has said why it is not traced. */
static bool has_given_reason(const struct recording *r)
{
  char *word;
  if (asprintf(&word, "%s/" OPGAP_UNTRACED "%ld", r->folder, (long)r->child) < 0)
    return false;
  bool given = rmdir(word) == 0;
  free(word);
  return given;
}

static void report_untraced(const struct recording *r, unsigned files, bool reason_given)
{
  const char *name = opgap_printable(r->program[0]);
  const char *others = files > 0 ? "; other processes were traced" : "", *why;
  if (r->untraceable != NULL)
    return; /* said at the start */
  if (access(r->tracer, R_OK) != 0)
    opgap_fail(0, "%s was not traced: %s cannot be read%s", name, r->tracer, others);
  else if ((why = why_unwritable(r->folder)) != NULL)
    opgap_fail(0, "%s was not traced, nothing could be written to %s: %s%s", name, opgap_printable(r->folder), why,
               others);
  else if (!reason_given)
    opgap_fail(0, "%s was not traced: the tracer was not loaded into it, or could not start (see: opgap doctor)%s",
               name, others);
}

/* Whether plain `opgap report` takes this trace. */
static bool is_newest_here(const char *folder)
{
  struct stat ours, theirs;
  char *newest = opgap_newest_trace(".");
  bool same = newest != NULL && stat(folder, &ours) == 0 && stat(newest, &theirs) == 0 &&
              ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  free(newest);
  return same;
}

/* What the processes recorded last is safe, but only until the machine restarts. */
static void report_left(const struct recording *r)
{
  char ring[1400];
  int left = opgap_trace_left(r->folder, ring, sizeof ring);
  const char *why = left > 0 ? why_unwritable(r->folder) : NULL;
  if (left > 0)
    opgap_fail(
        0,
        "the last records of %d process%s could not be written to %s%s%s: they stay in %s%s until a command of opgap "
        "can write them",
        left, left == 1 ? "" : "es", r->folder, why != NULL ? ", " : "", why != NULL ? why : "", ring,
        left == 1 ? "" : " and others");
}

static void close_trace(const struct recording *r)
{
  bool of_child = false;
  bool quiet = r->settings.log == OPGAP_LOG_QUIET;
  opgap_trace_recover(r->folder);
  if (access(r->folder, F_OK) != 0 && errno == ENOENT) {
    if (!quiet)
      opgap_fail(0, "%s was removed while %s ran: there is no trace", opgap_printable(r->folder),
                 opgap_printable(r->program[0]));
    return;
  }
  unsigned files = count_files(r->folder, r->child, &of_child);
  bool reason_given = has_given_reason(r);
  if (!of_child && !quiet)
    report_untraced(r, files, reason_given);
  if (files == 0 && r->folder_is_ours)
    rmdir(r->folder);
  if (files > 0 && !quiet) {
    report_left(r);
    const char *folder = opgap_printable(r->folder);
    bool newest = is_newest_here(r->folder);
    fprintf(stderr, "opgap: %u process%s traced to %s (see: opgap report%s%s)\n", files, files == 1 ? "" : "es", folder,
            newest ? "" : " ", newest ? "" : folder);
  }
}

static int run(struct recording *r)
{
  r->path = opgap_find_program(r->program[0]);
  r->untraceable = r->path != NULL ? opgap_why_untraceable(r->path) : NULL;
  if (r->untraceable != NULL && r->folder != NULL && r->settings.log != OPGAP_LOG_QUIET)
    opgap_fail(0, "%s is %s and cannot be traced; programs that it starts can", r->program[0], r->untraceable);
  int error = start_program(r);
  if (error != 0)
    return report_not_started(r, error);
  int code = wait_for_program(r);
  if (*r->start_error != 0)
    return report_not_started(r, *r->start_error);
  if (r->folder != NULL)
    close_trace(r);
  return code;
}

int opgap_cmd_record(int argc, char **argv)
{
  struct recording r = {0};
  opgap_settings_default(&r.settings);
  int code = parse_arguments(&r, argc, argv);
  if (code >= 0)
    return code;
  r.tracer = opgap_tracer_path();
  if (r.tracer == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "libopgap.so is neither beside this program nor in ../lib");
  if (strpbrk(r.tracer, " :$") != NULL) {
    opgap_fail(0, "%s: LD_PRELOAD cannot name a path with a blank, ':' or '$'; install opgap elsewhere", r.tracer);
    code = OPGAP_EXIT_USAGE;
  } else {
    code = make_folder(&r);
    if (code < 0)
      code = run(&r);
  }
  free(r.path);
  free(r.tracer);
  free(r.folder);
  return code;
}
