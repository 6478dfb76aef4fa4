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

/* The lanes of a group: the one with the earliest key, and a heap of pointers to the others.  Lanes that run at the
 * same time change places all the time; of two none has to sift. */
struct group {
  struct lane *first; /* NULL: there are none */
  struct lane **others;
  size_t other_count;
  uint64_t slice;     /* key: of the first lane's next record */
  uint64_t slice_end; /* the latest time that is of this slice */
  uint64_t limit;     /* up to here the first lane stays it, and its records are of this slice */
};

struct order {
  const struct opgap_source *source;
  struct lane *lanes;
  struct lane **lane_heaps; /* of all groups */
  struct group *groups;
  struct group **heap; /* by slice, then by index */
  size_t count;
  uint64_t slice_ns; /* UINT64_MAX with one group: all is one slice */
};

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

static void find_limit(struct group *group)
{
  uint64_t next = group->other_count > 0 ? group->others[0]->end : UINT64_MAX;
  group->limit = next < group->slice_end ? next : group->slice_end;
}

static __attribute__((noinline)) void find_slice(const struct order *o, struct group *group)
{
  group->slice = group->first->end / o->slice_ns;
  group->slice_end = o->slice_ns == UINT64_MAX ? UINT64_MAX : (group->slice + 1) * o->slice_ns - 1;
  find_limit(group);
}

/* The first lane, which may have been it up to now, gives its place to the earliest of the others. */
static void change_first(struct group *group)
{
  struct lane *before = group->first;
  group->first = group->others[0];
  if (before == NULL)
    before = group->others[--group->other_count];
  group->others[0] = before;
  sift_lane(group->others, group->other_count, 0);
  find_limit(group);
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
  group->others = o->lane_heaps + lanes_before;
  for (size_t i = 0; first + i < last; i++) {
    struct lane *lane = &o->lanes[lanes_before + i];
    group->others[group->other_count++] = lane;
    *lane = (struct lane){.input = (size_t)(first[i] - inputs),
                          .process = first[i]->process,
                          .stream = first[i]->stream,
                          .end = first[i]->first_ns};
  }
  for (size_t i = group->other_count / 2; i-- > 0;)
    sift_lane(group->others, group->other_count, i);
  change_first(group);
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

/* The first lane has no record at hand: opens it where that was not done and reads on.  False: it has ended. */
static __attribute__((noinline)) bool read_on(const struct order *o, struct lane *lane)
{
  if (lane->cursor == NULL)
    lane->cursor = o->source->cursor_open(o->source->context, lane->process, lane->stream);
  lane->left = lane->cursor != NULL ? o->source->cursor_batch(lane->cursor, &lane->records) : 0;
  if (lane->left == 0 && lane->cursor != NULL)
    o->source->cursor_close(lane->cursor);
  return lane->left > 0;
}

/* The first group's first lane has changed its key: puts lane and group where they belong then. */
static void replace_first(struct order *o)
{
  struct group *group = o->heap[0];
  if (group->other_count > 0 && (group->first == NULL || group->first->end > group->others[0]->end))
    change_first(group);
  if (group->first == NULL)
    o->heap[0] = o->heap[--o->count];
  else if (group->first->end > group->slice_end)
    find_slice(o, group);
  else
    return;
  if (o->count > 0)
    sift_group(o->heap, o->count, 0);
}

/* As merge_next: the records of the first lane up to where another lane's next one is earlier, and of one slice. */
static size_t next_run(void *context, size_t *input, const struct opgap_record **records)
{
  struct order *o = context;
  for (; o->count > 0; replace_first(o)) {
    struct group *group = o->heap[0];
    struct lane *first = group->first;
    if (first->left == 0 && !read_on(o, first)) {
      group->first = NULL;
      continue;
    }
    uint64_t end = first->end > first->records->end_ns ? first->end : first->records->end_ns;
    first->end = end;
    if (end > group->limit)
      continue;
    size_t count = 1;
    for (; count < first->left && first->records[count].end_ns <= group->limit; count++)
      if (first->records[count].end_ns > end)
        end = first->records[count].end_ns;
    *input = first->input;
    *records = first->records;
    first->records += count;
    first->left -= count;
    first->end = end;
    return count;
  }
  return 0;
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
