/* A trace as one page: summary, timeline and call tree in a single file that opens from disk and loads nothing.
 *
 * Safety    Everything that comes from a trace is inside one block of base64, so no name can end a tag or a string; the
 *           page shows names as text only.
 * Threads: one at a time.  Ownership: nothing is kept.  Errors of the stream are the caller's to see (ferror).
 */
#ifndef OPGAP_OUTPUT_HTML_H
#define OPGAP_OUTPUT_HTML_H

#include <stdio.h>

#include "analysis/levels.h"
#include "analysis/summary.h"

#define OPGAP_HTML_STEPS_LIMIT 20000u /* points of the chart of steps; of more, the slowest of each few is shown */

struct opgap_html {
  struct opgap_summary *summary; /* its steps are thinned out to OPGAP_HTML_STEPS_LIMIT */
  const struct opgap_levels *levels;
  size_t limit; /* rows of each table; 0: all */
};

/* Writes the page.  The windows of `levels` beside the whole run are shown as places to jump to. */
void opgap_output_html(const struct opgap_html *html, FILE *file);

/* Growing bytes: numbers as LEB128 varints, texts as length and printable UTF-8. */
struct opgap_html_bytes {
  unsigned char *at;
  size_t count, room;
};
void opgap_html_number(struct opgap_html_bytes *bytes, uint64_t value);
void opgap_html_append(struct opgap_html_bytes *bytes, const void *from, size_t count);
void opgap_html_text(struct opgap_html_bytes *bytes, const char *text);
/* encode.c: what the page's script reads in decode.js. */
void opgap_html_encode(const struct opgap_html *html, struct opgap_html_bytes *bytes);

#endif
