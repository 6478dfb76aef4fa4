/* Contended locks: every recorded wait for a mutex or rwlock, by object, or for the lock on a file, by path, and who
 * held it.  A lock in static data has the name of its symbol; one on the heap, where all allocations were recorded
 * (OPGAP_ALLOC=events), who made the block around it; and with stacks each has the place of most of its waits. */
#include "analysis/internal.h"
#include "analysis/order.h"
#include "analysis/symbols.h"

#include <stdlib.h>
#include <string.h>

/* Of the lock on a file in lock_index: no address. */
static uint64_t file_key(uint32_t path)
{
  return UINT64_C(1) << 63 | path;
}

/* object: the lock's address, path: of the file that it is on; one of the two is 0.  NULL: there are too many. */
static struct lock_row *row_of(struct analysis *a, unsigned process, uint64_t object, uint32_t path)
{
  uint64_t key = path ? file_key(path) : object;
  if (a->locks.count >= LOCK_LIMIT && opgap_map_get(&a->lock_index, key, process) == 0)
    return NULL;
  uint32_t *index = opgap_map_put(&a->lock_index, key, process);
  if (*index == 0) {
    struct lock_row *added = VEC_PUSH(&a->locks);
    added->process = process;
    added->object = object;
    added->path = path;
    if (path == 0 && a->processes[process].alloc_events)
      added->owner = live_hold(&a->processes[process].live, object, &added->block_bytes);
    *index = (uint32_t)a->locks.count;
  }
  return &a->locks.at[*index - 1];
}

/* Majority vote weighted by time: the holder kept at the end is the right one if one holder has most of the wait. */
static void vote(struct lock_row *row, uint32_t holder, uint64_t ns)
{
  if (row->holder == holder) {
    row->holder_ns += ns;
  } else if (row->holder_ns >= ns) {
    row->holder_ns -= ns;
  } else {
    row->holder = holder;
    row->holder_ns = ns - row->holder_ns;
  }
}

/* Who held the lock: the owner when the wait began, else who let it go (the timeline has just seen this wait). */
static uint32_t holder_of(struct analysis *a, const struct thread *t, const struct hook *hook,
                          const struct opgap_record *r)
{
  const struct past_call *last = t->calls.count ? RING_AT(&t->calls, t->calls.count - 1) : NULL;
  const struct thread *owner = hook->verb == VERB_MUTEX ? threads_of_tid(a, t->process, r->field[1]) : NULL;
  if (owner != NULL)
    return (uint32_t)(owner - a->threads) + 1;
  return last != NULL && last->end == r->end_ns && last->object == r->field[0] ? last->waker : 0;
}

/* holder: thread + 1; 0: not known */
static void add_wait(struct analysis *a, struct lock_row *row, const struct thread *t, uint64_t ns, uint32_t holder)
{
  row->ns += ns;
  uint32_t *seen = opgap_map_put(&a->lock_threads, (uint64_t)(row - a->locks.at), (uint32_t)(t - a->threads));
  if (*seen == 0) {
    *seen = 1;
    row->threads++;
  }
  if (holder != 0)
    vote(row, holder, ns);
}

void locks_add(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r)
{
  struct lock_row *row = row_of(a, t->process, r->field[0], 0);
  uint64_t ns = r->end_ns - r->start_ns;
  if (row == NULL)
    return;
  row->call = hook->name;
  row->waits++;
  row->longest = ns > row->longest ? ns : row->longest;
  add_wait(a, row, t, ns, holder_of(a, t, hook, r));
}

static uint32_t file_holder(const struct analysis *a, const struct thread *t, const struct past_call *call)
{
  struct tenure tenure;
  return timeline_file_holder(a, t, call, call->start, call->end, &tenure) ? tenure.thread + 1 : 0;
}

/* A call that finds the lock free is over at once; but its thread may lose its CPU in it, and a file server takes its
 * time. */
#define FREE_LOCK_NS 50000u

void locks_add_file(struct analysis *a, struct thread *t, const struct hook *hook)
{
  const struct past_call *call = RING_AT(&t->calls, t->calls.count - 1);
  uint64_t ns = call->end - call->start;
  uint32_t holder = call->file_lock && ns >= FREE_LOCK_NS ? file_holder(a, t, call) : 0;
  if (call->file_lock == 0 || (holder == 0 && ns < a->options.thread_min_gap_ns))
    return;
  struct lock_row *row = row_of(a, t->process, 0, call->file_lock);
  if (row == NULL)
    return;
  row->call = hook->name;
  row->waits++;
  row->longest = ns > row->longest ? ns : row->longest;
  add_wait(a, row, t, ns, holder);
}

void locks_add_pause(struct analysis *a, struct thread *t, const struct hook *hook, const struct past_call *pause,
                     bool more, uint64_t waited_ns)
{
  struct lock_row *row = row_of(a, t->process, 0, pause->file_lock);
  if (row == NULL)
    return;
  row->call = hook->name;
  row->waits += !more;
  row->longest = waited_ns > row->longest ? waited_ns : row->longest;
  add_wait(a, row, t, pause->end - pause->start, file_holder(a, t, pause));
}

void locks_stack(struct analysis *a, const struct thread *t, const struct opgap_record *r)
{
  const struct past_call *last = t->calls.count ? RING_AT(&t->calls, t->calls.count - 1) : NULL;
  if (last == NULL || last->event != r->status || !analysis_in_window(a, r->end_ns) || ops_stack_places(a) == NULL)
    return;
  unsigned verb = a->processes[t->process].hooks[last->event].verb;
  uint64_t key = last->file_lock                             ? file_key(last->file_lock)
                 : verb == VERB_MUTEX || verb == VERB_RWLOCK ? last->object
                                                             : 0;
  uint32_t index = key ? opgap_map_get(&a->lock_index, key, t->process) : 0;
  if (index != 0)
    ops_stack_add(&a->lock_stacks, index - 1, r->field[0], r->field[1]);
}

static const char *thread_text(struct analysis *a, uint32_t thread)
{
  const struct thread *t = &a->threads[thread];
  const char *name = analysis_text(a, t->name);
  return opgap_pool_printf(a->pool, "thread %d%s%s%s", t->tid, name[0] ? " (" : "", name, name[0] ? ")" : "");
}

/* Who has a lock on a file is often another process. */
static const char *holder_text(struct analysis *a, const struct lock_row *row)
{
  if (row->holder == 0)
    return "";
  const struct process *p = &a->processes[a->threads[row->holder - 1].process];
  const char *thread = thread_text(a, row->holder - 1);
  return p == &a->processes[row->process]
             ? thread
             : opgap_pool_printf(a->pool, "%s (pid %d), %s", p->label, p->info->pid, thread);
}

/* "96 bytes by thread 12 (loader) in aten::empty, train.py:10 main" */
static const char *block_text(struct analysis *a, const struct lock_row *row)
{
  if (row->owner == 0)
    return "";
  const struct live_owner *o = live_owner_of(&a->processes[row->process].live, row->owner - 1);
  const char *op = analysis_text(a, o->op), *place = analysis_text(a, o->place);
  return opgap_pool_printf(a->pool, "%llu bytes by %s%s%s%s%s", (unsigned long long)row->block_bytes,
                           thread_text(a, o->thread), op[0] ? " in " : "", op, place[0] ? ", " : "", place);
}

static uint32_t process_of_lock(const struct analysis *a, uint32_t row)
{
  return a->locks.at[row].process;
}

/* By lock the place where most of its waiting was, of equal ones the first by name; allocated. */
static const char **waited_at(struct analysis *a)
{
  struct op_places places = {0};
  const char **texts = opgap_xcalloc(a->locks.count, sizeof *texts);
  uint64_t *most = opgap_xcalloc(a->locks.count, sizeof *most);
  ops_stacks_resolve(a, &a->lock_stacks, &places, process_of_lock);
  for (size_t i = 0; i < places.rows.count; i++) {
    const struct op_place *place = &places.rows.at[i];
    const char *text = analysis_text(a, place->text), **known = &texts[place->row];
    if (*known == NULL || place->ns > most[place->row] || (place->ns == most[place->row] && strcmp(text, *known) < 0)) {
      *known = text;
      most[place->row] = place->ns;
    }
  }
  ops_places_free(&places);
  free(most);
  return texts;
}

void locks_module(struct analysis *a, unsigned process, const struct opgap_record *r)
{
  *VEC_PUSH(&a->processes[process].modules) = (struct mapped_module){.path = analysis_gid(a, process, r->field[0]),
                                                                     .build_id = analysis_gid(a, process, r->field[1]),
                                                                     .bias = r->field[2]};
}

/* The newest module first, as what was unloaded may have left its place to another. */
static const char *symbol_of(struct analysis *a, struct opgap_symbols *symbols, const struct lock_row *row)
{
  if (row->path != 0)
    return analysis_text(a, row->path);
  const struct process *p = &a->processes[row->process];
  for (size_t i = p->modules.count; i-- > 0;) {
    const struct mapped_module *m = &p->modules.at[i];
    if (m->bias > row->object)
      continue;
    const char *name =
        opgap_symbols_data(symbols, analysis_text(a, m->path), analysis_text(a, m->build_id), row->object - m->bias);
    if (name != NULL)
      return name;
  }
  return "";
}

void locks_finish(struct analysis *a)
{
  struct opgap_symbols *symbols = opgap_symbols_new(a->pool, a->source->path);
  struct opgap_summary *s = a->summary;
  const char **places = waited_at(a);
  s->locks = opgap_pool_alloc(a->pool, a->locks.count * sizeof *s->locks);
  for (size_t i = 0; i < a->locks.count; i++) {
    const struct lock_row *row = &a->locks.at[i];
    const struct process *p = &a->processes[row->process];
    if (!p->included)
      continue;
    s->locks[s->lock_count++] = (struct opgap_sum_lock){.pid = p->info->pid,
                                                        .call = analysis_text(a, row->call),
                                                        .object = row->object,
                                                        .symbol = symbol_of(a, symbols, row),
                                                        .waits = row->waits,
                                                        .wait_ns = row->ns,
                                                        .longest_ns = row->longest,
                                                        .threads = row->threads,
                                                        .held_by = holder_text(a, row),
                                                        .block = block_text(a, row),
                                                        .source_location = places[i] ? places[i] : ""};
  }
  free(places);
  opgap_symbols_free(symbols);
  order_rows(s->locks, s->lock_count, sizeof *s->locks, order_locks);
}

struct lock_use locks_file(struct analysis *a, bool workers)
{
  struct opgap_map by_path = {0};
  VEC(struct lock_row) files = {0};
  uint64_t all = 0;
  const struct lock_row *most = NULL;
  for (size_t i = 0; i < a->locks.count; i++) {
    const struct lock_row *row = &a->locks.at[i];
    const struct process *p = &a->processes[row->process];
    if (workers ? !p->included || p->role != OPGAP_ROLE_WORKER : row->process != steps_process(a))
      continue;
    all += row->ns;
    if (row->path == 0)
      continue;
    uint32_t *at = opgap_map_put(&by_path, row->path, 0);
    if (*at == 0) {
      *VEC_PUSH(&files) = (struct lock_row){.process = row->process, .path = row->path};
      *at = (uint32_t)files.count;
    }
    struct lock_row *file = &files.at[*at - 1];
    file->ns += row->ns;
    if (row->holder != 0)
      vote(file, row->holder, row->holder_ns);
  }
  for (size_t i = 0; i < files.count; i++)
    if (most == NULL || files.at[i].ns > most->ns)
      most = &files.at[i];
  struct lock_use use = {NULL, ""};
  if (most != NULL && 2 * most->ns >= all)
    use = (struct lock_use){analysis_text(a, most->path), holder_text(a, most)};
  opgap_map_free(&by_path);
  VEC_FREE(&files);
  return use;
}
