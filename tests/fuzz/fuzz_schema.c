/* Fuzz target: a schema decodes into no more rows and text than there is room for, and every row of it is sound. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "format/recover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct opgap_event rows[OPGAP_MAX_EVENTS];
  if (size < 2)
    return 0;
  unsigned max = 1 + data[0] % OPGAP_MAX_EVENTS;
  size_t room = 1 + (size_t)data[1] * 16;
  char *text = malloc(room); /* so that a byte too many is a fault */
  if (text == NULL)
    abort();
  unsigned count = opgap_schema_decode(data + 2, size - 2, rows, max, text, room);
  if (count > max)
    abort();
  for (unsigned i = 0; i < count; i++) {
    const struct opgap_event *row = &rows[i];
    size_t length = strlen(row->name) + strlen(row->category) + strlen(row->status);
    for (unsigned f = 0; f < row->field_count; f++)
      length += strlen(row->fields[f].name);
    if (row->id == 0 || row->id >= OPGAP_MAX_EVENTS || row->field_count > OPGAP_MAX_FIELDS || length >= room)
      abort();
  }
  free(text);
  return 0;
}
