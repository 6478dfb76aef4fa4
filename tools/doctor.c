/* opgap doctor: can programs be traced on this machine, and what will be missing?
 *
 * Each line is checked for real: the tracer is preloaded into a program of our own and its trace is read back.
 */
#include "opgap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/reader.h"
#include "record/settings.h"

#define NAME "doctor"

enum verdict { GOOD, LIMITED, BROKEN };

static void line(enum verdict verdict, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool broken;

static void line(enum verdict verdict, const char *what, const char *format, ...)
{
  static const char *const marks[] = {"ok", "limited", "BROKEN"};
  va_list arguments;
  printf("%-8s %-10s ", marks[verdict], what);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  putchar('\n');
  broken |= verdict == BROKEN;
}

/* The next line of a file, or of a program's output; "" when there is none. */
static void first_line(FILE *file, char *text, size_t size)
{
  *text = '\0';
  if (file != NULL && fgets(text, (int)size, file) == NULL)
    *text = '\0';
  text[strcspn(text, "\n")] = '\0';
}

static void first_line_of(const char *path, char *text, size_t size)
{
  FILE *file = fopen(path, "re");
  first_line(file, text, size);
  if (file != NULL)
    fclose(file);
}

static void check_machine(void)
{
  struct utsname system;
  uname(&system);
  line(GOOD, "machine", "%s, Linux %s, glibc %s, %ld cores", system.machine, system.release, gnu_get_libc_version(),
       sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- tracing for real ---- */

static void remove_folder(const char *folder)
{
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
    unlinkat(dirfd(dir), entry->d_name, 0);
  if (dir != NULL)
    closedir(dir);
  rmdir(folder);
}

#define SECONDS_MOST 60u /* for a test program: importing PyTorch may take long */

/* Runs a program under the tracer with the trace in `folder`, with no setting but the trace's place; its output goes to
 * a pipe that the caller closes.  argv[0] is looked up in PATH.  Returns the pid, or -1. */
static pid_t start_traced(const char *tracer, const char *folder, char *const argv[], FILE **output)
{
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    char session[PATH_MAX];
    snprintf(session, sizeof session, "%s/", folder); /* the slash: begins at once, see session.c */
    for (unsigned i = 0; i < opgap_setting_count; i++)
      unsetenv(opgap_setting_table[i].env);
    setenv("LD_PRELOAD", tracer, 1);
    setenv("OPGAP_SESSION", session, 1);
    setenv("OPGAP_LOG", "quiet", 1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    alarm(SECONDS_MOST);
    execvp(argv[0], argv);
    _exit(127);
  }
  close(ends[1]);
  *output = child > 0 ? fdopen(ends[0], "r") : NULL;
  if (*output == NULL)
    close(ends[0]);
  return child;
}

static bool ended_well(pid_t child)
{
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void check_trace(const char *folder)
{
  char error[512];
  struct opgap_trace *trace = opgap_trace_open(folder, error, sizeof error);
  const struct opgap_process_info *process =
      trace != NULL && opgap_trace_process_count(trace) == 1 ? opgap_trace_process(trace, 0) : NULL;
  if (process == NULL)
    line(BROKEN, "preload", "the tracer did not start in a test program");
  else if (!process->complete || process->ended != OPGAP_ENDED_CLEAN)
    line(BROKEN, "preload", "the trace of a test program is not complete");
  else
    line(GOOD, "preload", "a test program was traced: %llu records", (unsigned long long)process->records);
  if (process != NULL) {
    const char *clock = opgap_trace_info(trace, 0, "clock");
    bool tsc = clock != NULL && strcmp(clock, "tsc") == 0;
    line(tsc ? GOOD : LIMITED, "clock",
         tsc ? "the processor's counter (TSC)"
             : "the system's: time stamps cost more than with a steady TSC, which this machine does not offer");
    line(process->kill_safe ? GOOD : LIMITED, "rings",
         process->kill_safe
             ? "outlive the program: what a killed one recorded is in its trace"
             : "lie in private memory: a killed program loses its newest records; give room in /dev/shm");
  }
  if (trace != NULL)
    opgap_trace_close(trace);
}

/* A program that the tracer can be preloaded into; this one may be linked statically. */
static const char *test_program(void)
{
  char *path = opgap_find_program("true");
  bool usable = path != NULL && opgap_why_untraceable(path) == NULL;
  free(path);
  return usable ? "true" : "/proc/self/exe";
}

static void check_preload(const char *tracer)
{
  char folder[] = "/tmp/opgap-doctor-XXXXXX";
  const char *program = test_program();
  char *const argv[] = {(char *)program, "--version", NULL};
  FILE *output = NULL;
  if (mkdtemp(folder) == NULL) {
    line(BROKEN, "preload", "cannot make a folder in /tmp");
    return;
  }
  pid_t child = start_traced(tracer, folder, argv, &output);
  if (output != NULL)
    while (fgetc(output) != EOF)
      ;
  if (ended_well(child))
    check_trace(folder);
  else
    line(BROKEN, "preload", "a test program (%s) did not run with the tracer preloaded", program);
  if (output != NULL)
    fclose(output);
  remove_folder(folder);
}

/* ---- PyTorch and CUPTI ---- */

/* What the traced Python prints, one line each; "" for what is missing. */
struct torch {
  char version[128], cuda[64], cupti[PATH_MAX];
};

static const char torch_script[] = "import glob, os, sys\n"
                                   "try:\n"
                                   "  import torch\n"
                                   "except ImportError:\n"
                                   "  sys.exit(1)\n"
                                   "torch.zeros(1).add(1)\n"
                                   "print(torch.__version__)\n"
                                   "print(torch.version.cuda or '')\n"
                                   "site = os.path.dirname(os.path.dirname(torch.__file__))\n"
                                   "found = glob.glob(site + '/nvidia/*/lib/libcupti.so*') + "
                                   "glob.glob(site + '/torch/lib/libcupti*.so*')\n"
                                   "print(found[0] if found else '')\n";

/* Ops in the trace of any process; notice: what the tracer said about ops that it cannot record, or "". */
static uint64_t traced_ops(const char *folder, char *notice, size_t size)
{
  char error[512];
  uint64_t ops = 0;
  struct opgap_trace *trace = opgap_trace_open(folder, error, sizeof error);
  *notice = '\0';
  for (unsigned p = 0; trace != NULL && p < opgap_trace_process_count(trace); p++)
    for (unsigned i = 0; i < opgap_trace_process(trace, p)->stream_count; i++) {
      struct opgap_cursor *cursor = opgap_cursor_open(trace, p, i);
      const struct opgap_record *record;
      while (cursor != NULL && (record = opgap_cursor_next(cursor)) != NULL) {
        ops += record->event == OPGAP_EV_OP;
        if (record->event == OPGAP_EV_PROBE)
          snprintf(notice, size, "%s", opgap_printable(opgap_trace_name(trace, p, record->field[0], NULL)));
      }
      opgap_cursor_close(cursor);
    }
  if (trace != NULL)
    opgap_trace_close(trace);
  return ops;
}

/* Imports PyTorch under the tracer, so that what is said about its ops is what would be recorded. */
static void check_torch(const char *tracer, struct torch *torch)
{
  char folder[] = "/tmp/opgap-doctor-XXXXXX", notice[512], script[sizeof torch_script];
  char *path = opgap_find_program("python3"), python[] = "python3"; /* by its name: a virtual environment is a link */
  FILE *output = NULL;
  memset(torch, 0, sizeof *torch);
  bool there = path != NULL;
  free(path);
  if (!there || mkdtemp(folder) == NULL) {
    line(LIMITED, "pytorch", "no python3 in PATH: programs are traced without framework ops");
    return;
  }
  strcpy(script, torch_script);
  char *const argv[] = {python, "-c", script, NULL};
  pid_t child = start_traced(tracer, folder, argv, &output);
  if (output != NULL) {
    first_line(output, torch->version, sizeof torch->version);
    first_line(output, torch->cuda, sizeof torch->cuda);
    first_line(output, torch->cupti, sizeof torch->cupti);
    fclose(output);
  }
  bool ran = ended_well(child);
  uint64_t ops = traced_ops(folder, notice, sizeof notice);
  if (!ran || *torch->version == '\0')
    line(LIMITED, "pytorch",
         "none in python3: no framework ops; run opgap doctor in the environment of the training, or: pip install "
         "torch");
  else if (ops > 0)
    line(GOOD, "pytorch", "%s in python3: its ops are recorded", opgap_printable(torch->version));
  else
    line(LIMITED, "pytorch", "%s in python3: its ops cannot be recorded (%s); all else is",
         opgap_printable(torch->version),
         *notice ? notice : "its layout is not known: PyTorch 1.12 or newer is needed");
  remove_folder(folder);
}

/* The first file that one of these patterns finds, to be freed; NULL: none. */
static char *find_file(const char *const patterns[])
{
  for (size_t i = 0; patterns[i] != NULL; i++) {
    glob_t found;
    char *path = glob(patterns[i], 0, NULL, &found) == 0 ? strdup(found.gl_pathv[0]) : NULL;
    globfree(&found);
    if (path != NULL)
      return path;
  }
  return NULL;
}

static void check_cupti(const struct torch *torch)
{
  static const char *const patterns[] = {
      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so*", "/usr/local/cuda-*/extras/CUPTI/lib64/libcupti.so*",
      "/usr/lib/*-linux-gnu/libcupti.so*", "/opt/cuda/extras/CUPTI/lib64/libcupti.so*", NULL};
  char home[PATH_MAX] = "";
  const char *cuda = getenv("CUDA_HOME");
  const char *const of_home[] = {home, NULL};
  if (cuda != NULL && *cuda != '\0')
    snprintf(home, sizeof home, "%s/extras/CUPTI/lib64/libcupti.so*", cuda);
  char *path = *torch->cupti ? strdup(torch->cupti) : *home ? find_file(of_home) : NULL;
  if (path == NULL)
    path = find_file(patterns);
  if (path != NULL)
    line(GOOD, "cupti", "%s%s", opgap_printable(path), *torch->cupti ? ", of PyTorch" : "");
  else
    line(LIMITED, "cupti",
         "not found: no kernels and copies will be in traces.  It comes with PyTorch built for CUDA%s, with "
         "pip install nvidia-cuda-cupti-cu12, or with the CUDA toolkit (set CUDA_HOME)",
         *torch->version && !*torch->cuda ? " (this one is not)" : "");
  free(path);
}

/* ---- what limits tracing ---- */

/* Why no ring can lie in /dev/shm, found by making a file there; NULL: one can, if the free bytes are enough. */
static const char *shm_refuses(unsigned long long *free_bytes)
{
  struct statfs shm;
  char path[] = "/dev/shm/opgap-doctor-XXXXXX";
  if (statfs("/dev/shm", &shm) != 0)
    return strerror(errno);
  if (shm.f_type != TMPFS_MAGIC)
    return "it is not a tmpfs";
  *free_bytes = (unsigned long long)shm.f_bavail * (unsigned long long)shm.f_bsize;
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0)
    return strerror(errno);
  int error = posix_fallocate(fd, 0, 1);
  unlink(path);
  close(fd);
  return error != 0 ? strerror(error) : NULL;
}

static void check_memory(void)
{
  unsigned long long free_bytes = 0;
  const char *refused = shm_refuses(&free_bytes);
  if (refused != NULL)
    line(LIMITED, "memory", "/dev/shm takes no files (%s): rings will lie in the trace folder", refused);
  else if (free_bytes / 4 >= OPGAP_BUFFER_MIN)
    line(GOOD, "memory", "/dev/shm has %llu MiB free: what a killed program recorded survives", free_bytes >> 20);
  else
    line(LIMITED, "memory", "/dev/shm has %llu KiB free: rings will lie in the trace folder", free_bytes >> 10);
}

static void check_folder(void)
{
  if (access(".", W_OK | X_OK) == 0)
    line(GOOD, "folder", "traces can be written here");
  else
    line(LIMITED, "folder", "traces cannot be written here: name a folder with --out");
}

/* Limits of this shell that cut traces or keep the tracer from starting. */
static void check_limits(void)
{
  struct rlimit file, space;
  bool fine = true;
  if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY) {
    fine = false;
    line(LIMITED, "limits", "files end at %llu KiB (ulimit -f): the trace of a process is cut there",
         (unsigned long long)file.rlim_cur >> 10);
  }
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    fine = false;
    line(LIMITED, "limits",
         "%llu MiB of address space (ulimit -v): the tracer takes a sixteenth of what is free, or nothing where that "
         "is too little",
         (unsigned long long)space.rlim_cur >> 20);
  }
  if (fine)
    line(GOOD, "limits", "none on the size of files or of memory");
}

static void check_rights(void)
{
  line(GOOD, "rights", "none needed: no ptrace, no perf_event, no capability");
}

static void check_gpu(void)
{
  char version[256];
  first_line_of("/proc/driver/nvidia/version", version, sizeof version);
  if (*version != '\0')
    line(GOOD, "gpu", "%s", opgap_printable(version));
  else
    line(LIMITED, "gpu", "no NVIDIA driver: no GPU activity will be in traces; it is there when nvidia-smi works");
}

static void check_preload_variable(void)
{
  const char *preload = getenv("LD_PRELOAD");
  if (preload != NULL && *preload != '\0')
    line(GOOD, "LD_PRELOAD", "%s (kept; the tracer goes in front of it)", opgap_printable(preload));
}

/* What a traced program left in the environment of one that outlived its trace, a terminal's perhaps. */
static void check_session(void)
{
  const char *session = getenv("OPGAP_SESSION");
  if (session != NULL && session[0] == '/' && access(session, F_OK) != 0)
    line(LIMITED, "session", "OPGAP_SESSION names %s, which is gone: LD_PRELOAD alone traces nothing, unset it",
         opgap_printable(session));
}

static void check_tracer(void)
{
  struct torch torch;
  char *tracer = opgap_tracer_path();
  if (tracer == NULL) {
    line(BROKEN, "tracer", "libopgap.so is neither beside this program nor in ../lib");
    return;
  }
  line(GOOD, "tracer", "%s, version %s", opgap_printable(tracer), OPGAP_VERSION);
  check_preload(tracer);
  check_torch(tracer, &torch);
  check_cupti(&torch);
  free(tracer);
}

/* ---- settings ---- */

static const char *from_environment(const char *name, void *ctx)
{
  (void)ctx;
  return getenv(name);
}

static void check_settings(void)
{
  extern char **environ;
  struct opgap_settings settings;
  char message[OPGAP_SETTING_MESSAGE_MAX];
  const char *unknown = opgap_settings_unknown(environ);
  if (opgap_settings_parse(&settings, from_environment, NULL, message, sizeof message) != 0)
    line(BROKEN, "settings", "%s", message);
  if (unknown != NULL)
    line(BROKEN, "settings", "unknown setting %s", opgap_printable(unknown));
}

static void print_settings(void)
{
  puts("\nsettings:");
  for (unsigned i = 0; i < opgap_setting_count; i++) {
    const struct opgap_setting *s = &opgap_setting_table[i];
    const char *value = getenv(s->env);
    bool set = value != NULL && *value != '\0';
    const char *shown = set ? value : *s->standard != '\0' ? s->standard : "-";
    printf("  %-15s %-10s %s\n", s->env, opgap_printable(shown), set ? "from the environment" : "default");
  }
}

int opgap_cmd_doctor(int argc, char **argv)
{
  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    puts("Usage: opgap doctor\n"
         "\n"
         "Checks whether programs can be traced on this machine, what will be missing, and how to get it: traces a "
         "test\n"
         "program and, where python3 has PyTorch, one op of it.\n"
         "\n"
         "Exit status: 0 they can, 2 they cannot");
    return OPGAP_EXIT_DONE;
  }
  if (argc > 1)
    return opgap_usage_error(NAME, "takes no arguments, got '%s'", argv[1]);
  check_machine();
  check_tracer();
  check_memory();
  check_folder();
  check_limits();
  check_rights();
  check_gpu();
  check_preload_variable();
  check_session();
  check_settings();
  print_settings();
  return broken ? OPGAP_EXIT_USAGE : OPGAP_EXIT_DONE;
}
