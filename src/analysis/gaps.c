/* Idle gaps: collects them as they end, explains them SETTLE_NS later, keeps sums and the longest.
 *
 * A wait of a multi-process DataLoader's __next__ is one gap from its first to its last blocking call, charged to
 * the thread that ended the last one: the writer that delivered the batch waited for. */
#include "analysis/internal.h"
#include "analysis/order.h"

#include <stdlib.h>
#include <string.h>

const char *opgap_cause_name(enum opgap_cause cause)
{
  static const char *const names[OPGAP_CAUSE_COUNT] = {"data loading",
                                                       "communication",
                                                       "synchronisation",
                                                       "lock",
                                                       "file I/O",
                                                       "allocation",
                                                       "GIL",
                                                       "framework ops",
                                                       "code between ops",
                                                       "device dependency or launch latency",
                                                       "run queue",
                                                       "cgroup throttling",
                                                       "blocked outside hooks",
                                                       "sleep",
                                                       "child process",
                                                       "start-up",
                                                       "unknown"};
  return names[cause];
}

/* CPython asks for the GIL by a timed wait of 5 ms on a condition variable, over and over. */
static void notice_gil(struct process *p, const struct hook *hook, const struct opgap_record *r)
{
  uint64_t ns = r->end_ns - r->start_ns;
  if (hook->verb != VERB_COND || r->status != TIMED_OUT || ns < 4900000 || ns > 6500000 || (p->ops == 0 && !p->python))
    return;
  for (unsigned i = 0; i < p->gil_count; i++)
    if (p->gil[i] == r->field[0])
      return;
  if (p->gil_count < sizeof p->gil / sizeof *p->gil)
    p->gil[p->gil_count++] = r->field[0];
}

void gaps_push(struct analysis *a, struct gap gap)
{
  if (a->pending.count >= PENDING_LIMIT)
    gaps_settle(a, a->pending.at[a->pending.count / 2].end);
  if (a->pending.count >= PENDING_LIMIT)
    gaps_settle(a, UINT64_MAX);
  *VEC_PUSH(&a->pending) = gap;
}

/* Collectives run as ops of their backend's threads: who waits for such an op waits for the network. */
static void name_communication(struct analysis *a, struct causes *causes)
{
  for (unsigned i = 0; i < causes->count; i++) {
    struct cause_key *key = &causes->at[i].key;
    if (key->cause == OPGAP_CAUSE_DISPATCH && key->doing == DOING_OP && analysis_name_flags(a, key->name) & NAME_COMM)
      key->cause = OPGAP_CAUSE_COMMUNICATION;
  }
}

/* A wait that is too short to be a gap is explained at once, by what is known when it ends. */
static void explain_short_wait(struct analysis *a, struct thread *t, const struct opgap_record *r)
{
  struct causes causes; /* large, and nothing of its rows is read before it is written */
  causes.count = causes.lock_depth = causes.file_lock = 0;
  causes.data_loading = false;
  blame_thread(a, t, t, r->start_ns, r->end_ns, &causes);
  name_communication(a, &causes);
  breakdown_wait(a, t->process, r->start_ns, &causes);
}

static void forget_inside(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end);

void gaps_call(struct analysis *a, struct thread *t, const struct hook *hook, const struct opgap_record *r,
               uint64_t inside_ns)
{
  struct process *p = &a->processes[t->process];
  uint64_t ns = r->end_ns - r->start_ns;
  notice_gil(p, hook, r);
  if (!t->watched)
    return;
  t->blocked_ns += ns - inside_ns;
  if (!analysis_in_window(a, r->end_ns))
    return;
  if (ns < a->options.thread_min_gap_ns) {
    explain_short_wait(a, t, r);
    return;
  }
  if (inside_ns > 0)
    forget_inside(a, t, r->start_ns, r->end_ns);
  struct gap gap = {.start = r->start_ns,
                    .end = r->end_ns,
                    .own = *RING_AT(&t->calls, t->calls.count - 1), /* timeline_call put it there */
                    .thread = (uint32_t)(t - a->threads),
                    .process = t->process,
                    .call = hook->name,
                    .event = r->event,
                    .depth = r->depth};
  gaps_push(a, gap);
}

/* Notes the pipes read in [start, end], a __next__.  Sockets count for nothing else: workers hand over descriptors of
 * shared memory through those. */
static struct next_calls mark_pipes(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  struct next_calls calls = {0};
  for (size_t i = timeline_calls_from(t, start); i < t->calls.count; i++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (call->start >= end)
      break;
    if (call->start < start)
      continue;
    uint8_t verb = a->processes[t->process].hooks[call->event].verb;
    if (call->reaped) {
      calls.reaped = true;
      continue;
    }
    if (verb == VERB_SEM || verb == VERB_COND)
      calls.reaped = false;
    if (verb != VERB_READ || !call->named || !(analysis_name_flags(a, (uint32_t)call->object) & NAME_PIPE))
      continue;
    *opgap_map_put(&a->next_pipes, call->object, t->process) = 1;
    if (analysis_name_flags(a, (uint32_t)call->object) & NAME_SOCKET)
      continue;
    calls.pipe = (uint32_t)call->object;
    calls.messages += call->message;
    calls.ends += call->no_more;
    calls.reaped = false; /* it only looked whether they live, as it does every 5 s */
  }
  if (calls.pipe != 0 && calls.messages == 0)
    calls.messages = 1;
  return calls;
}

/* The blocking calls of [start, end]: first and last, their longest, their sum. */
struct wait_span {
  uint64_t start, end, sum, longest;
  uint32_t call;
  uint16_t event;
};

static struct wait_span waits_inside(const struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  struct wait_span span = {0};
  for (size_t i = timeline_calls_from(t, start); i < t->calls.count; i++) {
    const struct past_call *call = RING_AT(&t->calls, i);
    const struct hook *hook = &a->processes[t->process].hooks[call->event];
    if (call->start >= end)
      break;
    if (call->start < start || !call->blocks)
      continue;
    uint64_t ns = call->end - call->start;
    if (span.start == 0)
      span.start = call->start;
    span.end = call->end;
    span.sum += ns;
    if (ns >= span.longest) {
      span.longest = ns;
      span.call = hook->name;
      span.event = call->event;
    }
  }
  return span;
}

/* ---- sums and the longest ---- */

/* Sums of data loading go without the names of ops: what counts there is whether it reads or computes. */
static struct cause_key sum_key(struct cause_key key)
{
  if (key.cause == OPGAP_CAUSE_DATA_LOADING && key.doing == DOING_OP)
    key.name = 0;
  return key;
}

/* sign -1: takes a row out again that was put in before. */
static void add_sum(struct gap_table *table, const struct cause_row *row, int sign)
{
  struct cause_key key = sum_key(row->key);
  if (table->rows.count >= CAUSE_LIMIT)
    key.name = key.file_lock = key.thread = 0;
  uint64_t packed = (uint64_t)key.cause << 56 | (uint64_t)key.doing << 48 | (key.thread & 0xffffff) << 24;
  uint32_t *index =
      opgap_map_put(&table->index, packed | (key.process & 0xffffff), (uint64_t)key.file_lock << 32 | key.name);
  if (*index == 0) {
    VEC_PUSH(&table->rows)->key = key;
    *index = (uint32_t)table->rows.count;
  }
  struct cause_row *sum = &table->rows.at[*index - 1];
  sum->ns += (uint64_t)sign * row->ns;
  if (sum->last_change == table->changes)
    return;
  sum->last_change = table->changes;
  if (sign > 0)
    sum->count++;
  else
    sum->count -= sum->count > 0;
}

static uint64_t length(const struct gap *gap)
{
  return gap->end - gap->start;
}

static void sift_down(struct gap *heap, size_t count, size_t i)
{
  for (;;) {
    size_t least = i, left = 2 * i + 1, right = left + 1;
    if (left < count && length(&heap[left]) < length(&heap[least]))
      least = left;
    if (right < count && length(&heap[right]) < length(&heap[least]))
      least = right;
    if (least == i)
      return;
    struct gap swap = heap[i];
    heap[i] = heap[least];
    heap[least] = swap;
    i = least;
  }
}

static void sift_up(struct gap *heap, size_t i)
{
  while (i > 0 && length(&heap[(i - 1) / 2]) > length(&heap[i])) {
    struct gap swap = heap[i];
    heap[i] = heap[(i - 1) / 2];
    heap[(i - 1) / 2] = swap;
    i = (i - 1) / 2;
  }
}

static void keep_longest(struct analysis *a, struct gap_table *table, struct gap *gap, const struct causes *causes)
{
  size_t limit = a->options.gaps_listed;
  if (table->longest.count >= limit && (limit == 0 || length(gap) <= length(&table->longest.at[0])))
    return;
  gap->cause_count = causes->count;
  gap->causes = opgap_xcalloc(causes->count, sizeof *gap->causes);
  memcpy(gap->causes, causes->at, causes->count * sizeof *gap->causes);
  if (table->longest.count < limit) {
    *VEC_PUSH(&table->longest) = *gap;
    sift_up(table->longest.at, table->longest.count - 1);
    return;
  }
  free(table->longest.at[0].causes);
  table->longest.at[0] = *gap;
  sift_down(table->longest.at, table->longest.count, 0);
}

void gaps_table_add(struct analysis *a, struct gap_table *table, struct gap *gap, const struct causes *causes)
{
  table->count++;
  table->changes++;
  table->ns += length(gap);
  for (unsigned i = 0; i < causes->count; i++)
    add_sum(table, &causes->at[i], 1);
  over_time_gap(a, table, gap->start, causes, 1);
  keep_longest(a, table, gap, causes);
}

void gaps_table_free(struct gap_table *table)
{
  for (size_t i = 0; i < table->longest.count; i++)
    free(table->longest.at[i].causes);
  VEC_FREE(&table->longest);
  VEC_FREE(&table->rows);
  free(table->over_time);
  opgap_map_free(&table->index);
}

/* ---- gaps that were explained before the __next__ or the call around them ended ----
 *
 * A __next__ of seconds holds several long calls, a call that signals interrupt those of their handlers, and gaps are
 * explained SETTLE_NS after their end.  So gaps are kept for a while, and taken out of the sums again when something
 * turns out to have been around them, or around what who was waited for did. */

static void remember(struct analysis *a, const struct gap *gap, const struct causes *causes)
{
  struct settled *s = &a->settled;
  if (gap->whole)
    return;
  if (s->at == NULL)
    s->at = opgap_xcalloc(SETTLED_LIMIT, sizeof *s->at);
  struct settled_gap *place = &s->at[s->next++ % SETTLED_LIMIT];
  place->gap = *gap;
  place->causes.count = causes->count;
  memcpy(place->causes.at, causes->at, causes->count * sizeof *causes->at);
}

static void take_back(const struct analysis *a, struct gap_table *table, const struct settled_gap *settled)
{
  const struct gap *gap = &settled->gap;
  table->count--;
  table->changes++;
  table->ns -= gap->end - gap->start;
  for (unsigned i = 0; i < settled->causes.count; i++)
    add_sum(table, &settled->causes.at[i], -1);
  over_time_gap(a, table, gap->start, &settled->causes, -1);
  for (size_t i = 0; i < table->longest.count; i++) {
    struct gap *kept = &table->longest.at[i];
    if (kept->start != gap->start || kept->end != gap->end)
      continue;
    free(kept->causes);
    *kept = table->longest.at[--table->longest.count];
    for (size_t k = table->longest.count / 2; k-- > 0;)
      sift_down(table->longest.at, table->longest.count, k);
    return;
  }
}

/* Takes the gaps of thread t in [start, end] back; again: they are to be explained once more, as data loading. */
static void take_back_inside(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end, bool again,
                             uint32_t name)
{
  struct settled *s = &a->settled;
  uint64_t count = s->next < SETTLED_LIMIT ? s->next : SETTLED_LIMIT;
  for (uint64_t i = 0; s->at != NULL && i < count; i++) {
    struct settled_gap *settled = &s->at[i];
    struct gap gap = settled->gap;
    if (gap.end == 0 || gap.thread != (uint32_t)(t - a->threads) || gap.start < start || gap.end > end)
      continue;
    take_back(a, &a->thread_gaps[gap.process], settled);
    breakdown_take_back(a, gap.process, gap.start, gap.end);
    settled->gap.end = 0;
    gap.data_loading = true;
    gap.op = name;
    if (again)
      gaps_push(a, gap);
  }
}

/* As what it is known to be when nothing is known of the call that it is in. */
static bool is_outside_calls(enum doing doing)
{
  return doing == DOING_CODE || doing == DOING_OP || doing == DOING_QUEUE || doing == DOING_THROTTLED ||
         doing == DOING_OUTSIDE || doing == DOING_FAULT;
}

static bool is_explained_by(const struct settled_gap *settled, const struct thread *t)
{
  for (unsigned i = 0; i < settled->causes.count; i++) {
    const struct cause_key *key = &settled->causes.at[i].key;
    if (key->process == (t->process == settled->gap.process ? UINT32_MAX : t->process) &&
        key->thread == (t->main ? 0 : t->namesake + 1) && is_outside_calls((enum doing)key->doing))
      return true;
  }
  return false;
}

void gaps_late_call(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  struct settled *s = &a->settled;
  if (end - start <= SETTLE_NS || s->at == NULL) /* known in time */
    return;
  for (unsigned i = 0; i < SETTLED_LIMIT; i++) {
    struct settled_gap *settled = &s->at[i];
    struct gap gap = settled->gap;
    if (gap.end == 0 || gap.thread == (uint32_t)(t - a->threads) || gap.start >= end || gap.end <= start ||
        !is_explained_by(settled, t))
      continue;
    take_back(a, &a->thread_gaps[gap.process], settled);
    breakdown_take_back(a, gap.process, gap.start, gap.end);
    settled->gap.end = 0;
    gaps_push(a, gap);
  }
}

/* One gap around them takes their place. */
static void forget_inside(struct analysis *a, const struct thread *t, uint64_t start, uint64_t end)
{
  size_t kept = 0;
  for (size_t i = 0; i < a->pending.count; i++) {
    const struct gap *gap = &a->pending.at[i];
    if (gap->gpu || gap->thread != (uint32_t)(t - a->threads) || gap->start < start)
      a->pending.at[kept++] = *gap;
  }
  a->pending.count = kept;
  take_back_inside(a, t, start, end, false, 0);
}

/* The gaps inside a __next__ that has just ended. */
void gaps_next(struct analysis *a, struct thread *t, const struct opgap_record *r, uint32_t name)
{
  uint32_t thread = (uint32_t)(t - a->threads);
  bool multi = analysis_name_flags(a, name) & NAME_MULTI;
  struct next_calls calls = mark_pipes(a, t, r->start_ns, r->end_ns);
  struct wait_span span = {0};
  if (multi && t->watched) {
    span = waits_inside(a, t, r->start_ns, r->end_ns);
    bool waited = span.sum >= a->options.thread_min_gap_ns;
    loader_fetch(a, t, r, calls, waited ? span.end - span.start : 0);
  }
  if (!t->watched || !analysis_in_window(a, r->end_ns))
    return;
  if (!multi) {
    for (size_t i = 0; i < a->pending.count; i++) {
      struct gap *gap = &a->pending.at[i];
      if (gap->gpu || gap->thread != thread || gap->start < r->start_ns)
        continue;
      gap->data_loading = true;
      gap->op = name;
    }
    take_back_inside(a, t, r->start_ns, r->end_ns, true, name);
    return;
  }
  forget_inside(a, t, r->start_ns, r->end_ns);
  if (span.sum < a->options.thread_min_gap_ns)
    return;
  struct gap gap = {.start = span.start,
                    .end = span.end,
                    .thread = thread,
                    .process = t->process,
                    .call = span.call,
                    .event = span.event,
                    .op = name,
                    .data_loading = true,
                    .whole = true};
  gaps_push(a, gap);
}

/* ---- explaining ---- */

/* The last call of [start, end] whose waker is known; false when there is none. */
static bool last_waker(struct analysis *a, const struct thread *t, const struct gap *gap, struct edge *edge)
{
  size_t i = timeline_calls_from(t, gap->end);
  for (; i-- > 0;) {
    const struct past_call *call = RING_AT(&t->calls, i);
    if (call->end <= gap->start)
      break;
    if (call->start >= gap->start && call->blocks && timeline_waker(a, t, call, edge))
      return true;
  }
  return false;
}

static void explain_next(struct analysis *a, struct thread *t, const struct gap *gap, struct causes *causes)
{
  struct edge edge;
  if (!last_waker(a, t, gap, &edge)) {
    blame_thread(a, t, t, gap->start, gap->end, causes);
    return;
  }
  uint64_t woken = edge.start < gap->start ? gap->start : edge.start > gap->end ? gap->end : edge.start;
  blame_thread(a, t, &a->threads[edge.thread], gap->start, woken, causes);
  blame_add(causes, (struct cause_key){.cause = OPGAP_CAUSE_DATA_LOADING, .doing = DOING_WAKING, .process = UINT32_MAX},
            gap->end - woken);
}

static uint32_t op_around(const struct thread *t, const struct gap *gap)
{
  size_t i = timeline_ops_from(t, gap->start);
  if (i < t->ops.count && RING_AT(&t->ops, i)->start <= gap->start && RING_AT(&t->ops, i)->end >= gap->end)
    return RING_AT(&t->ops, i)->name;
  return 0;
}

/* Time before the first op of a process that trains is start-up where nothing better is known. */
static void name_startup(const struct thread *t, const struct gap *gap, struct causes *causes)
{
  if (t->first_op_ns == 0 || gap->end > t->first_op_ns)
    return;
  for (unsigned i = 0; i < causes->count; i++)
    if (causes->at[i].key.cause == OPGAP_CAUSE_UNKNOWN)
      causes->at[i].key.cause = OPGAP_CAUSE_STARTUP;
}

static void explain_thread_gap(struct analysis *a, struct gap *gap)
{
  struct thread *t = &a->threads[gap->thread];
  struct causes causes = {.data_loading = gap->data_loading};
  if (gap->whole)
    explain_next(a, t, gap, &causes);
  else
    blame_call(a, t, &gap->own, &causes);
  if (gap->op == 0)
    gap->op = op_around(t, gap);
  name_startup(t, gap, &causes);
  name_communication(a, &causes);
  breakdown_wait(a, gap->process, gap->start, &causes);
  remember(a, gap, &causes);
  gaps_table_add(a, &a->thread_gaps[gap->process], gap, &causes);
}

void gaps_settle(struct analysis *a, uint64_t until)
{
  size_t kept = 0;
  for (size_t i = 0; i < a->pending.count; i++) {
    struct gap *gap = &a->pending.at[i];
    if (gap->end > until) {
      a->pending.at[kept++] = *gap;
      continue;
    }
    if (gap->gpu)
      gpu_explain(a, gap);
    else
      explain_thread_gap(a, gap);
  }
  a->pending.count = kept;
}

/* ---- into the summary ---- */

struct cause_list {
  struct opgap_map index;
  VEC(struct opgap_sum_cause) rows;
  struct opgap_strings texts;
};

static void list_add(struct cause_list *list, enum opgap_cause cause, const char *detail, uint64_t ns, uint64_t count)
{
  uint32_t text = opgap_strings_id(&list->texts, detail, strlen(detail));
  uint32_t *index = opgap_map_put(&list->index, (uint64_t)cause, text);
  if (*index == 0) {
    struct opgap_sum_cause *row = VEC_PUSH(&list->rows);
    row->cause = cause;
    row->detail = detail;
    *index = (uint32_t)list->rows.count;
  }
  list->rows.at[*index - 1].ns += ns;
  list->rows.at[*index - 1].count += count;
}

static struct opgap_sum_cause *list_take(struct analysis *a, struct cause_list *list, size_t *count)
{
  *count = list->rows.count;
  order_rows(list->rows.at, *count, sizeof *list->rows.at, order_causes);
  struct opgap_sum_cause *rows = opgap_pool_alloc(a->pool, *count * sizeof *rows);
  if (*count)
    memcpy(rows, list->rows.at, *count * sizeof *rows);
  VEC_FREE(&list->rows);
  opgap_map_free(&list->index);
  opgap_strings_free(&list->texts);
  return rows;
}

static void list_table(struct analysis *a, struct cause_list *list, const struct gap_table *table, uint32_t process)
{
  for (size_t i = 0; i < table->rows.count; i++) {
    const struct cause_row *row = &table->rows.at[i];
    if (row->ns == 0)
      continue; /* taken back */
    list_add(list, (enum opgap_cause)row->key.cause, blame_text(a, row, process), row->ns, row->count);
  }
}

/* Of one gap; `count` is that of the cause in all, while they are sorted. */
static int order_gap_causes(const void *left, const void *right)
{
  const struct opgap_sum_cause *l = left, *r = right;
  if (l->count != r->count)
    return l->count < r->count ? 1 : -1;
  return l->cause != r->cause ? (int)l->cause - (int)r->cause : order_causes(left, right);
}

/* The cause with the most time first, and of each its largest part.  Parts that read the same are one: two processes
 * may be called alike. */
static struct opgap_sum_cause *gap_causes(struct analysis *a, const struct gap *gap, size_t *count)
{
  struct cause_list list = {0};
  uint64_t sums[OPGAP_CAUSE_COUNT] = {0};
  opgap_strings_init(&list.texts, a->pool);
  for (unsigned i = 0; i < gap->cause_count; i++) {
    const struct cause_row *row = &gap->causes[i];
    list_add(&list, (enum opgap_cause)row->key.cause, blame_text(a, row, gap->process), row->ns, 0);
    sums[row->key.cause] += row->ns;
  }
  struct opgap_sum_cause *causes = list_take(a, &list, count);
  for (size_t i = 0; i < *count; i++)
    causes[i].count = sums[causes[i].cause];
  order_rows(causes, *count, sizeof *causes, order_gap_causes);
  for (size_t i = 0; i < *count; i++)
    causes[i].count = 1;
  return causes;
}

/* Gaps count where the work is: in trainers, or in every process that is no helper. */
static bool counts_gaps(enum opgap_role role, bool asked_for)
{
  return asked_for || role == OPGAP_ROLE_TRAINER || role == OPGAP_ROLE_PROGRAM;
}

bool gaps_of(const struct analysis *a, unsigned process)
{
  const struct process *p = &a->processes[process];
  if (!p->included)
    return false;
  return counts_gaps(p->role, a->options.process != NULL);
}

size_t opgap_gap_processes(const struct opgap_summary *s, uint64_t *lived_ns)
{
  size_t count = 0;
  *lived_ns = 0;
  for (size_t i = 0; i < s->process_count; i++) {
    const struct opgap_sum_process *p = &s->processes[i];
    if (!counts_gaps(p->role, s->process_filter[0] != 0))
      continue;
    count++;
    *lived_ns += p->end_ns > p->start_ns ? p->end_ns - p->start_ns : 0;
  }
  return count;
}

static void list_thread_gap(struct analysis *a, const struct gap *gap, struct opgap_sum_thread_gap *row)
{
  const struct thread *t = &a->threads[gap->thread];
  *row = (struct opgap_sum_thread_gap){.pid = a->processes[gap->process].info->pid,
                                       .tid = t->tid,
                                       .thread = analysis_text(a, t->name),
                                       .process = a->processes[gap->process].label,
                                       .start_ns = gap->start - a->start_ns,
                                       .duration_ns = length(gap),
                                       .call = analysis_text(a, gap->call),
                                       .op = analysis_text(a, gap->op)};
  row->causes = gap_causes(a, gap, &row->cause_count);
}

static void finish_gpu(struct analysis *a)
{
  struct opgap_sum_gaps *gaps = &a->summary->gaps;
  struct cause_list list = {0};
  size_t listed = 0;
  uint32_t id;
  opgap_strings_init(&list.texts, a->pool);
  for (size_t i = 0; i < gpu_device_count(a); i++)
    listed += gpu_gap_table(a, i, &id)->longest.count;
  gaps->gpus = opgap_pool_alloc(a->pool, listed * sizeof *gaps->gpus);
  for (size_t i = 0; i < gpu_device_count(a); i++) {
    const struct gap_table *table = gpu_gap_table(a, i, &id);
    gaps->gpu_count += table->count;
    gaps->gpu_ns += table->ns;
    list_table(a, &list, table, UINT32_MAX);
    for (size_t k = 0; k < table->longest.count; k++) {
      const struct gap *gap = &table->longest.at[k];
      struct opgap_sum_gpu_gap *row = &gaps->gpus[gaps->gpu_listed++];
      *row = (struct opgap_sum_gpu_gap){.device = id,
                                        .pid = a->processes[gap->process].info->pid,
                                        .start_ns = gap->start - a->start_ns,
                                        .duration_ns = length(gap),
                                        .previous = analysis_text(a, gap->previous),
                                        .next = analysis_text(a, gap->next),
                                        .op_before = analysis_text(a, gap->op_before),
                                        .op_after = analysis_text(a, gap->op)};
      row->causes = gap_causes(a, gap, &row->cause_count);
    }
  }
  order_rows(gaps->gpus, gaps->gpu_listed, sizeof *gaps->gpus, order_gpu_gaps);
  if (gaps->gpu_listed > a->options.gaps_listed)
    gaps->gpu_listed = a->options.gaps_listed;
  gaps->gpu_by_cause = list_take(a, &list, &gaps->gpu_cause_count);
}

static void finish_threads(struct analysis *a)
{
  struct opgap_sum_gaps *gaps = &a->summary->gaps;
  struct cause_list list = {0};
  size_t listed = 0;
  opgap_strings_init(&list.texts, a->pool);
  for (unsigned i = 0; i < a->process_count; i++)
    listed += gaps_of(a, i) ? a->thread_gaps[i].longest.count : 0;
  gaps->threads = opgap_pool_alloc(a->pool, listed * sizeof *gaps->threads);
  for (unsigned i = 0; i < a->process_count; i++) {
    const struct gap_table *table = &a->thread_gaps[i];
    if (!gaps_of(a, i))
      continue;
    gaps->thread_count += table->count;
    gaps->thread_ns += table->ns;
    list_table(a, &list, table, i);
    for (size_t k = 0; k < table->longest.count; k++)
      list_thread_gap(a, &table->longest.at[k], &gaps->threads[gaps->thread_listed++]);
  }
  order_rows(gaps->threads, gaps->thread_listed, sizeof *gaps->threads, order_thread_gaps);
  if (gaps->thread_listed > a->options.gaps_listed)
    gaps->thread_listed = a->options.gaps_listed;
  gaps->thread_by_cause = list_take(a, &list, &gaps->thread_cause_count);
}

static void add_file_times(struct file_times *times, const struct gap_table *table, bool others)
{
  for (size_t i = 0; i < table->rows.count; i++) {
    const struct cause_row *row = &table->rows.at[i];
    if (row->key.cause != OPGAP_CAUSE_FILE_IO || (others && !cause_of_others(&row->key)))
      continue;
    bool changes = row->key.doing == DOING_CHANGE;
    bool writes = row->key.doing == DOING_WRITE || row->key.doing == DOING_FSYNC || changes;
    times->changed += changes ? row->ns : 0;
    *(writes ? &times->written : row->key.doing == DOING_READ ? &times->read : &times->read_lookups) += row->ns;
  }
}

struct file_times gaps_files(const struct analysis *a, unsigned process, bool others)
{
  struct file_times times = {0}, all = files_times(a, FILES_ALL);
  for (unsigned i = 0; i < a->process_count; i++)
    if (process == UINT32_MAX ? a->processes[i].included : i == process)
      add_file_times(&times, &a->thread_gaps[i], others);
  if (all.write_lookups > all.read_lookups) {
    times.write_lookups = times.read_lookups;
    times.read_lookups = 0;
  }
  return times;
}

const char *gaps_detail(struct analysis *a, unsigned process, enum opgap_cause cause)
{
  const struct gap_table *table = &a->thread_gaps[process];
  const struct cause_row *most = NULL;
  for (size_t i = 0; i < table->rows.count; i++)
    if (table->rows.at[i].key.cause == cause && (most == NULL || table->rows.at[i].ns > most->ns))
      most = &table->rows.at[i];
  return most ? blame_text(a, most, process) : "";
}

void gaps_finish(struct analysis *a)
{
  a->summary->gaps.thread_min_ns = a->options.thread_min_gap_ns;
  a->summary->gaps.gpu_min_ns = a->options.gpu_min_gap_ns;
  finish_threads(a);
  finish_gpu(a);
}
