/* Tables, views and queries of the database; docs/EXPORT.md describes them.
 *
 * Threads   constant data.
 */
#ifndef OPGAP_OUTPUT_EXPORT_SQLITE_SCHEMA_H
#define OPGAP_OUTPUT_EXPORT_SQLITE_SCHEMA_H

extern const char sqlite_tables[];      /* before the spans are written */
extern const char sqlite_from_report[]; /* fills tables from the report's JSON, parameter :report */
extern const char sqlite_views[];       /* at the end */

#endif
