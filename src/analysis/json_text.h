/* Names of traced programs in JSON. */
#ifndef OPGAP_ANALYSIS_JSON_TEXT_H
#define OPGAP_ANALYSIS_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* Any bytes as a JSON string; bytes that are no UTF-8 as \xNN. */
json_t *opgap_json_text(const char *bytes);
json_t *opgap_json_texts(const char *const *texts, size_t count);

#endif
