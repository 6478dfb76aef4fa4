/* Workflow commands of GitHub Actions: ::error title=T::message, with %, CR and LF escaped as %25, %0D, %0A, in
 * properties also : and , (docs.github.com, "Workflow commands for GitHub Actions"). */
#include <stdlib.h>
#include <string.h>

#include "output/gate.h"
#include "output/table.h"

static void escape(const char *bytes, const char *also, FILE *file)
{
  char *clean = text_clean(bytes);
  for (const char *c = clean; *c; c++) {
    if (*c == '%' || *c == '\r' || *c == '\n' || strchr(also, *c) != NULL)
      fprintf(file, "%%%02X", (unsigned char)*c);
    else
      fputc(*c, file);
  }
  free(clean);
}

static void command(const char *level, const char *title, const char *message, FILE *file)
{
  fprintf(file, "::%s title=", level);
  escape(title, ":,", file);
  fputs("::", file);
  escape(message, "", file);
  fputc('\n', file);
}

static void print_change(const struct opgap_change *change, const char *level, FILE *file)
{
  char before[64], now[64], relative[64], interval[64], title[512], message[4096], because[1024];
  opgap_unit_text(before, sizeof before, change->unit, change->before);
  opgap_unit_text(now, sizeof now, change->unit, change->now);
  opgap_change_text(relative, sizeof relative, change);
  opgap_interval_text(interval, sizeof interval, change);
  snprintf(title, sizeof title, "opgap: %s %s", change->name, opgap_change_verdict_name(change->verdict));
  size_t at = (size_t)snprintf(message, sizeof message, "%s -> %s (%s, %s)%s%s", before, now, relative, interval,
                               change->reason[0] ? "; " : "", change->reason);
  for (size_t i = 0; i < change->explanation_count && at < sizeof message; i++) {
    opgap_explanation_text(because, sizeof because, change, &change->explanations[i]);
    at += (size_t)snprintf(message + at, sizeof message - at, "; %s", because);
  }
  command(level, title, message, file);
}

void opgap_gate_github(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file)
{
  static const char *const levels[OPGAP_VERDICT_COUNT] = {
      [OPGAP_IMPROVED] = "notice", [OPGAP_REGRESSED] = "error", [OPGAP_INCOMPARABLE] = "error"};
  for (size_t i = 0; i < c->reason_count; i++)
    command("error", "opgap: not comparable", c->reasons[i], file);
  for (size_t i = 0; i < c->note_count; i++)
    command("notice", "opgap", c->notes[i], file);
  for (size_t i = 0; i < c->change_count; i++)
    if (levels[c->changes[i].verdict] != NULL)
      print_change(&c->changes[i], levels[c->changes[i].verdict], file);
  if (c->verdict == OPGAP_IMPROVED && options->update != NULL)
    command("notice", "opgap: to keep the improvement", options->update, file);
  else if (c->verdict == OPGAP_SAME)
    command("notice", "opgap", "no regression", file);
}
