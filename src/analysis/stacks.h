/* Where what took long was called from: the recorded stacks, summed by function, line, module or whole stack.
 *
 * Each STACK record counts its own time: of an op that is without the time of the stacks recorded inside it, so that
 * the rows' self times add up to the time that stacks cover.
 */
#ifndef OPGAP_ANALYSIS_STACKS_H
#define OPGAP_ANALYSIS_STACKS_H

#include "analysis/pool.h"
#include "analysis/source.h"

enum opgap_stack_by { OPGAP_BY_FUNCTION, OPGAP_BY_LINE, OPGAP_BY_MODULE, OPGAP_BY_STACK, OPGAP_BY_COUNT };
enum opgap_stack_by opgap_stack_by_parse(const char *name); /* OPGAP_BY_COUNT when unknown */
const char *opgap_stack_by_name(enum opgap_stack_by by);

struct opgap_stack_row {
  const char *text; /* by stack: functions from the outermost on, with ";" between, the recorded call last */
  uint64_t self_ns, total_ns, count, bytes; /* self: it is the innermost; bytes: of large allocations */
};

struct opgap_stack_table {
  size_t row_count;
  struct opgap_stack_row *rows;  /* by self time, then total time, then text */
  uint64_t ns, stacks, distinct; /* time and number of the stacks; different ones */
  uint64_t skipped, failed;      /* as told by processes that ended by themselves */
  uint64_t cost_ns;              /* of taking them, likewise */
  unsigned changed_modules;      /* files that are another build now: their functions have no names */
  struct opgap_pool *pool;       /* owns it all */
};

/* Name ids of the Python frames ("FILE:LINE FUNCTION") of a recorded stack, innermost first; returns their number. */
unsigned opgap_stack_python(const char *stack, size_t length, uint64_t *frames, unsigned room);
/* process: only the one with this pid; 0: all. */
struct opgap_stack_table *opgap_stack_table_read(const struct opgap_source *source, enum opgap_stack_by by,
                                                 int32_t process);
void opgap_stack_table_free(struct opgap_stack_table *table);

/* Calls visit once for each module that a recorded stack goes through; the texts live until it returns. */
void opgap_stack_modules(const struct opgap_source *source,
                         void (*visit)(void *context, const char *path, const char *build_id), void *context);

/* Source locations of single stacks, for the table of ops; "" for what is no stack.  "FILE:LINE FUNCTION" of the
 * innermost Python frame, else of the innermost one outside of the C runtime whose source is known; else
 * "FUNCTION (FILE)" of the innermost one with a name, or its address.  The texts belong to the pool.  A MODULE record
 * is given before a stack through that module is asked for. */
struct opgap_stack_places;
struct opgap_stack_places *opgap_stack_places_new(const struct opgap_source *source, struct opgap_pool *pool);
void opgap_stack_places_module(struct opgap_stack_places *places, unsigned process, const struct opgap_record *record);
const char *opgap_stack_place(struct opgap_stack_places *places, unsigned process, uint64_t stack);
void opgap_stack_places_free(struct opgap_stack_places *places);

#endif
