/* JUnit XML, in the form that Jenkins, GitLab and others read: testsuites > testsuite > testcase. */
#include <stdlib.h>

#include "output/gate.h"
#include "output/table.h"

static void escape(const char *bytes, FILE *file)
{
  char *clean = text_clean(bytes); /* no control bytes, valid UTF-8: XML allows no others */
  for (const char *c = clean; *c; c++) {
    switch (*c) {
    case '&':
      fputs("&amp;", file);
      break;
    case '<':
      fputs("&lt;", file);
      break;
    case '>':
      fputs("&gt;", file);
      break;
    case '"':
      fputs("&quot;", file);
      break;
    default:
      fputc(*c, file);
    }
  }
  free(clean);
}

static void print_figures(const struct opgap_change *change, FILE *file)
{
  char before[64], now[64], relative[64], interval[64], text[1024];
  opgap_unit_text(before, sizeof before, change->unit, change->before);
  opgap_unit_text(now, sizeof now, change->unit, change->now);
  opgap_change_text(relative, sizeof relative, change);
  opgap_interval_text(interval, sizeof interval, change);
  fprintf(file, "%s -&gt; %s (%s, %s)\n", before, now, relative, interval);
  for (size_t i = 0; i < change->explanation_count; i++) {
    opgap_explanation_text(text, sizeof text, change, &change->explanations[i]);
    escape(text, file);
    fputc('\n', file);
  }
}

static void print_case(const struct opgap_change *change, FILE *file)
{
  static const char *const elements[OPGAP_VERDICT_COUNT] = {
      [OPGAP_REGRESSED] = "failure", [OPGAP_INCOMPARABLE] = "error"};
  const char *element = elements[change->verdict] ? elements[change->verdict] : "system-out";
  fputs("  <testcase classname=\"opgap.gate\" name=\"", file);
  escape(change->name, file);
  fprintf(file, "\">\n   <%s", element);
  if (elements[change->verdict] != NULL) {
    fputs(" message=\"", file);
    escape(change->name, file);
    fprintf(file, " %s", opgap_change_verdict_name(change->verdict));
    if (change->reason[0]) {
      fputs(": ", file);
      escape(change->reason, file);
    }
    fputc('"', file);
  }
  fputc('>', file);
  print_figures(change, file);
  fprintf(file, "</%s>\n  </testcase>\n", element);
}

void opgap_gate_junit(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file)
{
  size_t tests = c->change_count == 0, failures = 0, errors = c->change_count == 0 && c->reason_count > 0;
  (void)options;
  for (size_t i = 0; i < c->change_count; i++) {
    tests += c->changes[i].verdict != OPGAP_NOT_JUDGED;
    failures += c->changes[i].verdict == OPGAP_REGRESSED;
    errors += c->changes[i].verdict == OPGAP_INCOMPARABLE;
  }
  fprintf(file,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n"
          " <testsuite name=\"opgap gate\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
          tests, failures, errors, tests, failures, errors);
  if (c->change_count == 0) {
    fputs("  <testcase classname=\"opgap.gate\" name=\"comparable\">\n   <error message=\"not comparable\">", file);
    for (size_t i = 0; i < c->reason_count; i++) {
      escape(c->reasons[i], file);
      fputc('\n', file);
    }
    fputs("</error>\n  </testcase>\n", file);
  }
  for (size_t i = 0; i < c->change_count; i++)
    if (c->changes[i].verdict != OPGAP_NOT_JUDGED)
      print_case(&c->changes[i], file);
  fputs(" </testsuite>\n</testsuites>\n", file);
}
