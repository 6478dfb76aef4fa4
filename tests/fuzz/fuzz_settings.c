/* Fuzz target: an environment of settings.  Each malformed value leaves its default and is counted, the message is one
 * line, and what was taken is in its bounds.  Input: NUL-terminated "NAME=VALUE" strings. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "record/settings.h"

enum { MAX_ENTRIES = 64 };

static const char *look_up(const char *name, void *context)
{
  size_t length = strlen(name);
  for (char **entry = context; *entry; entry++)
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
      return *entry + length + 1;
  return NULL;
}

static void check_message(const char *message, size_t size)
{
  size_t length = strnlen(message, size);
  if (length == 0 || length == size || memchr(message, '\n', length))
    abort();
}

static void check_settings(const struct opgap_settings *s)
{
  if (s->buffer < OPGAP_BUFFER_MIN || memchr(s->out, 0, sizeof s->out) == NULL)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct opgap_settings settings, before;
  char *copy = malloc(size + 1), *entries[MAX_ENTRIES + 1], message[OPGAP_SETTING_MESSAGE_MAX];
  unsigned count = 0;
  if (copy == NULL)
    abort();
  memcpy(copy, data, size);
  copy[size] = 0;
  for (char *at = copy; at < copy + size && count < MAX_ENTRIES; at += strlen(at) + 1)
    entries[count++] = at;
  entries[count] = NULL;
  memset(message, 0, sizeof message);
  int bad = opgap_settings_parse(&settings, look_up, entries, message, sizeof message);
  check_settings(&settings);
  if (bad < 0 || bad > (int)opgap_setting_count)
    abort();
  if (bad > 0)
    check_message(message, sizeof message);
  opgap_settings_unknown(entries);
  for (unsigned i = 0; i < count; i++) { /* each alone, by the name that it was given */
    char *value = strchr(entries[i], '=');
    if (value == NULL)
      continue;
    *value++ = 0;
    before = settings;
    if (opgap_settings_set(&settings, entries[i], value, message, sizeof message) != 0) {
      check_message(message, sizeof message);
      if (memcmp(&before, &settings, sizeof before) != 0)
        abort();
    }
    check_settings(&settings);
  }
  free(copy);
  return 0;
}
