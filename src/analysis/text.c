#include "analysis/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/summary.h"

/* Length of the well-formed UTF-8 sequence at `at`, 0 if it is none. */
static unsigned utf8_length(const unsigned char *at)
{
  unsigned length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : (at[0] & 0xf0) == 0xe0        ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
  for (unsigned i = 1; i < length; i++)
    if ((at[i] & 0xc0) != 0x80)
      return 0;
  if (length == 3 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0)))
    return 0;
  if (length == 4 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90)))
    return 0;
  return length;
}

static uint32_t code_point(const unsigned char *at, unsigned length)
{
  uint32_t code = length == 1 ? at[0] : at[0] & (0x7fu >> length);
  for (unsigned i = 1; i < length; i++)
    code = code << 6 | (at[i] & 0x3f);
  return code;
}

/* What shows nothing of itself and changes how its neighbours are shown: controls (C0, DEL, C1), the format characters
 * of Unicode 15.1 (general category Cf: zero width, bidirectional, tags), and its line and paragraph separators. */
static bool is_unseen(uint32_t code)
{
  static const uint32_t ranges[][2] = {{0x0001, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x0600, 0x0605},
                                       {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},
                                       {0x08e2, 0x08e2},   {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
                                       {0x2060, 0x2064},   {0x2066, 0x206f},   {0xfeff, 0xfeff},   {0xfff9, 0xfffb},
                                       {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
                                       {0x1d173, 0x1d17a}, {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges && code >= ranges[i][0]; i++)
    if (code <= ranges[i][1])
      return true;
  return false;
}

char *text_clean(const char *bytes)
{
  size_t size = strlen(bytes);
  char *clean = opgap_xcalloc(size * 4 + 1, 1), *to = clean;
  for (const unsigned char *at = (const unsigned char *)bytes; *at;) {
    unsigned length = utf8_length(at);
    if (length == 0 || is_unseen(code_point(at, length))) {
      for (const unsigned char *end = at + (length ? length : 1); at < end;)
        to += sprintf(to, "\\x%02x", *at++);
      continue;
    }
    memcpy(to, at, length);
    to += length;
    at += length;
  }
  return clean;
}

void text_clean_line(char *text, size_t size)
{
  char *clean = text_clean(text);
  snprintf(text, size, "%s", clean);
  free(clean);
}

void text_program(char *text, size_t size, const char *command)
{
  size_t length = strcspn(command, " "), start = length;
  while (start > 0 && command[start - 1] != '/')
    start--;
  snprintf(text, size, "%.*s", (int)(length - start), command + start);
}

void text_script(char *text, size_t size, const char *command)
{
  text_program(text, size, command);
  if (strncmp(text, "python", 6) != 0)
    return;
  for (const char *word = command + strcspn(command, " "); *word == ' ';) {
    size_t length = strcspn(++word, " ");
    if (length == 2 && strncmp(word, "-c", 2) == 0) {
      snprintf(text, size, "-c");
      return;
    }
    if (length == 2 && strncmp(word, "-m", 2) == 0) {
      snprintf(text, size, "-m %.*s", (int)strcspn(word + 2 + (word[2] == ' '), " "), word + 2 + (word[2] == ' '));
      return;
    }
    bool takes_value = length == 2 && (word[1] == 'W' || word[1] == 'X');
    if (word[0] != '-' && length > 0) {
      text_program(text, size, word);
      return;
    }
    word += length;
    if (takes_value && *word == ' ')
      word += 1 + strcspn(word + 1, " ");
  }
}

bool text_is_spawned(const char *command)
{
  return strstr(command, " -c from multiprocessing.spawn import ") != NULL ||
         strstr(command, " -c from multiprocessing.forkserver import ") != NULL;
}

static bool is_worker(const char *command)
{
  size_t length = strlen(command), end = strlen(TEXT_SPAWNED);
  return text_is_spawned(command) || (length > end && strcmp(command + length - end, TEXT_SPAWNED) == 0);
}

bool text_same_command(const char *one, const char *other)
{
  if (text_is_spawned(one) || text_is_spawned(other))
    return is_worker(one) && is_worker(other);
  return strcmp(one, other) == 0;
}

void text_time(char *text, size_t size, uint64_t ns)
{
  double us = (double)ns / 1e3;
  if (ns == OPGAP_UNKNOWN)
    snprintf(text, size, "-");
  else if (us >= 1e6)
    snprintf(text, size, "%.3fs", us / 1e6);
  else if (us >= 1e3)
    snprintf(text, size, "%.3fms", us / 1e3);
  else
    snprintf(text, size, "%.3fus", us);
}

void text_bytes(char *text, size_t size, uint64_t bytes)
{
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  double value = (double)bytes;
  unsigned unit = 0;
  for (; value >= 1024 && unit < 5; unit++)
    value /= 1024;
  if (bytes == OPGAP_UNKNOWN)
    snprintf(text, size, "-");
  else if (unit == 0)
    snprintf(text, size, "%llu B", (unsigned long long)bytes);
  else
    snprintf(text, size, "%.2f %s", value, units[unit]);
}
