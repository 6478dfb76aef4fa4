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
#include "analysis/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"

#define COLLECTIVES_MOST 65536u /* kept of each rank; later ones are counted only */
#define COLLECTIVES_LEAST 5u    /* matched, for naming a straggler */

/* ---- collecting, while records are read ---- */

struct collective {
  uint64_t start, end;
  uint32_t name;
};

struct rank_state {
  VEC(struct collective) host, gpu; /* ops and calls of a backend; its kernels */
  uint64_t left_out;
};

struct ranks_state {
  struct rank_state *at; /* by process */
};

/* c10d:: ops only hand the work to the backend, whose own range or kernel is the collective. */
static bool is_synchronising(const char *name)
{
  if (strncmp(name, "c10d::", 6) == 0)
    return false;
  static const char *const words[] = {"all_reduce", "allreduce", "all_gather", "allgather",    "reduce_scatter",
                                      "all_to_all", "alltoall",  "barrier",    "reducescatter"};
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
  *c = (struct collective){start, end, name};
}

bool ranks_any(const struct analysis *a)
{
  return a->ranks != NULL;
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

/* A process that communicates, or trains with a rank. */
static bool is_rank(const struct analysis *a, unsigned process)
{
  const struct process *p = &a->processes[process];
  if (!p->included || p->role == OPGAP_ROLE_WORKER)
    return false;
  bool talks = a->ranks != NULL && a->ranks->at[process].host.count + a->ranks->at[process].gpu.count > 0;
  return talks || (p->info->rank >= 0 && p->role == OPGAP_ROLE_TRAINER);
}

static void fill_steps(struct analysis *a, unsigned process, struct opgap_sum_rank *row)
{
  struct opgap_sum_breakdown sum = {0};
  struct opgap_sum_steps steps = {0};
  steps_list(a, steps_source(&a->processes[process]) == STEPS_SOURCES ? UINT32_MAX : process, &steps);
  row->steps = steps.count - steps.skipped;
  row->step_median_ns = steps.median_ns;
  row->step_p95_ns = steps.p95_ns;
  row->from_ns = row->steps > 0 ? steps.start_ns[steps.skipped] : 0;
  row->data_wait_ns = row->communication_ns = OPGAP_UNKNOWN;
  breakdown_sums(a, process, steps.skipped, &sum);
  if (sum.steps == 0)
    return;
  row->data_wait_ns = sum.class_ns[OPGAP_CLASS_DATALOADER] / sum.steps;
  row->communication_ns = sum.class_ns[OPGAP_CLASS_COMMUNICATION] / sum.steps;
  for (int c = 0; c < OPGAP_CAUSE_COUNT; c++) {
    row->part_ns[OPGAP_CLASS_COUNT + c] = sum.other_wait_ns[c] / sum.steps;
    sum.class_ns[OPGAP_CLASS_OTHER] -= sum.other_wait_ns[c]; /* the program's own code remains */
  }
  for (int c = 0; c < OPGAP_CLASS_COUNT; c++)
    row->part_ns[c] = sum.class_ns[c] / sum.steps;
  row->part_ns[OPGAP_CLASS_COMMUNICATION] = 0;
  row->part_ns[OPGAP_CLASS_COUNT + OPGAP_CAUSE_COMMUNICATION] = 0;
}

static uint64_t from_start(const struct analysis *a, uint64_t time)
{
  return time > a->start_ns ? time - a->start_ns : 0;
}

static void fill_collectives(struct analysis *a, unsigned process, struct opgap_sum_rank *row)
{
  if (a->ranks == NULL)
    return;
  const struct rank_state *r = &a->ranks->at[process];
  const struct collective *list = r->gpu.count > 0 ? r->gpu.at : r->host.at;
  row->collective_count = r->gpu.count > 0 ? r->gpu.count : r->host.count;
  row->collectives_left_out = r->left_out;
  row->collectives = opgap_pool_alloc(a->pool, row->collective_count * sizeof *row->collectives);
  for (size_t i = 0; i < row->collective_count; i++)
    row->collectives[i] = (struct opgap_sum_collective){analysis_text(a, list[i].name), from_start(a, list[i].start),
                                                        from_start(a, list[i].end)};
}

void ranks_finish(struct analysis *a)
{
  struct opgap_sum_ranks *ranks = &a->summary->ranks;
  ranks->rows = opgap_pool_alloc(a->pool, a->process_count * sizeof *ranks->rows);
  for (unsigned i = 0; i < a->process_count; i++) {
    if (!is_rank(a, i))
      continue;
    const struct opgap_process_info *info = a->processes[i].info;
    struct opgap_sum_rank *row = &ranks->rows[ranks->count++];
    *row = (struct opgap_sum_rank){.rank = info->rank,
                                   .pid = info->pid,
                                   .host = opgap_pool_string(a->pool, info->host),
                                   .boot_id = opgap_pool_string(a->pool, info->boot_id)};
    fill_steps(a, i, row);
    fill_collectives(a, i, row);
    for (int c = 0; c < OPGAP_CAUSE_COUNT; c++)
      row->detail[c] = gaps_detail(a, i, (enum opgap_cause)c);
  }
  opgap_ranks_compare(ranks);
}

/* ---- comparing: matching ---- */

struct rank { /* of the comparison */
  struct opgap_sum_rank *row;
  unsigned host; /* index of its clock */
  struct item {
    const struct opgap_sum_collective *collective;
    uint32_t ordinal; /* among those of its name */
  } * items;
  size_t next;
};

struct clock_of_host {
  const char *boot_id;
  int64_t low, high, offset; /* bounds of (its clock - first host's clock) */
  bool bounded;
};

struct comparing {
  struct opgap_sum_ranks *sum;
  struct rank *ranks;
  struct clock_of_host *clocks;
  unsigned clock_count;
  const struct opgap_sum_collective **at; /* one collective, by rank */
};

static int by_name_and_start(const void *left, const void *right)
{
  const struct opgap_sum_collective *l = ((const struct item *)left)->collective;
  const struct opgap_sum_collective *r = ((const struct item *)right)->collective;
  int order = strcmp(l->name, r->name);
  return order ? order : l->start_ns < r->start_ns ? -1 : l->start_ns > r->start_ns;
}

static int by_rank(const void *left, const void *right)
{
  const struct opgap_sum_rank *l = left, *r = right;
  if (l->rank != r->rank)
    return l->rank < r->rank ? -1 : 1;
  return l->pid < r->pid ? -1 : l->pid > r->pid;
}

static void number_collectives(struct rank *rank)
{
  size_t count = rank->row->collective_count;
  rank->items = opgap_xcalloc(count + 1, sizeof *rank->items);
  for (size_t i = 0; i < count; i++)
    rank->items[i].collective = &rank->row->collectives[i];
  if (count > 0)
    qsort(rank->items, count, sizeof *rank->items, by_name_and_start);
  for (size_t i = 1; i < count; i++) {
    bool same = strcmp(rank->items[i].collective->name, rank->items[i - 1].collective->name) == 0;
    rank->items[i].ordinal = same ? rank->items[i - 1].ordinal + 1 : 0;
  }
}

static int item_order(const struct item *left, const struct item *right)
{
  int order = strcmp(left->collective->name, right->collective->name);
  return order ? order : left->ordinal < right->ordinal ? -1 : left->ordinal > right->ordinal;
}

static const struct item *next_item(const struct rank *rank)
{
  return rank->next < rank->row->collective_count ? &rank->items[rank->next] : NULL;
}

/* Calls visit for each collective that every rank has (k->at).  Returns how many were not everywhere. */
static uint64_t match(struct comparing *k, void (*visit)(struct comparing *k))
{
  size_t count = k->sum->count;
  uint64_t alone = 0;
  for (size_t r = 0; r < count; r++)
    k->ranks[r].next = 0;
  for (;;) {
    const struct item *least = NULL;
    for (size_t r = 0; r < count; r++) {
      const struct item *item = next_item(&k->ranks[r]);
      if (item != NULL && (least == NULL || item_order(item, least) < 0))
        least = item;
    }
    if (least == NULL)
      return alone;
    size_t have = 0;
    for (size_t r = 0; r < count; r++) {
      const struct item *item = next_item(&k->ranks[r]);
      if (item == NULL || item_order(item, least) != 0)
        continue;
      k->at[r] = item->collective;
      k->ranks[r].next++;
      have++;
    }
    if (have == count)
      visit(k);
    else
      alone++;
  }
}

static void assign_hosts(struct comparing *k)
{
  for (size_t r = 0; r < k->sum->count; r++) {
    const char *boot_id = k->sum->rows[r].boot_id;
    unsigned h = 0;
    while (h < k->clock_count && strcmp(k->clocks[h].boot_id, boot_id) != 0)
      h++;
    if (h == k->clock_count)
      k->clocks[k->clock_count++] = (struct clock_of_host){boot_id, INT64_MIN, INT64_MAX, 0, false};
    k->ranks[r].host = h;
  }
}

/* The last arrival and the first departure on the first host bound the other clocks' differences from its own. */
static void bound_clocks(struct comparing *k)
{
  uint64_t last_start = 0, first_end = UINT64_MAX;
  for (size_t r = 0; r < k->sum->count; r++)
    if (k->ranks[r].host == 0) {
      last_start = k->at[r]->start_ns > last_start ? k->at[r]->start_ns : last_start;
      first_end = k->at[r]->end_ns < first_end ? k->at[r]->end_ns : first_end;
    }
  for (size_t r = 0; r < k->sum->count; r++) {
    struct clock_of_host *clock = &k->clocks[k->ranks[r].host];
    int64_t low = (int64_t)(k->at[r]->start_ns - first_end), high = (int64_t)(k->at[r]->end_ns - last_start);
    clock->low = low > clock->low ? low : clock->low;
    clock->high = high < clock->high ? high : clock->high;
    clock->bounded = true;
  }
}

static void settle_clocks(struct comparing *k)
{
  for (unsigned h = 1; h < k->clock_count; h++)
    if (k->clocks[h].bounded)
      k->clocks[h].offset = k->clocks[h].low + (k->clocks[h].high - k->clocks[h].low) / 2;
  for (size_t r = 0; r < k->sum->count; r++) {
    const struct clock_of_host *clock = &k->clocks[k->ranks[r].host];
    bool first = k->ranks[r].host == 0;
    int64_t width = first || !clock->bounded ? 0 : clock->high - clock->low;
    k->sum->rows[r].clock_offset_ns = clock->offset;
    k->sum->rows[r].clock_error_ns =
        first || clock->bounded ? (uint64_t)(width < 0 ? -width : width) / 2 : OPGAP_UNKNOWN;
  }
}

static int64_t aligned(const struct comparing *k, size_t rank, uint64_t time)
{
  return (int64_t)time - k->clocks[k->ranks[rank].host].offset;
}

/* Waiting before the end of warm-up is the start of the ranks, not of their steps. */
static bool is_warm_up(const struct comparing *k)
{
  for (size_t r = 0; r < k->sum->count; r++)
    if (k->at[r]->start_ns < k->sum->rows[r].from_ns)
      return true;
  return false;
}

static void sum_waits(struct comparing *k)
{
  int64_t last = INT64_MIN, first_end = INT64_MAX, error = 0;
  size_t late = 0, count = k->sum->count;
  if (is_warm_up(k))
    return;
  for (size_t r = 0; r < count; r++) {
    int64_t start = aligned(k, r, k->at[r]->start_ns), end = aligned(k, r, k->at[r]->end_ns);
    int64_t own_error = (int64_t)k->sum->rows[r].clock_error_ns;
    error = own_error > error ? own_error : error;
    first_end = end < first_end ? end : first_end;
    if (start > last) {
      last = start;
      late = r;
    }
  }
  if (last > first_end + 2 * error) {
    k->sum->unmatched++;
    return;
  }
  k->sum->collectives++;
  k->sum->rows[late].last++;
  for (size_t r = 0; r < count; r++) {
    uint64_t duration = k->at[r]->end_ns - k->at[r]->start_ns;
    uint64_t wait = (uint64_t)(last - aligned(k, r, k->at[r]->start_ns));
    wait = wait < duration ? wait : duration;
    k->sum->rows[r].collective_ns += duration;
    k->sum->rows[r].waited_ns += wait;
    k->sum->rows[late].caused_ns += wait;
  }
}

/* ---- comparing: the straggler ---- */

static int numbers(const void *left, const void *right)
{
  uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
  return l < r ? -1 : l > r;
}

static uint64_t median_of_others(const struct opgap_sum_ranks *sum, size_t own, size_t part)
{
  uint64_t *values = opgap_xcalloc(sum->count, sizeof *values), median;
  size_t n = 0;
  for (size_t r = 0; r < sum->count; r++)
    if (r != own)
      values[n++] = sum->rows[r].part_ns[part];
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

static void explain(struct opgap_sum_ranks *sum)
{
  const struct opgap_sum_rank *row = &sum->rows[sum->straggler];
  size_t most = 0;
  uint64_t extra = 0;
  for (size_t part = 0; part < OPGAP_RANK_PARTS; part++) {
    uint64_t usual = median_of_others(sum, sum->straggler, part), ns = row->part_ns[part];
    if (ns > usual && ns - usual > extra) {
      extra = ns - usual;
      most = part;
    }
  }
  if (extra == 0)
    return;
  sum->straggler_part = part_name(most);
  sum->straggler_extra_ns = extra;
  if (most >= OPGAP_CLASS_COUNT)
    sum->straggler_detail = row->detail[most - OPGAP_CLASS_COUNT];
  else if (most == OPGAP_CLASS_DATALOADER)
    sum->straggler_detail = row->detail[OPGAP_CAUSE_DATA_LOADING];
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
  return sum->collectives >= COLLECTIVES_LEAST && sum->rows[most].caused_ns > all / 2 ? most : SIZE_MAX;
}

void opgap_rank_name(char *text, size_t size, const struct opgap_sum_rank *rank)
{
  snprintf(text, size, "%s %d", rank->rank < 0 ? "pid" : "rank", rank->rank < 0 ? rank->pid : rank->rank);
}

void opgap_ranks_compare(struct opgap_sum_ranks *sum)
{
  struct comparing k = {.sum = sum};
  sum->straggler = SIZE_MAX;
  sum->straggler_part = sum->straggler_detail = "";
  sum->collectives = sum->unmatched = 0;
  if (sum->count < 2)
    return;
  qsort(sum->rows, sum->count, sizeof *sum->rows, by_rank);
  k.ranks = opgap_xcalloc(sum->count, sizeof *k.ranks);
  k.clocks = opgap_xcalloc(sum->count, sizeof *k.clocks);
  k.at = opgap_xcalloc(sum->count, sizeof *k.at);
  for (size_t r = 0; r < sum->count; r++) {
    k.ranks[r].row = &sum->rows[r];
    number_collectives(&k.ranks[r]);
  }
  assign_hosts(&k);
  sum->unmatched = match(&k, bound_clocks);
  settle_clocks(&k);
  match(&k, sum_waits);
  for (size_t r = 0; r < sum->count; r++)
    sum->unmatched += sum->rows[r].collectives_left_out;
  sum->straggler = straggler(sum);
  if (sum->straggler != SIZE_MAX)
    explain(sum);
  for (size_t r = 0; r < sum->count; r++)
    free(k.ranks[r].items);
  free(k.ranks);
  free(k.clocks);
  free(k.at);
}
