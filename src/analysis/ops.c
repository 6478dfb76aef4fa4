/* Ops: self time, total time, blocked time and calls, from records in post-order.
 *
 * A record adopts what ended before it at larger depths.  So each level keeps sums of what has no parent yet; an op
 * at depth d takes the sums of the levels above d and leaves its own figures at d.  Memory: one struct a level.
 *
 * As torch.profiler does: an op that is the only child of an op of the same name is no row of its own. */
#include "analysis/internal.h"
#include "analysis/order.h"
#include "analysis/stacks.h"

#include <stdlib.h>
#include <string.h>

struct op_row *ops_row(struct analysis *a, unsigned process, enum opgap_op_kind kind, uint32_t name)
{
  uint32_t *index = opgap_map_put(&a->op_index, (uint64_t)process << 8 | (uint64_t)kind, name);
  if (*index == 0) {
    struct op_row *row = VEC_PUSH(&a->ops);
    row->process = process;
    row->kind = kind;
    row->name = name;
    *index = (uint32_t)a->ops.count;
  }
  return &a->ops.at[*index - 1];
}

uint32_t ops_row_of(struct analysis *a, unsigned process, bool range, struct name_cache *name)
{
  if (name->row[range] == 0)
    name->row[range] =
        (uint32_t)(ops_row(a, process, range ? OPGAP_OP_RANGE : OPGAP_OP_TORCH, name->gid - 1) - a->ops.at) + 1;
  return name->row[range];
}

void ops_place_add(struct op_places *places, uint32_t row, uint32_t text, uint64_t ns)
{
  uint32_t *index = opgap_map_put(&places->index, row, text);
  if (*index == 0) {
    struct op_place *place = VEC_PUSH(&places->rows);
    place->row = row;
    place->text = text;
    *index = (uint32_t)places->rows.count;
  }
  places->rows.at[*index - 1].ns += ns;
}

void ops_places_free(struct op_places *places)
{
  opgap_map_free(&places->index);
  VEC_FREE(&places->rows);
}

void ops_stacks_free(struct op_stacks *stacks)
{
  opgap_map_free(&stacks->index);
  VEC_FREE(&stacks->rows);
}

void ops_free(struct analysis *a)
{
  opgap_map_free(&a->op_index);
  VEC_FREE(&a->ops);
  ops_places_free(&a->op_places);
  ops_stacks_free(&a->op_stacks);
  opgap_stack_places_free(a->stack_places);
}

/* ---- recorded call stacks ---- */

/* A trace that is followed is analysed again and again: looking names up each time would cost more than it tells. */
struct opgap_stack_places *ops_stack_places(struct analysis *a)
{
  if (a->stack_places == NULL && a->options.from_ns == 0)
    a->stack_places = opgap_stack_places_new(a->source, a->pool);
  return a->stack_places;
}

void ops_module(struct analysis *a, const struct thread *t, const struct opgap_record *r)
{
  struct opgap_stack_places *places = ops_stack_places(a);
  if (places != NULL)
    opgap_stack_places_module(places, t->process, r);
}

void ops_stack_add(struct op_stacks *stacks, uint32_t row, uint64_t stack, uint64_t ns)
{
  uint32_t *index = opgap_map_put(&stacks->index, row, stack);
  if (*index == 0) {
    *VEC_PUSH(&stacks->rows) = (struct op_stack){.row = row, .stack = stack};
    *index = (uint32_t)stacks->rows.count;
  }
  stacks->rows.at[*index - 1].ns += ns;
}

static void add_faults(struct fault_count *sum, const uint64_t minor_major[2])
{
  sum->minor += minor_major[0];
  sum->major += minor_major[1];
}

/* Page faults follow the record of their op. */
void ops_faults(struct analysis *a, const struct thread *t, const struct opgap_record *r)
{
  struct fault_counts *faults = &a->processes[t->process].faults;
  if (a->steps_only || !analysis_in_window(a, r->end_ns))
    return;
  if (r->status == OPGAP_EV_THREAD_START) {
    add_faults(&faults->start, r->field);
  } else if (r->status == 0) {
    add_faults(&faults->other, r->field);
  } else if (t->last_row != 0) {
    struct op_row *row = &a->ops.at[t->last_row - 1];
    row->minor_faults += r->field[0];
    row->major_faults += r->field[1];
    add_faults(&faults->of_ops, r->field);
  }
}

void ops_process_faults(struct process *p, struct fault_count count, bool opens)
{
  struct fault_counts *faults = &p->faults;
  if (!opens && faults->known) {
    faults->all.minor += count.minor - faults->counted_from.minor;
    faults->all.major += count.major - faults->counted_from.major;
  }
  faults->known |= opens;
  faults->counted_from = count;
}

/* A stack follows the record of its op or hooked call.  What has the Python line of each call needs no stack. */
void ops_stack(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  const struct process *p = &a->processes[t->process];
  bool op = r->status == OPGAP_EV_OP || r->status == OPGAP_EV_RANGE;
  uint32_t row = op ? t->last_op : 0;
  if (!op && r->status < OPGAP_MAX_EVENTS && p->hooks[r->status].name != 0)
    row = (uint32_t)(ops_row(a, t->process, OPGAP_OP_CALL, p->hooks[r->status].name) - a->ops.at) + 1;
  if (row != 0 && analysis_in_window(a, r->end_ns) && ops_stack_places(a) != NULL)
    ops_stack_add(&a->op_stacks, row - 1, r->field[0], op ? t->last_op_self_ns : r->field[1]);
}

void ops_stacks_resolve(struct analysis *a, const struct op_stacks *stacks, struct op_places *places,
                        uint32_t (*process_of)(const struct analysis *a, uint32_t row))
{
  for (unsigned process = 0; process < a->process_count && stacks->rows.count > 0; process++)
    for (size_t i = 0; i < stacks->rows.count; i++) {
      const struct op_stack *stack = &stacks->rows.at[i];
      if (process_of(a, stack->row) != process || !a->processes[process].included)
        continue;
      const char *text = opgap_stack_place(a->stack_places, process, stack->stack);
      if (text[0] != '\0')
        ops_place_add(places, stack->row, analysis_string(a, text), stack->ns);
    }
}

static uint32_t process_of_row(const struct analysis *a, uint32_t row)
{
  return a->ops.at[row].process;
}

/* ---- ops ---- */

static void add_place(struct analysis *a, const struct thread *t, uint32_t row, const struct opgap_record *r,
                      uint64_t self_ns)
{
  ops_place_add(&a->op_places, row, analysis_gid(a, t->process, r->field[5]), self_ns);
}

/* What is inside an op. */
struct inside {
  uint64_t child_ns, blocked_ns;
  uint32_t children;
  const struct level *child; /* the only one directly inside; NULL: none, or several */
};

static void empty(struct level *l)
{
  l->child_ns = l->blocked_ns = 0;
  l->children = 0;
}

/* Ops that ended before this one began are not in it: the range around them ended on another thread.  Where only the
 * last one is inside, the others are left out as far as that is known. */
static void leave_orphans(struct level *l, uint64_t start)
{
  if (l->children == 0 || l->first_start >= start)
    return;
  if (l->last_end <= start) {
    empty(l);
    return;
  }
  l->child_ns = l->last_start >= start ? l->last_ns : 0;
  l->blocked_ns = l->last_start >= start ? l->last_blocked_ns : 0;
  l->children = l->last_start >= start;
}

/* Takes what is complete above a depth and has no parent yet, for an op that began at `start`.  Levels above the next
 * one have orphans only: their parent's record was lost. */
static struct inside take_levels(struct thread *t, unsigned depth, uint64_t start)
{
  struct inside sum = {0};
  for (unsigned d = depth + 1; d <= t->deepest; d++) {
    struct level *l = &t->levels[d];
    leave_orphans(l, start);
    if (d == depth + 1 && l->children == 1)
      sum.child = l;
    sum.child_ns += l->child_ns;
    sum.blocked_ns += l->blocked_ns;
    sum.children += l->children;
    empty(l);
  }
  if (sum.children != 1)
    sum.child = NULL;
  t->deepest = depth;
  return sum;
}

/* An only child of the same name shares its parent's row; what it added is in the parent's figures again. */
static void merge_only_child(struct op_row *row, const struct level *child)
{
  row->calls--;
  row->total_ns -= child->last_ns;
  row->blocked_ns -= child->last_blocked_ns;
  row->total_gpu_ns -= child->last_gpu_ns;
  row->allocs -= child->last_allocs;
  row->alloc_bytes -= child->last_alloc_bytes;
}

void ops_add_blocked(struct thread *t, unsigned depth, uint64_t ns)
{
  t->levels[depth].blocked_ns += ns;
  if (depth > t->deepest)
    t->deepest = depth;
}

/* Leaves an op's figures for its parent. */
static void leave(struct thread *t, const struct opgap_record *r, uint32_t row, uint64_t blocked_ns, uint64_t gpu_ns)
{
  struct level *own = &t->levels[r->depth];
  uint64_t ns = r->end_ns - r->start_ns;
  if (own->children == 0)
    own->first_start = r->start_ns;
  own->last_start = r->start_ns;
  own->last_end = r->end_ns;
  own->child_ns += ns;
  own->blocked_ns += blocked_ns;
  own->children++;
  own->last_child = row;
  own->last_ns = ns;
  own->last_blocked_ns = blocked_ns;
  own->last_gpu_ns = gpu_ns;
  own->last_allocs = r->field[2];
  own->last_alloc_bytes = r->field[3];
  if (r->depth > t->deepest)
    t->deepest = r->depth;
  if (r->depth == 0)
    t->op_ns += ns;
}

void ops_add(struct analysis *a, struct thread *t, uint32_t row_index, const struct opgap_record *r)
{
  uint64_t ns = r->end_ns - r->start_ns, self_gpu = 0, total_gpu = 0, self_ns = ns, blocked_ns = 0;
  const struct level *only_child = NULL;
  if (t->deepest > r->depth) { /* most ops hold nothing */
    struct inside inside = take_levels(t, r->depth, r->start_ns);
    only_child = inside.child;
    blocked_ns = inside.blocked_ns < ns ? inside.blocked_ns : ns;
    self_ns = ns > inside.child_ns ? ns - inside.child_ns : 0;
  }
  if (a->launches) {
    struct gpu_time gpu = gpu_op(a, t, r);
    self_gpu = gpu.self_ns;
    total_gpu = gpu.total_ns;
  }
  t->last_row = row_index;
  t->last_op = r->field[5] == 0 ? row_index : 0;
  t->last_op_self_ns = self_ns;
  if (a->flame != NULL)
    flame_op(a, t, r, r->event == OPGAP_EV_RANGE ? OPGAP_OP_RANGE : OPGAP_OP_TORCH, self_ns, self_gpu);
  bool in_window = analysis_in_window(a, r->end_ns);
  leave(t, r, in_window ? row_index : 0, blocked_ns, total_gpu);
  if (!in_window)
    return;
  struct op_row *row = &a->ops.at[row_index - 1];
  row->calls++;
  row->self_ns += self_ns;
  row->total_ns += ns;
  row->blocked_ns += blocked_ns;
  row->self_gpu_ns += self_gpu;
  row->total_gpu_ns += total_gpu;
  row->allocs += r->field[2];
  row->alloc_bytes += r->field[3];
  if (only_child != NULL && only_child->last_child == row_index)
    merge_only_child(row, only_child);
  if (r->field[5] != 0) /* recorded with stacks */
    add_place(a, t, row_index - 1, r, self_ns);
}

/* A range that does not nest: a row with its duration and the GPU time launched inside it, and no self time, because
 * what lies inside it is in the rows of its thread's ops. */
void ops_add_free(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  if (!analysis_in_window(a, r->end_ns))
    return;
  uint32_t row_index = ops_row_of(a, t->process, true, analysis_name(a, t->process, r->field[0]));
  struct op_row *row = &a->ops.at[row_index - 1];
  row->calls++;
  row->total_ns += r->end_ns - r->start_ns;
  row->total_gpu_ns += gpu_launched(a, t, r->start_ns, r->end_ns);
  if (r->field[5] != 0)
    add_place(a, t, row_index - 1, r, 0);
}

/* One summary row for each (role, kind, name) of the processes included. */
struct op_merge {
  struct opgap_map index;
  VEC(struct opgap_sum_op) rows;
  struct op_places places;
};

static struct opgap_sum_op *merged_row(struct analysis *a, struct op_merge *m, enum opgap_role role,
                                       enum opgap_op_kind kind, uint32_t name)
{
  uint32_t *index = opgap_map_put(&m->index, (uint64_t)role << 8 | (uint64_t)kind, name);
  if (*index == 0) {
    struct opgap_sum_op *added = VEC_PUSH(&m->rows);
    added->name = analysis_text(a, name);
    added->kind = kind;
    added->role = role;
    added->source_location = "";
    if (!a->summary->has_gpu)
      added->self_gpu_ns = added->total_gpu_ns = OPGAP_UNKNOWN;
    *index = (uint32_t)m->rows.count;
  }
  return &m->rows.at[*index - 1];
}

/* Hooked calls stand in the table of ops as well (calls_finish ran before). */
static void add_calls(struct analysis *a, struct op_merge *m)
{
  for (size_t i = 0; i < a->summary->call_count; i++) {
    const struct opgap_sum_call *call = &a->summary->calls[i];
    struct opgap_sum_op *row = merged_row(a, m, call->role, OPGAP_OP_CALL, analysis_string(a, call->name));
    *row = (struct opgap_sum_op){.name = call->name,
                                 .kind = OPGAP_OP_CALL,
                                 .role = call->role,
                                 .calls = call->calls,
                                 .self_cpu_ns = call->time_ns,
                                 .total_cpu_ns = call->time_ns,
                                 .blocked_ns = call->blocking ? call->time_ns : 0,
                                 .self_gpu_ns = a->summary->has_gpu ? 0 : OPGAP_UNKNOWN,
                                 .total_gpu_ns = a->summary->has_gpu ? 0 : OPGAP_UNKNOWN,
                                 .alloc_count = strcmp(call->category, "alloc") == 0 ? OPGAP_UNKNOWN : 0,
                                 .alloc_bytes = strcmp(call->category, "alloc") == 0 ? OPGAP_UNKNOWN : 0,
                                 .estimated = call->estimated,
                                 .source_location = ""};
  }
}

/* Self time by place of a row of the analysis goes to the row of the summary that it was merged into. */
static void merge_places(struct analysis *a, struct op_merge *m)
{
  for (size_t i = 0; i < a->op_places.rows.count; i++) {
    const struct op_place *place = &a->op_places.rows.at[i];
    const struct op_row *row = &a->ops.at[place->row];
    enum opgap_role role = a->processes[row->process].role;
    if ((row->calls > 0 || row->kind == OPGAP_OP_CALL) && a->processes[row->process].included)
      ops_place_add(&m->places, (uint32_t)(merged_row(a, m, role, row->kind, row->name) - m->rows.at), place->text,
                    place->ns);
  }
}

/* Gives each row the place with the most self time; of equal ones the first by name. */
static void choose_places(struct analysis *a, struct op_merge *m)
{
  uint64_t *most = opgap_xcalloc(m->rows.count, sizeof *most);
  for (size_t i = 0; i < m->places.rows.count; i++) {
    const struct op_place *place = &m->places.rows.at[i];
    struct opgap_sum_op *sum = &m->rows.at[place->row];
    const char *text = analysis_text(a, place->text);
    if (sum->source_locations++ == 0 || place->ns > most[place->row] ||
        (place->ns == most[place->row] && strcmp(text, sum->source_location) < 0)) {
      sum->source_location = text;
      most[place->row] = place->ns;
    }
  }
  free(most);
}

/* The process is counted as a whole where it is recorded, not where a window of steps begins and ends. */
static void finish_faults(struct analysis *a, const struct fault_counts *faults)
{
  struct opgap_summary *s = a->summary;
  s->other_minor_faults += faults->other.minor;
  s->other_major_faults += faults->other.major;
  s->start_minor_faults += faults->start.minor;
  s->start_major_faults += faults->start.major;
  if (a->window_start != 0 || a->window_end != UINT64_MAX)
    return;
  struct fault_count rows = {faults->of_ops.minor + faults->other.minor + faults->start.minor,
                             faults->of_ops.major + faults->other.major + faults->start.major};
  s->rest_minor_faults += faults->all.minor > rows.minor ? faults->all.minor - rows.minor : 0;
  s->rest_major_faults += faults->all.major > rows.major ? faults->all.major - rows.major : 0;
}

void ops_finish(struct analysis *a)
{
  struct op_merge m = {0};
  for (size_t i = 0; i < a->ops.count; i++) {
    const struct op_row *row = &a->ops.at[i];
    if (row->calls == 0 || !a->processes[row->process].included)
      continue;
    struct opgap_sum_op *sum = merged_row(a, &m, a->processes[row->process].role, row->kind, row->name);
    sum->calls += row->calls;
    sum->self_cpu_ns += row->self_ns;
    sum->total_cpu_ns += row->total_ns;
    sum->blocked_ns += row->blocked_ns;
    if (a->summary->has_gpu) {
      sum->self_gpu_ns += row->self_gpu_ns;
      sum->total_gpu_ns += row->total_gpu_ns;
    }
    sum->alloc_count += row->allocs;
    sum->alloc_bytes += row->alloc_bytes;
    sum->minor_faults += row->minor_faults;
    sum->major_faults += row->major_faults;
  }
  for (unsigned i = 0; i < a->process_count; i++)
    if (a->processes[i].included)
      finish_faults(a, &a->processes[i].faults);
  add_calls(a, &m);
  ops_stacks_resolve(a, &a->op_stacks, &a->op_places, process_of_row);
  merge_places(a, &m);
  choose_places(a, &m);
  order_rows(m.rows.at, m.rows.count, sizeof *m.rows.at, order_ops);
  a->summary->op_count = m.rows.count;
  a->summary->ops = opgap_pool_alloc(a->pool, m.rows.count * sizeof *m.rows.at);
  if (m.rows.count)
    memcpy(a->summary->ops, m.rows.at, m.rows.count * sizeof *m.rows.at);
  VEC_FREE(&m.rows);
  opgap_map_free(&m.index);
  ops_places_free(&m.places);
}
