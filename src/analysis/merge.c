#include "analysis/merge.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/ahead.h"
#include "analysis/pool.h"

/* ---- the order ---- */

struct lane { /* an input that has records left, as far as is known */
  size_t input;
  unsigned process, stream;
  void *cursor; /* NULL: not opened yet */
  const struct opgap_record *records;
  size_t left;
  uint64_t end; /* key: latest end so far, as damage may bring times out of order; before it is opened first_ns */
};

/* The lanes of a group, a heap; of pointers, as lanes that run at the same time change places all the time. */
struct group {
  struct lane **heap;
  size_t count;
  uint64_t slice;     /* key: of the first lane's next record */
  uint64_t slice_end; /* the latest time that is of this slice */
};

struct order {
  const struct opgap_source *source;
  struct lane *lanes;
  struct lane **lane_heaps; /* of all groups */
  struct group *groups;
  struct group **heap; /* by slice, then by index */
  size_t count;
  uint64_t slice_ns; /* UINT64_MAX with one group: all is one slice */
  bool taken;        /* the first lane's key is that of records handed out */
};

static bool refill(struct order *o, struct lane *lane)
{
  if (lane->left == 0)
    lane->left = o->source->cursor_batch(lane->cursor, &lane->records);
  if (lane->left > 0 && lane->records->end_ns > lane->end)
    lane->end = lane->records->end_ns;
  return lane->left > 0;
}

static void sift_lane(struct lane **heap, size_t count, size_t i)
{
  struct lane *moved = heap[i];
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= count)
      break;
    if (child + 1 < count && heap[child + 1]->end < heap[child]->end)
      child++;
    if (heap[child]->end >= moved->end)
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = moved;
}

static bool group_before(const struct group *left, const struct group *right)
{
  return left->slice != right->slice ? left->slice < right->slice : left < right;
}

static void sift_group(struct group **heap, size_t count, size_t i)
{
  struct group *moved = heap[i];
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= count)
      break;
    if (child + 1 < count && group_before(heap[child + 1], heap[child]))
      child++;
    if (!group_before(heap[child], moved))
      break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = moved;
}

/* The earliest end among the lanes that are not first. */
static uint64_t runner_up(struct lane *const *heap, size_t count)
{
  uint64_t second = count > 1 ? heap[1]->end : UINT64_MAX, third = count > 2 ? heap[2]->end : UINT64_MAX;
  return second < third ? second : third;
}

static void find_slice(const struct order *o, struct group *group)
{
  group->slice = group->heap[0]->end / o->slice_ns;
  group->slice_end = o->slice_ns == UINT64_MAX ? UINT64_MAX : (group->slice + 1) * o->slice_ns - 1;
}

static int by_group(const void *left, const void *right)
{
  const struct merge_input *l = *(const struct merge_input *const *)left,
                           *r = *(const struct merge_input *const *)right;
  if (l->group != r->group)
    return l->group < r->group ? -1 : 1;
  return l < r ? -1 : l > r;
}

/* The inputs [first, last) are one group. */
static void add_group(struct order *o, const struct merge_input *inputs, const struct merge_input *const *first,
                      const struct merge_input *const *last, size_t lanes_before)
{
  struct group *group = &o->groups[o->count];
  o->heap[o->count++] = group;
  group->heap = o->lane_heaps + lanes_before;
  for (size_t i = 0; first + i < last; i++) {
    struct lane *lane = &o->lanes[lanes_before + i];
    group->heap[group->count++] = lane;
    *lane = (struct lane){.input = (size_t)(first[i] - inputs),
                          .process = first[i]->process,
                          .stream = first[i]->stream,
                          .end = first[i]->first_ns};
  }
  for (size_t i = group->count / 2; i-- > 0;)
    sift_lane(group->heap, group->count, i);
}

static void order_open(struct order *o, const struct opgap_source *source, const struct merge_input *inputs,
                       size_t count)
{
  const struct merge_input **sorted = opgap_xcalloc(count, sizeof(struct merge_input *));
  for (size_t i = 0; i < count; i++)
    sorted[i] = &inputs[i];
  qsort(sorted, count, sizeof(struct merge_input *), by_group);
  *o = (struct order){.source = source,
                      .lanes = opgap_xcalloc(count, sizeof *o->lanes),
                      .lane_heaps = opgap_xcalloc(count, sizeof(struct lane *)),
                      .groups = opgap_xcalloc(count, sizeof *o->groups),
                      .heap = opgap_xcalloc(count, sizeof(struct group *))};
  for (size_t first = 0, last; first < count; first = last) {
    for (last = first + 1; last < count && sorted[last]->group == sorted[first]->group; last++)
      ;
    add_group(o, inputs, sorted + first, sorted + last, first);
  }
  o->slice_ns = o->count > 1 ? MERGE_SLICE_NS : UINT64_MAX;
  for (size_t i = 0; i < o->count; i++)
    find_slice(o, o->heap[i]);
  for (size_t i = o->count / 2; i-- > 0;)
    sift_group(o->heap, o->count, i);
  free(sorted);
}

/* Opens the first lane where that was not done, reads on in it, and puts it and its group where they belong then. */
static void replace_first(struct order *o)
{
  struct group *group = o->heap[0];
  struct lane *first = group->heap[0];
  o->taken = false;
  if (first->cursor == NULL)
    first->cursor = o->source->cursor_open(o->source->context, first->process, first->stream);
  if (first->cursor == NULL || !refill(o, first)) {
    if (first->cursor != NULL)
      o->source->cursor_close(first->cursor);
    group->heap[0] = group->heap[--group->count];
  }
  if (group->count > 0) {
    sift_lane(group->heap, group->count, 0);
    if (group->heap[0]->end <= group->slice_end)
      return;
    find_slice(o, group);
  } else {
    o->heap[0] = o->heap[--o->count];
  }
  if (o->count > 0)
    sift_group(o->heap, o->count, 0);
}

/* As merge_next: the records of the first lane up to where another lane's next one is earlier, and of one slice. */
static size_t next_run(void *context, size_t *input, const struct opgap_record **records)
{
  struct order *o = context;
  while (o->count > 0 && (o->taken || o->heap[0]->heap[0]->cursor == NULL))
    replace_first(o);
  if (o->count == 0)
    return 0;
  const struct group *group = o->heap[0];
  struct lane *first = group->heap[0];
  uint64_t limit = runner_up(group->heap, group->count), end = first->end;
  if (group->slice_end < limit)
    limit = group->slice_end;
  size_t count = 1;
  while (count < first->left && first->records[count].end_ns <= limit) {
    if (first->records[count].end_ns > end)
      end = first->records[count].end_ns;
    count++;
  }
  *input = first->input;
  *records = first->records;
  first->records += count;
  first->left -= count;
  first->end = end;
  o->taken = true;
  return count;
}

static void order_close(struct order *o)
{
  free(o->heap);
  free(o->groups);
  free(o->lane_heaps);
  free(o->lanes);
}

/* ---- both ---- */

struct merge {
  struct order order; /* of the reading thread, if there is one */
  struct ahead *ahead;
};

struct merge *merge_begin(const struct opgap_source *source, const struct merge_input *inputs, size_t count,
                          unsigned threads)
{
  struct merge *m = opgap_xcalloc(1, sizeof *m);
  order_open(&m->order, source, inputs, count);
  m->ahead = ahead_begin(next_run, &m->order, threads);
  return m;
}

size_t merge_next(struct merge *m, size_t *input, const struct opgap_record **records)
{
  return ahead_next(m->ahead, input, records);
}

void merge_end(struct merge *m)
{
  ahead_end(m->ahead);
  order_close(&m->order);
  free(m);
}
