/* The table of recorded stacks (opgap report --by), as text, markdown, CSV, JSON, or collapsed lines for flame graphs:
 * "outermost;...;innermost NANOSECONDS".
 *
 * Threads: one at a time.  Errors of the stream are the caller's to see (ferror). */
#ifndef OPGAP_OUTPUT_STACKS_H
#define OPGAP_OUTPUT_STACKS_H

#include <stdio.h>

#include "analysis/stacks.h"
#include "output/output.h"

enum opgap_stack_format {
  OPGAP_STACKS_TEXT,
  OPGAP_STACKS_MARKDOWN,
  OPGAP_STACKS_CSV,
  OPGAP_STACKS_JSON,
  OPGAP_STACKS_COLLAPSED
};

/* Collapsed lines make sense of whole stacks only. */
void opgap_output_stacks(const struct opgap_stack_table *table, enum opgap_stack_by by, enum opgap_stack_format format,
                         const struct opgap_output_options *options, FILE *file);

#endif
