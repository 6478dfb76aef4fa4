/* Tables, views and queries of the database; docs/EXPORT.md describes them.
 *
 * Threads   constant data.
 */
#ifndef OPGAP_OUTPUT_EXPORT_SQLITE_SCHEMA_H
#define OPGAP_OUTPUT_EXPORT_SQLITE_SCHEMA_H

#include <stdbool.h>

extern const char sqlite_tables[]; /* before the spans are written */
extern const char sqlite_views[];  /* at the end */

/* One after the other, when the report's JSON is in its table: statements, or a table that is made from an array of
 * objects, whose keys are the columns. */
struct sqlite_filling {
  const char *sql; /* NULL: the rest counts */
  const char *table, *path, *columns;
  bool numbered; /* with the index in the array as "id" */
};
extern const struct sqlite_filling sqlite_from_report[]; /* ends with one of all 0 */

#endif
