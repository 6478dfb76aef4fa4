/* opgap start, stop, snapshot: a running job from outside.
 *
 * start and stop write the word that the hooks of each live process test (format/control.h); no signal is sent and no
 * process need do anything.  What starts later reads the trace folder's control file, which is written first: a process
 * that was not found in the list of rings finds the file. */
#include "opgap.h"
#include "copy.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "format/reader.h"
#include "format/recover.h"
#include "format/trace_format.h"

struct job {
  const char *trace;
  uint32_t on;
  unsigned files, live; /* process files; processes that run, before the first was switched */
  unsigned switched, already, failed;
  int32_t *pids; /* that were switched, or told why they cannot be */
  size_t pid_count;
  bool last_look;   /* for a ring of each process */
  uint64_t word_at; /* clock ticks since the machine's start, of the trace's word; who starts later begins with it */
  unsigned waiting; /* processes to look for again */
};

#define LOOKS 200u /* for rings of processes that start or end just now */
#define LOOK_AGAIN_NS 10000000

/* ---- start and stop ---- */

static bool is_known(const struct job *job, int pid)
{
  for (size_t i = 0; i < job->pid_count; i++)
    if (job->pids[i] == pid)
      return true;
  return false;
}

static void know(struct job *job, int pid)
{
  int32_t *grown = realloc(job->pids, (job->pid_count + 1) * sizeof *grown);
  if (grown != NULL)
    (job->pids = grown)[job->pid_count++] = pid;
}

static void cannot(struct job *job, int pid, const char *why)
{
  job->failed++;
  opgap_fail(0, "process %d cannot be switched: %s", pid, why);
}

static void wake_flusher(struct opgap_arena *arena)
{
  if (atomic_exchange(&arena->flusher_sleeps, 0))
    syscall(SYS_futex, &arena->flusher_sleeps, 1 /* FUTEX_WAKE */, INT_MAX, NULL, NULL, 0);
}

static bool lock_ring(int fd)
{
  struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < 1000; i++, nanosleep(&pause, NULL))
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
      return true;
  return false;
}

static void switch_one(void *context, struct opgap_arena *arena, int fd)
{
  struct job *job = context;
  struct opgap_control *control = opgap_arena_control(arena);
  if (is_known(job, arena->pid))
    return;
  know(job, arena->pid);
  if (atomic_load(&control->available) == 0) {
    cannot(job, arena->pid, "it was started without OPGAP_CONTROL=on or idle");
    return;
  }
  if (!lock_ring(fd)) {
    cannot(job, arena->pid, "another opgap holds it");
    return;
  }
  if (atomic_load(&control->wanted) == job->on) {
    job->already++;
  } else if (!opgap_control_note(control, opgap_monotonic_ns(), job->on)) {
    cannot(job, arena->pid, "it was switched too often since it last wrote to its trace");
  } else {
    atomic_store(&control->wanted, job->on);
    opgap_control_settle(control);
    wake_flusher(arena);
    job->switched++;
  }
  flock(fd, LOCK_UN);
}

/* The trace's word for processes that start from now on; replaced as a whole. */
static bool write_word(const struct job *job)
{
  char path[PATH_MAX], temporary[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/" OPGAP_CONTROL_FILE, job->trace) >= (int)sizeof path ||
      snprintf(temporary, sizeof temporary, "%s/" OPGAP_CONTROL_FILE ".%d", job->trace, (int)getpid()) >=
          (int)sizeof temporary) {
    errno = ENAMETOOLONG;
    return false;
  }
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool good = fd >= 0 && write(fd, job->on ? "1\n" : "0\n", 2) == 2;
  if (fd >= 0)
    close(fd);
  good = good && rename(temporary, path) == 0;
  if (!good && fd >= 0)
    unlink(temporary);
  return good;
}

/* As field 22 of /proc/PID/stat. */
static uint64_t ticks_since_start(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
  return (uint64_t)now.tv_sec * hertz + (uint64_t)now.tv_nsec * hertz / 1000000000u;
}

/* The process of <host>-<pid>-<start>[-<image>].opgt; 0: of another host, ended, or no such name. */
static int live_pid(const char *name, uint64_t *started)
{
  char host[65], text[1024], path[64];
  unsigned long long start, image;
  int pid, end = 0;
  if (gethostname(host, sizeof host) != 0)
    return 0;
  host[sizeof host - 1] = '\0';
  for (char *p = host; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '.')
      *p = '_';
  size_t n = strlen(host);
  if (strncmp(name, host, n) != 0 ||
      ((sscanf(name + n, "-%d-%llu.opgt%n", &pid, &start, &end) != 2 || end == 0) &&
       (sscanf(name + n, "-%d-%llu-%llu.opgt%n", &pid, &start, &image, &end) != 3 || end == 0)))
    return 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "re");
  size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file != NULL)
    fclose(file);
  text[length] = '\0';
  const char *at = strrchr(text, ')');
  if (at == NULL || at[1] == '\0' || at[2] == 'Z')
    return 0;
  for (int field = 2; *at && field < 22; at++)
    field += *at == ' ';
  *started = start;
  return strtoull(at, NULL, 10) == start ? pid : 0;
}

/* Calls visit with each process file, the pid of its process, 0 when that does not run here, and when it started. */
static void each_file(struct job *job, void (*visit)(struct job *job, const char *name, int pid, uint64_t started))
{
  DIR *folder = opendir(job->trace);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    size_t n = strlen(entry->d_name);
    uint64_t started = 0;
    if (n > 5 && strcmp(entry->d_name + n - 5, ".opgt") == 0) {
      int pid = live_pid(entry->d_name, &started);
      visit(job, entry->d_name, pid, started);
    }
  }
  if (folder != NULL)
    closedir(folder);
}

static void count(struct job *job, const char *name, int pid, uint64_t started)
{
  (void)name, (void)started;
  job->files++;
  job->live += pid != 0;
}

enum out_of_reach { IS_OVER, COMES_OR_GOES, IN_PRIVATE_MEMORY, OF_ANOTHER_USER };

/* Why the ring of a live process was not found, by what its file says.  Who is about to exit records no more, and what
 * a process executes reads the trace's word. */
static enum out_of_reach why_out_of_reach(const struct job *job, const char *name)
{
  char path[PATH_MAX], error[1024];
  if (snprintf(path, sizeof path, "%s/%s", job->trace, name) >= (int)sizeof path)
    return COMES_OR_GOES;
  struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
  if (trace == NULL) /* it has no head yet, or a new part takes its place */
    return COMES_OR_GOES;
  enum out_of_reach why = COMES_OR_GOES;
  enum opgap_ended ended = opgap_trace_process(trace, 0)->ended;
  const char *kill_safe = opgap_trace_info(trace, 0, "kill_safe"), *ring = opgap_trace_info(trace, 0, "ring");
  if (ended == OPGAP_ENDED_CLEAN || ended == OPGAP_ENDED_EXEC)
    why = IS_OVER;
  else if (kill_safe != NULL && strcmp(kill_safe, "0") == 0)
    why = IN_PRIVATE_MEMORY;
  else if (ring != NULL && access(ring, R_OK | W_OK) != 0 && errno == EACCES)
    why = OF_ANOTHER_USER;
  opgap_trace_close(trace);
  return why;
}

static void look_for(struct job *job, const char *name, int pid, uint64_t started)
{
  if (pid == 0 || started > job->word_at || is_known(job, pid))
    return;
  switch (why_out_of_reach(job, name)) {
  case IS_OVER:
    return;
  case COMES_OR_GOES:
    job->waiting++;
    if (!job->last_look)
      return;
    cannot(job, pid, "its ring was not found: for two seconds it has been starting, or ending");
    break;
  case IN_PRIVATE_MEMORY:
    cannot(job, pid, "its ring is private memory: there was no room in /dev/shm or the trace folder");
    break;
  case OF_ANOTHER_USER:
    cannot(job, pid, "its ring belongs to another user");
    break;
  }
  know(job, pid);
}

/* All processes whose rings can be found; those that were about to start or end when the trace's word was written are
 * looked for until they have done so. */
static void switch_all(struct job *job)
{
  const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
  for (unsigned look = 1; look <= LOOKS; look++, nanosleep(&pause, NULL)) {
    job->waiting = 0;
    job->last_look = look == LOOKS;
    opgap_trace_each_ring(job->trace, switch_one, job);
    each_file(job, look_for);
    if (job->waiting == 0)
      return;
  }
}

static const char *plural(unsigned count)
{
  return count == 1 ? "" : "es";
}

static int tell(const struct job *job)
{
  const char *what = job->on ? "started" : "stopped";
  if (job->switched > 0)
    printf("recording %s in %u process%s", what, job->switched, plural(job->switched));
  if (job->already > 0)
    printf("%s%s in %u process%s", job->switched > 0 ? "; " : "recording was ",
           job->switched > 0 ? "it was so already"
           : job->on         ? "on already"
                             : "off already",
           job->already, plural(job->already));
  if (job->switched + job->already > 0)
    putchar('\n');
  return job->failed > 0 ? OPGAP_EXIT_USAGE : OPGAP_EXIT_DONE;
}

static int run_switch(struct job *job)
{
  struct stat info;
  const char *name = opgap_printable(job->trace);
  if (stat(job->trace, &info) != 0)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: %s", name, strerror(errno));
  if (!S_ISDIR(info.st_mode))
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: not a trace folder (NAME.opgap)", name);
  each_file(job, count);
  if (job->files == 0)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: no process files (*.opgt) in this folder: is it an opgap trace?", name);
  if (job->live == 0)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: no process of it runs any more on this machine", name);
  if (!write_word(job))
    return opgap_fail(OPGAP_EXIT_USAGE, "%s: cannot be written: %s", name, strerror(errno));
  job->word_at = ticks_since_start();
  switch_all(job);
  return tell(job);
}

/* ---- snapshot ---- */

/* A new folder NAME-snapshot-N.opgap beside the trace, or the one asked for; NULL and errno. */
static char *make_folder(const char *trace, const char *wanted)
{
  char *path = NULL;
  if (wanted != NULL)
    return mkdir(wanted, 0700) == 0 ? strdup(wanted) : NULL;
  int length = (int)strlen(trace);
  while (length > 1 && trace[length - 1] == '/')
    length--;
  if (length > 6 && strncmp(trace + length - 6, ".opgap", 6) == 0)
    length -= 6;
  for (unsigned n = 1; n < 1000000; n++) {
    if (asprintf(&path, "%.*s-snapshot-%u.opgap", length, trace, n) < 0)
      return NULL;
    if (mkdir(path, 0700) == 0)
      return path;
    int error = errno;
    free(path);
    errno = error;
    if (error != EEXIST)
      return NULL;
  }
  return NULL;
}

static int snapshot(const char *path, const char *wanted)
{
  char error[1024] = "";
  struct opgap_trace *trace = opgap_trace_open(path, error, sizeof error);
  if (trace == NULL)
    return opgap_fail(OPGAP_EXIT_USAGE, "%s", error);
  int code = OPGAP_EXIT_DONE;
  char *folder = make_folder(path, wanted);
  if (folder == NULL)
    code =
        opgap_fail(OPGAP_EXIT_USAGE, "cannot make the folder %s: %s", wanted ? wanted : "of the copy", strerror(errno));
  unsigned count = opgap_trace_process_count(trace), running = 0;
  if (code == OPGAP_EXIT_DONE && !opgap_copy_trace(trace, folder, &running)) {
    code = opgap_fail(OPGAP_EXIT_USAGE, "cannot write to %s: %s", folder, strerror(errno));
    opgap_copy_remove(folder);
  }
  if (code == OPGAP_EXIT_DONE)
    printf("%u process%s, %u of them running, copied to %s\n", count, plural(count), running, opgap_printable(folder));
  if (code == OPGAP_EXIT_DONE)
    code = opgap_trace_exit(trace);
  opgap_trace_close(trace);
  free(folder);
  return code;
}

/* ---- the commands ---- */

static void help_switch(const char *command, const char *to)
{
  printf("Usage: opgap %s TRACE\n"
         "\n"
         "Switches recording %s in every process of a running job, and in those that it starts later.  The job must\n"
         "have been started with OPGAP_CONTROL=idle (recording off) or OPGAP_CONTROL=on:\n"
         "\n"
         "  opgap record --control idle --out run.opgap -- python3 train.py &\n"
         "  opgap start run.opgap\n"
         "  opgap stop run.opgap\n"
         "\n"
         "Processes on other machines are not reached; those that start later are.\n"
         "\n"
         "Exit status: 0 all processes are switched; 2 wrong usage, no such trace, none of its processes runs, or\n"
         "some could not be switched (each is named)\n",
         command, to);
}

static void help_start(void)
{
  help_switch("start", "on");
}

static void help_stop(void)
{
  help_switch("stop", "off");
}

static void help_snapshot(void)
{
  puts("Usage: opgap snapshot [-o FOLDER] TRACE\n"
       "\n"
       "Copies the trace of a running job, with all that its processes have recorded up to now, to\n"
       "NAME-snapshot-N.opgap, or FOLDER.  The job is neither stopped nor asked: one that hangs is copied, too.\n"
       "With OPGAP_KEEP the copy keeps what the job will soon forget.\n"
       "\n"
       "  -o, --out FOLDER  where to copy to: a folder that does not exist yet\n"
       "  --help            this text\n"
       "\n"
       "Exit status: 0 done; 2 wrong usage, unreadable trace, or the copy cannot be written; 4 copied, but bytes of\n"
       "the trace are damaged or missing");
}

/* Returns an exit code, or -1 to go on. */
static int parse(int argc, char **argv, void (*command_help)(void), const char **trace, const char **out)
{
  static const struct option options[] = {
      {"help", no_argument, NULL, 'h'}, {"out", required_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
  static const struct option only_help[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
  const char *command = argv[0];
  int code = opgap_options(command, argc, argv, out != NULL ? ":ho:" : ":h", out != NULL ? options : only_help,
                           command_help, opgap_take_text, out);
  if (code >= 0)
    return code;
  if (argc - optind > 1)
    return opgap_usage_error(command, "more than one trace given");
  *trace = argv[optind];
  return *trace == NULL ? opgap_usage_error(command, "no trace given") : -1;
}

static int run_command(int argc, char **argv, void (*command_help)(void), uint32_t on)
{
  struct job job = {.on = on};
  int code = parse(argc, argv, command_help, &job.trace, NULL);
  if (code < 0)
    code = run_switch(&job);
  free(job.pids);
  return code;
}

int opgap_cmd_start(int argc, char **argv)
{
  return run_command(argc, argv, help_start, 1);
}

int opgap_cmd_stop(int argc, char **argv)
{
  return run_command(argc, argv, help_stop, 0);
}

int opgap_cmd_snapshot(int argc, char **argv)
{
  const char *trace = NULL, *out = NULL;
  int code = parse(argc, argv, help_snapshot, &trace, &out);
  return code >= 0 ? code : snapshot(trace, out);
}
