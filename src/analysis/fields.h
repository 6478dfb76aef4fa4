/* The fields of a summary as tables: one description serves writing, reading and merging.
 *
 * Threads   constant tables.  Not described, as it is only for pictures of one trace: use and causes over time,
 *           call trees.
 */
#ifndef OPGAP_ANALYSIS_FIELDS_H
#define OPGAP_ANALYSIS_FIELDS_H

#include <stddef.h>

enum field_type {
  FIELD_U64, /* OPGAP_UNKNOWN is null */
  FIELD_I64,
  FIELD_I32,
  FIELD_U32, /* also enums */
  FIELD_SIZE,
  FIELD_BOOL,
  FIELD_REAL,
  FIELD_TEXT,
  FIELD_STRUCT,  /* `table` inside the row */
  FIELD_ROWS,    /* pointer to rows of `table`; how many: the size_t at `count` */
  FIELD_NUMBERS, /* pointer to uint64_t; count likewise */
  FIELD_TEXTS,   /* pointer to const char *; count likewise */
};

enum field_rule {
  RULE_FIRST, /* the first part's; of texts the first that is not empty */
  RULE_KEY,   /* rows with equal keys are one row */
  RULE_SUM,
  RULE_MAX,
  RULE_MIN,
  RULE_AND,
  RULE_OR,
  RULE_TIME, /* as RULE_FIRST; counts from the start of its part */
  RULE_ALL,  /* rows and texts of all parts; texts each once */
};

struct field_table;
struct field {
  const char *name;
  enum field_type type;
  enum field_rule rule;
  size_t offset;
  size_t length; /* of an array inside the row; 1 otherwise */
  size_t count;  /* offset of the count */
  const struct field_table *table;
};
struct field_table {
  size_t size; /* of a row in bytes */
  size_t count;
  const struct field *fields;
};

extern const struct field_table opgap_summary_fields; /* struct opgap_summary */

#endif
