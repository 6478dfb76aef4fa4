#include "analysis/ordered.h"

#include <stdlib.h>
#include <string.h>

/* Only these contain other records. */
static bool adopts(unsigned event)
{
  return event == OPGAP_EV_OP || event == OPGAP_EV_RANGE || event == OPGAP_EV_OPEN_OP;
}

bool ordered_outside(unsigned event)
{
  switch (event) {
  case OPGAP_EV_COUNTER:
  case OPGAP_EV_MEMORY:
  case OPGAP_EV_SCHED:
  case OPGAP_EV_OVERHEAD:
  case OPGAP_EV_LOST:
  case OPGAP_EV_FREE_RANGE:
  case OPGAP_EV_FAULTS:
  case OPGAP_EV_PROCESS_FAULTS:
    return true;
  default:
    return false;
  }
}

static const struct opgap_record *read_record(struct ordered_stream *s)
{
  if (s->left == 0 && s->cursor != NULL) {
    s->left = s->source->cursor_batch(s->cursor, &s->records);
    if (s->left == 0) {
      s->source->cursor_close(s->cursor);
      s->cursor = NULL;
    }
  }
  if (s->left == 0)
    return NULL;
  s->left--;
  s->records_read++;
  return s->records++;
}

/* ---- large records ---- */

static int in_preorder(const void *left, const void *right)
{
  const struct opgap_record *l = left, *r = right;
  if (l->start_ns != r->start_ns)
    return l->start_ns < r->start_ns ? -1 : 1;
  return (int)l->depth - (int)r->depth;
}

void ordered_scan(struct ordered_stream *s, const struct opgap_source *source, unsigned process, unsigned index,
                  bool gpu, void (*visit)(void *context, const struct opgap_record *record), void *context)
{
  uint64_t inside[256] = {0}; /* records that wait for a parent, by depth */
  unsigned deepest = 0;
  const struct opgap_record *r;
  *s = (struct ordered_stream){.source = source, .gpu = gpu};
  s->cursor = source->cursor_open(source->context, process, index);
  while ((r = read_record(s)) != NULL) {
    visit(context, r);
    if (gpu || ordered_outside(r->event))
      continue;
    uint64_t size = 1;
    unsigned level = r->depth;
    if (adopts(r->event))
      for (; deepest > r->depth; deepest--) {
        size += inside[deepest];
        inside[deepest] = 0;
      }
    else if (deepest > level)
      level = deepest;
    if (level > deepest)
      deepest = level;
    inside[level] += size;
    if (size > ORDERED_WINDOW)
      *VEC_PUSH(&s->large) = *r;
  }
  if (s->large.count > 1)
    qsort(s->large.at, s->large.count, sizeof *s->large.at, in_preorder);
}

static void drop_held(struct ordered_stream *s)
{
  if (s->cursor != NULL)
    s->source->cursor_close(s->cursor);
  s->cursor = NULL;
  for (unsigned d = 0; d < 256; d++) {
    if (s->levels[d].first != NULL) {
      s->levels[d].last->next = s->spare;
      s->spare = s->levels[d].first;
    }
    s->levels[d].first = s->levels[d].last = NULL;
  }
  s->left = s->next_large = s->held = s->heap.count = 0;
  s->deepest = 0;
}

void ordered_begin(struct ordered_stream *s, unsigned process, unsigned index)
{
  drop_held(s);
  s->cursor = s->source->cursor_open(s->source->context, process, index);
}

/* ---- the tree of a thread ---- */

static struct ordered_node *node_of(struct ordered_stream *s, const struct opgap_record *r)
{
  struct ordered_node *node = s->spare;
  if (node != NULL)
    s->spare = node->next;
  else
    node = opgap_xcalloc(1, sizeof *node);
  node->record = *r;
  node->next = NULL;
  s->held++;
  return node;
}

static void append(struct ordered_level *level, struct ordered_node *first, struct ordered_node *last)
{
  if (first == NULL)
    return;
  if (level->first == NULL)
    level->first = first;
  else
    level->last->next = first;
  level->last = last;
}

/* A large record has been given out already, where it began. */
static bool is_large(const struct ordered_stream *s, const struct opgap_record *r)
{
  size_t low = 0, high = s->large.count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (in_preorder(&s->large.at[middle], r) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < s->large.count && in_preorder(&s->large.at[low], r) == 0; low++)
    if (s->large.at[low].event == r->event && s->large.at[low].end_ns == r->end_ns)
      return true;
  return false;
}

static void add_to_tree(struct ordered_stream *s, const struct opgap_record *r)
{
  struct ordered_level whole = {NULL, NULL};
  unsigned level = r->depth;
  if (adopts(r->event)) {
    bool large = s->large.count > 0 && is_large(s, r);
    if (!large) {
      struct ordered_node *node = node_of(s, r);
      append(&whole, node, node);
    }
    for (unsigned d = r->depth + 1u; d <= s->deepest; d++) {
      append(&whole, s->levels[d].first, s->levels[d].last);
      s->levels[d].first = s->levels[d].last = NULL;
    }
    if (s->deepest > r->depth)
      s->deepest = r->depth;
  } else {
    struct ordered_node *node = node_of(s, r);
    append(&whole, node, node);
    if (s->deepest > level)
      level = s->deepest;
  }
  if (level > s->deepest)
    s->deepest = level;
  append(&s->levels[level], whole.first, whole.last);
}

/* The level that holds the oldest record; NULL: nothing is held. */
static struct ordered_level *oldest(struct ordered_stream *s)
{
  for (unsigned d = 0; d <= s->deepest; d++)
    if (s->levels[d].first != NULL)
      return &s->levels[d];
  return NULL;
}

static bool take_large(struct ordered_stream *s, struct opgap_record *record)
{
  if (s->next_large == s->large.count)
    return false;
  *record = s->large.at[s->next_large++];
  return true;
}

static bool next_of_thread(struct ordered_stream *s, struct opgap_record *record)
{
  while (s->levels[0].first == NULL && s->held < ORDERED_WINDOW) {
    const struct opgap_record *r = read_record(s);
    if (r == NULL)
      break;
    if (ordered_outside(r->event)) {
      *record = *r;
      return true;
    }
    add_to_tree(s, r);
  }
  struct ordered_level *level = oldest(s);
  if (level == NULL)
    return take_large(s, record);
  struct ordered_node *node = level->first;
  if (s->next_large < s->large.count && in_preorder(&s->large.at[s->next_large], &node->record) < 0)
    return take_large(s, record);
  *record = node->record;
  level->first = node->next;
  if (level->first == NULL)
    level->last = NULL;
  node->next = s->spare;
  s->spare = node;
  s->held--;
  return true;
}

/* ---- GPU activity ---- */

/* Of two that begin together, what ends first: an id stands at the start of its call, before it. */
static bool before(const struct opgap_record *l, const struct opgap_record *r)
{
  return l->start_ns != r->start_ns ? l->start_ns < r->start_ns : l->end_ns < r->end_ns;
}

static void heap_push(struct ordered_stream *s, const struct opgap_record *r)
{
  (void)VEC_PUSH(&s->heap);
  size_t i = s->heap.count - 1;
  for (; i > 0 && before(r, &s->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
    s->heap.at[i] = s->heap.at[(i - 1) / 2];
  s->heap.at[i] = *r;
}

static void heap_pop(struct ordered_stream *s, struct opgap_record *record)
{
  *record = s->heap.at[0];
  struct opgap_record last = s->heap.at[--s->heap.count];
  size_t i = 0;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= s->heap.count)
      break;
    if (child + 1 < s->heap.count && before(&s->heap.at[child + 1], &s->heap.at[child]))
      child++;
    if (!before(&s->heap.at[child], &last))
      break;
    s->heap.at[i] = s->heap.at[child];
    i = child;
  }
  s->heap.at[i] = last;
}

static bool next_of_gpu(struct ordered_stream *s, struct opgap_record *record)
{
  while (s->heap.count < ORDERED_GPU_WINDOW) {
    const struct opgap_record *r = read_record(s);
    if (r == NULL)
      break;
    heap_push(s, r);
  }
  if (s->heap.count == 0)
    return false;
  heap_pop(s, record);
  return true;
}

/* ---- both ---- */

bool ordered_next(struct ordered_stream *s, struct opgap_record *record)
{
  return s->gpu ? next_of_gpu(s, record) : next_of_thread(s, record);
}

static void free_nodes(struct ordered_node *node)
{
  while (node != NULL) {
    struct ordered_node *next = node->next;
    free(node);
    node = next;
  }
}

void ordered_free(struct ordered_stream *s)
{
  drop_held(s);
  free_nodes(s->spare);
  VEC_FREE(&s->large);
  VEC_FREE(&s->heap);
}
