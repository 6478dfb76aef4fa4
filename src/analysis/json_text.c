#include "analysis/json_text.h"

#include <stdlib.h>

#include "analysis/text.h"

json_t *opgap_json_text(const char *bytes)
{
  json_t *plain = json_string(bytes);
  if (plain != NULL)
    return plain;
  char *clean = text_clean(bytes);
  plain = json_string(clean);
  free(clean);
  return plain;
}

json_t *opgap_json_texts(const char *const *texts, size_t count)
{
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(array, opgap_json_text(texts[i]));
  return array;
}
