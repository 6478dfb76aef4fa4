/* opgap doctor: can programs be traced on this machine, and what will be missing?
 *
 * Each line is checked for real: the tracer is preloaded into a program of our own and its trace is read back.
 */
#include "opgap.h"

#include <dirent.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
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

/* First line of a file, or of a command's output; "" when there is none. */
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

/* Runs this program's --version under the tracer, silently, with no setting but the trace's place. */
static bool run_traced(const char *tracer, const char *folder)
{
  int status = -1;
  char preload[PATH_MAX + 16], session[64];
  char *const environment[] = {preload, session, NULL};
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", tracer);
  snprintf(session, sizeof session, "OPGAP_SESSION=%s/", folder); /* the slash: begins at once, see session.c */
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDOUT_FILENO);
    execle("/proc/self/exe", "opgap", "--version", (char *)NULL, environment);
    _exit(127);
  }
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
  if (trace != NULL)
    opgap_trace_close(trace);
}

static void check_preload(void)
{
  char folder[] = "/tmp/opgap-doctor-XXXXXX";
  char *tracer = opgap_tracer_path();
  if (tracer == NULL) {
    line(BROKEN, "tracer", "libopgap.so is neither beside this program nor in ../lib");
    return;
  }
  line(GOOD, "tracer", "%s, version %s", opgap_printable(tracer), OPGAP_VERSION);
  if (mkdtemp(folder) == NULL) {
    line(BROKEN, "preload", "cannot make a folder in /tmp");
  } else {
    if (run_traced(tracer, folder))
      check_trace(folder);
    else
      line(BROKEN, "preload", "a test program did not run with the tracer preloaded");
    remove_folder(folder);
  }
  free(tracer);
}

/* ---- what limits tracing ---- */

static void check_memory(void)
{
  struct statvfs shm;
  unsigned long long free_bytes = statvfs("/dev/shm", &shm) == 0 ? (unsigned long long)shm.f_bavail * shm.f_bsize : 0;
  if (free_bytes / 4 >= OPGAP_BUFFER_MIN)
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

static void check_clock(void)
{
  char source[64];
  first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource", source, sizeof source);
  if (strcmp(source, "tsc") == 0 || strcmp(source, "arch_sys_counter") == 0)
    line(GOOD, "clock", "%s", source);
  else
    line(LIMITED, "clock", "%s: time stamps may cost more than with tsc",
         *source ? opgap_printable(source) : "unknown");
}

static void check_gpu(void)
{
  char version[256];
  first_line_of("/proc/driver/nvidia/version", version, sizeof version);
  if (*version != '\0')
    line(GOOD, "gpu", "%s", opgap_printable(version));
  else
    line(LIMITED, "gpu", "no NVIDIA driver: no GPU activity will be in traces");
}

static void check_torch(void)
{
  char version[128];
  FILE *python = popen("python3 -c 'import importlib.metadata as m; print(m.version(\"torch\"))' 2>/dev/null", "re");
  first_line(python, version, sizeof version);
  if (python != NULL)
    pclose(python);
  if (*version != '\0')
    line(GOOD, "pytorch", "%s in python3", opgap_printable(version));
  else
    line(LIMITED, "pytorch", "none in python3: programs are traced without framework ops");
}

static void check_preload_variable(void)
{
  const char *preload = getenv("LD_PRELOAD");
  if (preload != NULL && *preload != '\0')
    line(GOOD, "LD_PRELOAD", "%s (kept; the tracer goes behind it)", opgap_printable(preload));
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
         "Checks whether programs can be traced on this machine, and what will be missing.\n"
         "\n"
         "Exit status: 0 they can, 2 they cannot");
    return OPGAP_EXIT_DONE;
  }
  if (argc > 1)
    return opgap_usage_error(NAME, "takes no arguments, got '%s'", opgap_printable(argv[1]));
  check_machine();
  check_preload();
  check_memory();
  check_folder();
  check_clock();
  check_gpu();
  check_torch();
  check_preload_variable();
  check_settings();
  print_settings();
  return broken ? OPGAP_EXIT_USAGE : OPGAP_EXIT_DONE;
}
