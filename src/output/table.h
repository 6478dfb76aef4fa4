/* Tables of text: columns that fit a terminal, or markdown.
 *
 * A table owns its cells.  Columns are as wide as their widest cell; when the terminal is narrower, flexible columns
 * shrink first (their text is cut in the middle; not below 5/9 of their room), then columns are left out, those with
 * the highest `drop` first. */
#ifndef OPGAP_OUTPUT_TABLE_H
#define OPGAP_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/text.h"

#define TABLE_COLUMNS 20u

struct table_column {
  const char *title;
  bool left;     /* else numbers: to the right */
  unsigned room; /* flexible: widest it may be (0: not flexible) */
  unsigned drop; /* 0: never left out */
};

struct table {
  const struct table_column *columns;
  unsigned column_count;
  char **cells; /* rows x columns, row by row */
  size_t cell_count, room;
};

void table_begin(struct table *table, const struct table_column *columns, unsigned count);
/* One call for each cell, row by row. */
void table_cell(struct table *table, const char *text);
void table_known(struct table *table, const char *text); /* - when there is none */
void table_format(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_time(struct table *table, uint64_t ns, bool estimated); /* 12.345ms; - when unknown */
void table_average(struct table *table, uint64_t ns, uint64_t count, bool estimated);
void table_bytes(struct table *table, uint64_t bytes); /* 1.50 MB */
void table_count(struct table *table, uint64_t count);
void table_share(struct table *table, uint64_t part, uint64_t whole); /* 12.34% */
void table_bar(struct table *table, uint64_t part, uint64_t whole);   /* #### */
/* When all rows are there: leaves out those of the last `most` columns that have nothing but "-" from there on. */
void table_drop_unknown(struct table *table, unsigned most);
void table_print(const struct table *table, unsigned width, const char *indent, bool colour, FILE *file);
/* Ends with an empty line: what follows a table directly would be a row of it. */
void table_markdown(const struct table *table, FILE *file);
/* Any bytes as plain text of markdown, allocated: printable, and nothing in it means markup. */
char *table_markdown_text(const char *bytes);
void table_end(struct table *table);

#endif
