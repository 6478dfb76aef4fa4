#include "copy.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/stacks.h"
#include "analysis/symbols.h"
#include "format/trace_format.h"
#include "opgap.h"

/* One part of a process file. */
static bool copy_part(const struct opgap_trace *trace, unsigned process, const char *folder, const char *suffix,
                      int (*copy)(const struct opgap_trace *trace, unsigned process, int fd))
{
  const char *from = opgap_trace_process(trace, process)->path, *name = strrchr(from, '/');
  char *path;
  if (asprintf(&path, "%s/%s%s", folder, name != NULL ? name + 1 : from, suffix) < 0)
    return false;
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int result = fd >= 0 ? copy(trace, process, fd) : -1;
  int error = errno;
  if (fd >= 0 && close(fd) != 0 && result == 0) {
    result = -1;
    error = errno;
  }
  if (result != 0 && fd >= 0)
    unlink(path);
  free(path);
  errno = error;
  return result >= 0;
}

static bool copy_process(const struct opgap_trace *trace, unsigned process, const char *folder)
{
  return copy_part(trace, process, folder, OPGAP_OLDER_PART, opgap_trace_copy_older) &&
         copy_part(trace, process, folder, "", opgap_trace_copy);
}

bool opgap_copy_trace(const struct opgap_trace *trace, const char *folder, unsigned *running)
{
  *running = 0;
  signal(SIGXFSZ, SIG_IGN); /* a limit of size is an error of the write, not the program's end */
  for (unsigned i = 0; i < opgap_trace_process_count(trace); i++) {
    *running += opgap_trace_process(trace, i)->ended == OPGAP_ENDED_RUNNING;
    if (!copy_process(trace, i, folder))
      return false;
  }
  return true;
}

/* ---- modules ---- */

struct modules {
  const char *folder;
  struct opgap_pool *pool;
  struct opgap_symbols *symbols;
  struct opgap_copied *copied;
  int error; /* the first one */
};

/* 0 or an errno. */
static int copy_bytes(int from, int to)
{
  ssize_t n;
  while ((n = sendfile(to, from, NULL, 1u << 30)) > 0 || (n < 0 && errno == EINTR))
    ;
  return n < 0 ? errno : 0;
}

static int copy_file(const char *from, const char *to)
{
  int in = open(from, O_RDONLY | O_CLOEXEC);
  if (in < 0)
    return errno;
  int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), error = out < 0 ? errno : copy_bytes(in, out);
  close(in);
  if (out >= 0 && close(out) != 0 && error == 0)
    error = errno;
  return error == EEXIST ? 0 : error; /* one file may have several names */
}

static bool make_folder(struct modules *m, const char *path)
{
  if (mkdir(path, 0700) == 0 || errno == EEXIST)
    return true;
  m->error = errno;
  return false;
}

static void copy_module(void *context, const char *path, const char *build_id)
{
  struct modules *m = context;
  const char *file, *debug;
  if (m->error != 0 || path[0] != '/') /* the kernel's own has no file */
    return;
  if (strlen(build_id) < 3 || !opgap_symbols_files(m->symbols, path, build_id, &file, &debug)) {
    m->copied->left_out++;
    opgap_fail(0, "%s is left out: %s", path,
               strlen(build_id) < 3 ? "it has no build-id" : "it is not there any more, or is another build now");
    return;
  }
  const char *folder = opgap_pool_printf(m->pool, "%s/" OPGAP_ARCHIVE_FOLDER, m->folder);
  const char *inner = opgap_pool_printf(m->pool, "%s/%.2s", folder, build_id);
  const char *to = opgap_pool_printf(m->pool, "%s/%s", inner, build_id + 2);
  if (!make_folder(m, folder) || !make_folder(m, inner))
    return;
  m->error = copy_file(file, to);
  if (m->error == 0 && debug[0] != '\0')
    m->error = copy_file(debug, opgap_pool_printf(m->pool, "%s.debug", to));
  m->copied->modules++;
  m->copied->debug_files += debug[0] != '\0';
}

bool opgap_copy_modules(const struct opgap_source *source, const char *folder, struct opgap_copied *copied)
{
  struct opgap_pool *pool = opgap_pool_new();
  struct modules m = {folder, pool, opgap_symbols_new(pool, source->path), copied, 0};
  *copied = (struct opgap_copied){0};
  opgap_stack_modules(source, copy_module, &m);
  opgap_symbols_free(m.symbols);
  opgap_pool_free(pool);
  errno = m.error;
  return m.error == 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
  (void)info, (void)kind, (void)where;
  return remove(path);
}

void opgap_copy_remove(const char *folder)
{
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
