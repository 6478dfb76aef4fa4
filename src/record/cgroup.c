#include "record/cgroup.h"

#include <string.h>

#include "record/internal.h"
#include "record/raw.h"

#define STAT "cpu.stat"

/* Whether the comma-separated list [at, end) holds "cpu". */
static bool lists_cpu(const char *at, const char *end)
{
  while (at < end) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const char *stop = comma ? comma : end;
    if (stop - at == 3 && memcmp(at, "cpu", 3) == 0)
      return true;
    at = stop + 1;
  }
  return false;
}

/* Where the kernel shows the statistics of a line "ID:CONTROLLERS:PATH" of /proc/self/cgroup: by controller (version 1,
 * mounted under its name), or all in one (version 2, no controllers named).  False: not this line. */
static bool stat_file(const char *line, const char *end, char *path, size_t size)
{
  const char *list = memchr(line, ':', (size_t)(end - line));
  const char *group = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
  if (group == NULL || (size_t)(end - line) + 64 > size)
    return false;
  list++;
  bool unified = list == group;
  if (!unified && !lists_cpu(list, group))
    return false;
  struct opgap_text text = {path, path + size - 1};
  opgap_text_string(&text, "/sys/fs/cgroup/");
  for (const char *c = list; c < group; c++)
    *text.at++ = *c;
  for (const char *c = group + 1; c < end; c++)
    *text.at++ = *c;
  *text.at = '\0';
  opgap_text_string(&text, "/" STAT);
  return true;
}

static uint64_t value_of(const char *text, const char *key)
{
  size_t length = strlen(key);
  for (const char *line = text; line != NULL && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, key, length) != 0 || line[length] != ' ')
      continue;
    line += length;
    return opgap_take_number(&line);
  }
  return 0;
}

/* Another file of the group whose statistics stand in `stat`; its text, "" if there is none. */
static void slurp_beside(const char *stat, const char *name, char *text, size_t size)
{
  char path[1024];
  size_t folder = strlen(stat) - (sizeof STAT - 1);
  memcpy(path, stat, folder);
  path[folder] = '\0';
  struct opgap_text rest = {path + folder, path + sizeof path - 1};
  opgap_text_string(&rest, name);
  opgap_raw_slurp(path, text, size);
}

static uint64_t number_beside(const char *stat, const char *name)
{
  char text[32];
  const char *at = text;
  slurp_beside(stat, name, text, sizeof text);
  return opgap_take_number(&at);
}

/* In thousandths of a CPU; 0: none.  Version 2: "150000 100000", or "max 100000"; version 1 has a file for each, the
 * quota -1 for none. */
static uint64_t limit_beside(const char *stat)
{
  char text[64];
  const char *at = text;
  slurp_beside(stat, "cpu.max", text, sizeof text);
  uint64_t quota = opgap_take_number(&at); /* of "max" none is taken */
  at = strchr(text, ' ');
  uint64_t period = at ? opgap_take_number(&at) : 0;
  if (text[0] == '\0') {
    quota = number_beside(stat, "cpu.cfs_quota_us");
    period = number_beside(stat, "cpu.cfs_period_us");
  }
  return period ? quota * 1000 / period : 0;
}

bool opgap_cgroup_sample(uint64_t fields[4])
{
  static char path[1024]; /* found once: consumer only, and the same in a forked child */
  char text[2048];
  if (path[0] == '\0') {
    if (opgap_raw_slurp("/proc/self/cgroup", text, sizeof text) == 0)
      return false;
    for (const char *line = text; *line;) {
      const char *end = strchr(line, '\n');
      if (end == NULL)
        break;
      if (stat_file(line, end, path, sizeof path) && strncmp(line, "0::", 3) != 0)
        break; /* version 1 has the CPU controller */
      line = end + 1;
    }
  }
  if (path[0] == '\0' || opgap_raw_slurp(path, text, sizeof text) == 0)
    return false;
  fields[0] = value_of(text, "nr_periods");
  fields[1] = value_of(text, "nr_throttled");
  fields[2] = value_of(text, "throttled_time") + value_of(text, "throttled_usec") * 1000;
  if (fields[0] == 0)
    return false;
  fields[3] = limit_beside(path);
  return true;
}
