/* Strings in hooks.  What hooks call of libc is looked up whenever the library is loaded, so they call as little as
 * they can. */
#ifndef OPGAP_HOOKS_TEXT_H
#define OPGAP_HOOKS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

static inline bool opgap_starts_with(const char *string, const char *prefix)
{
  while (*prefix && *string == *prefix)
    string++, prefix++;
  return *prefix == 0;
}

/* As strlen, for short strings. */
static inline size_t opgap_length(const char *string)
{
  size_t length = 0;
  while (string[length])
    length++;
  return length;
}

/* As strcspn. */
static inline size_t opgap_length_until(const char *string, const char *ends)
{
  size_t length = 0;
  for (; string[length]; length++)
    for (const char *end = ends; *end; end++)
      if (string[length] == *end)
        return length;
  return length;
}

/* Behind the last slash of string[length], or all of it. */
static inline const char *opgap_file_name(const char *string, size_t length)
{
  while (length > 0 && string[length - 1] != '/')
    length--;
  return string + length;
}

#endif
