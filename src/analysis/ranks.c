/* Ranks side by side: who makes the others wait at collectives, and what it does meanwhile.
 *
 * The k-th collective of a name on one rank is the k-th of that name on the others, as every rank must call them in the
 * same order.  A rank arrives when its collective starts; the last arrival ends the wait of all.  Only collectives that
 * no rank can leave before all have come (all_reduce, all_gather, reduce_scatter, all_to_all, barrier) are matched; and
 * only if, after the clocks are put together, they overlap: else they belong to different groups of ranks.
 *
 * Clocks: hosts are on one clock within the error of their time of day (reader.c).  Collectives say more: none ends
 * before the last has come, so with d = clock of host B - clock of host A
 *     start on B - end on A  <=  d  <=  end on B - start on A       for each collective;
 * the tightest bounds of all collectives give d in the middle and the error as half of their distance.
 *
 * Why the last one is late is told by comparing where the ranks' own step time goes (breakdown.c): the part in which
 * the straggler exceeds the median of the others by most. */
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

#define COLLECTIVES_MOST 65536u /* kept of each rank; later ones are counted only */
#define COLLECTIVES_LEAST 5u    /* matched, for naming a straggler */

struct collective {
  uint64_t start, end;
  uint32_t name, ordinal; /* ordinal: set when all are known */
};

struct rank_state {
  VEC(struct collective) host, gpu; /* ops and calls of a backend; its kernels */
  uint64_t left_out;
};

struct ranks_state {
  struct rank_state *at; /* by process */
};

/* One rank while its row is made. */
struct rank {
  unsigned process, host; /* host: index of its clock */
  struct opgap_sum_rank *row;
  struct collective *list;
  size_t count;
  size_t next; /* in list */
  uint64_t
      from_ns; /* start of its first step after warm-up: ranks come to the first collectives when they have started */
  uint64_t parts[OPGAP_CLASS_COUNT + OPGAP_CAUSE_COUNT]; /* ns a step, see part_name */
};

struct clock_of_host {
  const char *boot_id;
  int64_t low, high, offset; /* bounds of (its clock - first host's clock) */
  bool bounded;
};

/* c10d:: ops only hand the work to the backend, whose own range or kernel is the collective. */
static bool is_synchronising(const char *name)
{
  if (strncmp(name, "c10d::", 6) == 0)
    return false;
  static const char *const words[] = {"all_reduce", "allreduce", "all_gather", "allgather",     "reduce_scatter",
                                      "all_to_all", "alltoall",  "barrier",    "reducescatter", "_allgather_base"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcasestr(name, words[i]) != NULL)
      return true;
  return false;
}

void ranks_collective(struct analysis *a, unsigned process, uint32_t name, bool gpu, uint64_t start, uint64_t end)
{
  if (a->steps_only || !analysis_in_window(a, end) || !is_synchronising(analysis_text(a, name)))
    return;
  if (a->ranks == NULL) {
    a->ranks = opgap_xcalloc(1, sizeof *a->ranks);
    a->ranks->at = opgap_xcalloc(a->process_count, sizeof *a->ranks->at);
  }
  struct rank_state *r = &a->ranks->at[process];
  if ((gpu ? r->gpu.count : r->host.count) >= COLLECTIVES_MOST) {
    r->left_out++;
    return;
  }
  struct collective *c = gpu ? VEC_PUSH(&r->gpu) : VEC_PUSH(&r->host);
  *c = (struct collective){start, end, name, 0};
}

void ranks_close(struct analysis *a)
{
  if (a->ranks == NULL)
    return;
  for (unsigned i = 0; i < a->process_count; i++) {
    VEC_FREE(&a->ranks->at[i].host);
    VEC_FREE(&a->ranks->at[i].gpu);
  }
  free(a->ranks->at);
  free(a->ranks);
}

/* ---- the ranks of a trace ---- */

static int by_name_and_start(const void *left, const void *right)
{
  const struct collective *l = left, *r = right;
  if (l->name != r->name)
    return l->name < r->name ? -1 : 1;
  return l->start < r->start ? -1 : l->start > r->start;
}

static int by_rank(const void *left, const void *right)
{
  const struct rank *l = left, *r = right;
  if (l->row->rank != r->row->rank)
    return l->row->rank < r->row->rank ? -1 : 1;
  return l->row->pid < r->row->pid ? -1 : l->row->pid > r->row->pid;
}

/* A process that communicates, or trains with a rank. */
static bool is_rank(const struct analysis *a, unsigned process)
{
  const struct process *p = &a->processes[process];
  if (!p->included || p->role == OPGAP_ROLE_WORKER)
    return false;
  bool talks = a->ranks != NULL && a->ranks->at[process].host.count + a->ranks->at[process].gpu.count > 0;
  return talks || (p->info->rank >= 0 && p->role == OPGAP_ROLE_TRAINER);
}

static void number_collectives(struct rank *rank)
{
  if (rank->count > 0)
    qsort(rank->list, rank->count, sizeof *rank->list, by_name_and_start);
  for (size_t i = 1; i < rank->count; i++)
    rank->list[i].ordinal = rank->list[i].name == rank->list[i - 1].name ? rank->list[i - 1].ordinal + 1 : 0;
}

static void fill_row(struct analysis *a, struct rank *rank)
{
  const struct process *p = &a->processes[rank->process];
  struct opgap_sum_rank *row = rank->row;
  uint64_t classes[OPGAP_CLASS_COUNT] = {0}, waits[OPGAP_CAUSE_COUNT] = {0};
  struct opgap_sum_steps steps = {0};
  *row = (struct opgap_sum_rank){
      .rank = p->info->rank, .pid = p->info->pid, .host = opgap_pool_string(a->pool, p->info->host)};
  steps_list(a, steps_source(p) == STEPS_SOURCES ? UINT32_MAX : rank->process, &steps);
  row->steps = steps.count - steps.skipped;
  row->step_median_ns = steps.median_ns;
  row->step_p95_ns = steps.p95_ns;
  rank->from_ns = row->steps > 0 ? a->start_ns + steps.start_ns[steps.skipped] : 0;
  row->data_wait_ns = row->communication_ns = OPGAP_UNKNOWN;
  size_t summed = breakdown_sums(a, rank->process, steps.skipped, classes, waits);
  if (summed == 0)
    return;
  row->data_wait_ns = classes[OPGAP_CLASS_DATALOADER] / summed;
  row->communication_ns = classes[OPGAP_CLASS_COMMUNICATION] / summed;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    rank->parts[OPGAP_CLASS_COUNT + c] = waits[c] / summed;
    classes[OPGAP_CLASS_OTHER] -= waits[c]; /* the program's own code remains */
  }
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    rank->parts[c] = classes[c] / summed;
  rank->parts[OPGAP_CLASS_COMMUNICATION] = 0; /* the effect, not the cause */
  rank->parts[OPGAP_CLASS_COUNT + OPGAP_CAUSE_COMMUNICATION] = 0;
}

static size_t find_ranks(struct analysis *a, struct rank *ranks, struct opgap_sum_rank *rows)
{
  size_t count = 0;
  for (unsigned i = 0; i < a->process_count; i++) {
    if (!is_rank(a, i))
      continue;
    struct rank *rank = &ranks[count];
    *rank = (struct rank){.process = i, .row = &rows[count]};
    if (a->ranks != NULL) {
      struct rank_state *r = &a->ranks->at[i];
      bool gpu = r->gpu.count > 0;
      rank->list = gpu ? r->gpu.at : r->host.at;
      rank->count = gpu ? r->gpu.count : r->host.count;
    }
    fill_row(a, rank);
    number_collectives(rank);
    count++;
  }
  return count;
}

/* ---- matching ---- */

/* Calls visit for each collective that every rank has: at[r] is rank r's.  Returns how many were not everywhere. */
static uint64_t match(struct rank *ranks, size_t count, void *context,
                      void (*visit)(void *context, struct rank *ranks, size_t count, const struct collective **at))
{
  const struct collective **at = opgap_xcalloc(count, sizeof *at);
  uint64_t alone = 0;
  for (size_t r = 0; r < count; r++)
    ranks[r].next = 0;
  for (;;) {
    const struct collective *least = NULL;
    for (size_t r = 0; r < count; r++) {
      const struct collective *c = ranks[r].next < ranks[r].count ? &ranks[r].list[ranks[r].next] : NULL;
      if (c != NULL &&
          (least == NULL || c->name < least->name || (c->name == least->name && c->ordinal < least->ordinal)))
        least = c;
    }
    if (least == NULL)
      break;
    size_t have = 0;
    for (size_t r = 0; r < count; r++) {
      const struct collective *c = ranks[r].next < ranks[r].count ? &ranks[r].list[ranks[r].next] : NULL;
      bool same = c != NULL && c->name == least->name && c->ordinal == least->ordinal;
      at[r] = same ? c : NULL;
      have += same;
      ranks[r].next += same;
    }
    if (have == count)
      visit(context, ranks, count, at);
    else
      alone++;
  }
  free(at);
  return alone;
}

struct clocks {
  struct clock_of_host *at;
  size_t count;
};

static void assign_hosts(struct analysis *a, struct rank *ranks, size_t count, struct clocks *clocks)
{
  clocks->at = opgap_xcalloc(count, sizeof *clocks->at);
  for (size_t r = 0; r < count; r++) {
    const char *boot_id = a->processes[ranks[r].process].info->boot_id;
    size_t h = 0;
    while (h < clocks->count && strcmp(clocks->at[h].boot_id, boot_id) != 0)
      h++;
    if (h == clocks->count)
      clocks->at[clocks->count++] = (struct clock_of_host){boot_id, INT64_MIN, INT64_MAX, 0, false};
    ranks[r].host = (unsigned)h;
  }
}

/* The last arrival and the first departure of each host bound the differences of clocks. */
static void bound_clocks(void *context, struct rank *ranks, size_t count, const struct collective **at)
{
  struct clocks *clocks = context;
  uint64_t first_last_start = 0, first_first_end = UINT64_MAX;
  for (size_t r = 0; r < count; r++)
    if (ranks[r].host == 0) {
      first_last_start = at[r]->start > first_last_start ? at[r]->start : first_last_start;
      first_first_end = at[r]->end < first_first_end ? at[r]->end : first_first_end;
    }
  for (size_t r = 0; r < count; r++) {
    struct clock_of_host *clock = &clocks->at[ranks[r].host];
    int64_t low = (int64_t)(at[r]->start - first_first_end), high = (int64_t)(at[r]->end - first_last_start);
    clock->low = low > clock->low ? low : clock->low;
    clock->high = high < clock->high ? high : clock->high;
    clock->bounded = true;
  }
}

static void settle_clocks(struct clocks *clocks, struct rank *ranks, size_t count)
{
  for (size_t h = 1; h < clocks->count; h++)
    if (clocks->at[h].bounded)
      clocks->at[h].offset = clocks->at[h].low + (clocks->at[h].high - clocks->at[h].low) / 2;
  for (size_t r = 0; r < count; r++) {
    const struct clock_of_host *clock = &clocks->at[ranks[r].host];
    bool first = ranks[r].host == 0;
    int64_t width = clock->high - clock->low;
    ranks[r].row->clock_offset_ns = clock->offset;
    ranks[r].row->clock_error_ns = first             ? 0
                                   : !clock->bounded ? OPGAP_UNKNOWN
                                                     : (uint64_t)(width < 0 ? -width : width) / 2;
  }
}

struct waits {
  struct clocks *clocks;
  struct opgap_sum_ranks *sum;
};

static void sum_waits(void *context, struct rank *ranks, size_t count, const struct collective **at)
{
  struct waits *w = context;
  int64_t last = INT64_MIN, first_end = INT64_MAX, error = 0;
  size_t late = 0;
  for (size_t r = 0; r < count; r++)
    if (at[r]->start < ranks[r].from_ns)
      return;
  for (size_t r = 0; r < count; r++) {
    int64_t offset = w->clocks->at[ranks[r].host].offset;
    int64_t start = (int64_t)at[r]->start - offset, end = (int64_t)at[r]->end - offset;
    int64_t own_error = (int64_t)ranks[r].row->clock_error_ns;
    error = own_error > error ? own_error : error;
    if (start > last) {
      last = start;
      late = r;
    }
    first_end = end < first_end ? end : first_end;
  }
  if (last > first_end + 2 * error) {
    w->sum->unmatched++;
    return;
  }
  w->sum->collectives++;
  ranks[late].row->last++;
  for (size_t r = 0; r < count; r++) {
    int64_t arrival = (int64_t)at[r]->start - w->clocks->at[ranks[r].host].offset;
    uint64_t duration = at[r]->end - at[r]->start, wait = (uint64_t)(last - arrival);
    wait = wait < duration ? wait : duration;
    ranks[r].row->collective_ns += duration;
    ranks[r].row->waited_ns += wait;
    ranks[late].row->caused_ns += wait;
  }
}

/* ---- the straggler ---- */

static int numbers(const void *left, const void *right)
{
  uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
  return l < r ? -1 : l > r;
}

static uint64_t median_of_others(const struct rank *ranks, size_t count, size_t own, size_t part)
{
  uint64_t *values = opgap_xcalloc(count, sizeof *values), median;
  size_t n = 0;
  for (size_t r = 0; r < count; r++)
    if (r != own)
      values[n++] = ranks[r].parts[part];
  qsort(values, n, sizeof *values, numbers);
  median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  free(values);
  return median;
}

static const char *part_name(size_t part)
{
  static const char *const names[OPGAP_CLASS_COUNT] = {
      [OPGAP_CLASS_KERNEL] = "GPU kernels",     [OPGAP_CLASS_MEMCPY] = "GPU copies",
      [OPGAP_CLASS_MEMSET] = "GPU memset",      [OPGAP_CLASS_COMMUNICATION] = "communication",
      [OPGAP_CLASS_RUNTIME] = "CUDA calls",     [OPGAP_CLASS_DATALOADER] = "data loading",
      [OPGAP_CLASS_CPU_EXEC] = "framework ops", [OPGAP_CLASS_OTHER] = "Python between ops"};
  return part < OPGAP_CLASS_COUNT ? names[part] : opgap_cause_name((enum opgap_cause)(part - OPGAP_CLASS_COUNT));
}

static void explain(struct analysis *a, const struct rank *ranks, size_t count, struct opgap_sum_ranks *sum)
{
  size_t own = sum->straggler, most = 0;
  uint64_t extra = 0;
  for (size_t part = 0; part < OPGAP_CLASS_COUNT + OPGAP_CAUSE_COUNT; part++) {
    uint64_t usual = median_of_others(ranks, count, own, part), ns = ranks[own].parts[part];
    if (ns > usual && ns - usual > extra) {
      extra = ns - usual;
      most = part;
    }
  }
  if (extra == 0)
    return;
  enum opgap_cause cause = most == OPGAP_CLASS_DATALOADER ? OPGAP_CAUSE_DATA_LOADING
                           : most >= OPGAP_CLASS_COUNT    ? (enum opgap_cause)(most - OPGAP_CLASS_COUNT)
                                                          : OPGAP_CAUSE_COUNT;
  sum->straggler_part = part_name(most);
  sum->straggler_extra_ns = extra;
  sum->straggler_detail = cause == OPGAP_CAUSE_COUNT ? "" : gaps_detail(a, ranks[own].process, cause);
}

/* The rank that more than half of all waiting is for; SIZE_MAX: none. */
static size_t straggler(const struct opgap_sum_ranks *sum)
{
  uint64_t all = 0;
  size_t most = 0;
  for (size_t r = 0; r < sum->count; r++) {
    all += sum->rows[r].caused_ns;
    if (sum->rows[r].caused_ns > sum->rows[most].caused_ns)
      most = r;
  }
  bool enough = sum->collectives >= COLLECTIVES_LEAST && sum->rows[most].caused_ns > all / 2;
  return enough ? most : SIZE_MAX;
}

void ranks_finish(struct analysis *a)
{
  struct opgap_sum_ranks *sum = &a->summary->ranks;
  struct rank *ranks = opgap_xcalloc(a->process_count, sizeof *ranks);
  sum->straggler = SIZE_MAX;
  sum->straggler_part = sum->straggler_detail = "";
  sum->rows = opgap_pool_alloc(a->pool, a->process_count * sizeof *sum->rows);
  sum->count = find_ranks(a, ranks, sum->rows);
  if (sum->count < 2) {
    sum->count = 0;
    free(ranks);
    return;
  }
  qsort(ranks, sum->count, sizeof *ranks, by_rank);
  struct opgap_sum_rank *sorted = opgap_pool_alloc(a->pool, sum->count * sizeof *sorted);
  for (size_t r = 0; r < sum->count; r++) {
    sorted[r] = *ranks[r].row;
    ranks[r].row = &sorted[r];
  }
  sum->rows = sorted;
  struct clocks clocks = {0};
  assign_hosts(a, ranks, sum->count, &clocks);
  sum->unmatched = match(ranks, sum->count, &clocks, bound_clocks);
  settle_clocks(&clocks, ranks, sum->count);
  match(ranks, sum->count, &(struct waits){&clocks, sum}, sum_waits);
  for (size_t r = 0; r < sum->count && a->ranks != NULL; r++)
    sum->unmatched += a->ranks->at[ranks[r].process].left_out;
  sum->straggler = straggler(sum);
  if (sum->straggler != SIZE_MAX)
    explain(a, ranks, sum->count, sum);
  free(clocks.at);
  free(ranks);
}
