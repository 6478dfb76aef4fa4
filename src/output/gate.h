/* The gate's verdict as text, markdown, JSON, JUnit, GitHub annotations, and distributions of step times as SVG.
 *
 * Threads: one at a time.  Ownership: nothing is kept.  Errors of the stream are the caller's to see (ferror).
 * Names come from traces and may hold any bytes: each format escapes them its own way.
 */
#ifndef OPGAP_OUTPUT_GATE_H
#define OPGAP_OUTPUT_GATE_H

#include <stdbool.h>
#include <stdio.h>

#include "analysis/compare.h"

struct opgap_gate_output {
  const char *update; /* command that makes the present runs the new baseline */
  unsigned width;     /* columns of the terminal; 0: no limit */
  bool colour;
  bool all; /* metrics that were not judged as well */
};

/* One line: "REGRESSION: step +12.3 %, launches +1". */
void opgap_gate_headline(const struct opgap_comparison *c, char *text, size_t size);

void opgap_gate_text(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file);
void opgap_gate_markdown(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file);
/* docs/GATE.md.  false when out of memory. */
bool opgap_gate_json(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file);
/* One test case a judged metric; not comparable is an error, a regression a failure. */
void opgap_gate_junit(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file);
/* Workflow commands (::error title=...::...) for the log of a GitHub Actions step. */
void opgap_gate_github(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file);
/* Step times of both sides as two histograms over one axis. */
void opgap_gate_svg(const struct opgap_comparison *c, FILE *file);

/* Texts that the formats share. */
void opgap_change_text(char *text, size_t size, const struct opgap_change *change);   /* "+12.3%", "new", "-" */
void opgap_interval_text(char *text, size_t size, const struct opgap_change *change); /* "+8.1% .. +15.0%", "exact" */
bool opgap_change_is_shown(const struct opgap_change *change, bool all);
/* "op aten::mm 1.20ms -> 2.40ms, 80 % of it"; cleaned for text. */
void opgap_explanation_text(char *text, size_t size, const struct opgap_change *change,
                            const struct opgap_explanation *explanation);

#endif
