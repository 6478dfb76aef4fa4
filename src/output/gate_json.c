#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/json_text.h"
#include "output/gate.h"
#include "output/table.h"

#define PUT(object, key, value) json_object_set_new(object, key, value)

static json_t *real(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *explanations(const struct opgap_change *change)
{
  json_t *array = json_array();
  for (size_t i = 0; i < change->explanation_count; i++) {
    const struct opgap_explanation *e = &change->explanations[i];
    json_t *j = json_object();
    PUT(j, "kind", json_string(e->kind));
    PUT(j, "name", opgap_json_text(e->name));
    PUT(j, "baseline", real(e->before));
    PUT(j, "now", real(e->now));
    PUT(j, "share", real(e->share));
    json_array_append_new(array, j);
  }
  return array;
}

static json_t *change_json(const struct opgap_change *change)
{
  static const char *const units[] = {"ns", "bytes", "count", "share"};
  json_t *j = json_object();
  PUT(j, "metric", opgap_json_text(change->name));
  PUT(j, "unit", json_string(units[change->unit]));
  PUT(j, "per_step", json_boolean(change->per_step));
  PUT(j, "counter", json_boolean(change->counter));
  PUT(j, "exact", json_boolean(change->exact));
  PUT(j, "baseline", real(change->before));
  PUT(j, "now", real(change->now));
  PUT(j, "change", real(change->relative));
  PUT(j, "low", real(change->low));
  PUT(j, "high", real(change->high));
  PUT(j, "p", real(change->p));
  PUT(j, "relative_limit", real(change->relative_limit));
  PUT(j, "absolute_limit", real(change->absolute_limit));
  PUT(j, "verdict", json_string(opgap_change_verdict_name(change->verdict)));
  PUT(j, "reason", opgap_json_text(change->reason));
  PUT(j, "because", explanations(change));
  return j;
}

static json_t *side_json(const struct opgap_runs *runs)
{
  json_t *j = json_object();
  PUT(j, "label", opgap_json_text(runs->label));
  PUT(j, "command", opgap_json_text(runs->command));
  PUT(j, "step_source", opgap_json_text(runs->step_source));
  PUT(j, "runs", json_integer((json_int_t)runs->run_count));
  PUT(j, "steps", json_integer((json_int_t)runs->steps));
  return j;
}

bool opgap_gate_json(const struct opgap_comparison *c, const struct opgap_gate_output *options, FILE *file)
{
  json_t *root = json_object(), *changes = json_array();
  PUT(root, "schema", json_integer(1));
  PUT(root, "verdict", json_string(opgap_change_verdict_name(c->verdict)));
  PUT(root, "reasons", opgap_json_texts(c->reasons, c->reason_count));
  PUT(root, "notes", opgap_json_texts(c->notes, c->note_count));
  PUT(root, "baseline", side_json(c->before));
  PUT(root, "now", side_json(c->now));
  for (size_t i = 0; i < c->change_count; i++)
    json_array_append_new(changes, change_json(&c->changes[i]));
  PUT(root, "metrics", changes);
  PUT(root, "update", options->update ? opgap_json_text(options->update) : json_null());
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  json_decref(root);
  if (text == NULL)
    return false;
  fprintf(file, "%s\n", text);
  free(text);
  return true;
}
