/* The call tree of ops: stacks by name, with calls, self and total time, and GPU time by the op that launched the work.
 *
 * Records come in post-order, so subtrees wait at their depth until the op around them ends and adopts them; equal
 * stacks are merged as soon as they meet, so memory is that of the distinct stacks, at most OPGAP_FLAME_NODES in
 * all.  What is outermost waits no longer: it belongs to its process. */
#include "analysis/internal.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

/* Subtrees of one parent, in the order in which they came first.  Ops come in the same order again and again, so a
 * search begins behind what was found last. */
struct flame_list {
  uint32_t first, found; /* found: where the next search begins; NONE: at the first */
};
#define EMPTY ((struct flame_list){NONE, NONE})

struct flame_node {
  uint32_t name, next; /* name: gid; next: sibling or free node */
  struct flame_list children;
  uint8_t kind;
  uint64_t calls, self_ns, total_ns, self_gpu_ns;
};

struct flame_thread {
  struct flame_list waiting[257]; /* subtrees by depth, deeper ones are empty */
  unsigned deepest;
};

struct flame_state {
  VEC(struct flame_node) nodes;
  uint32_t free;
  struct flame_thread **threads; /* by thread; NULL before its first op */
  struct flame_list *roots;      /* outermost ops by process */
  uint64_t left_out;
};

void flame_open(struct analysis *a)
{
  struct flame_state *f = a->flame = opgap_xcalloc(1, sizeof *a->flame);
  f->free = NONE;
  f->threads = opgap_xcalloc(a->thread_count, sizeof *f->threads);
  f->roots = opgap_xcalloc(a->process_count, sizeof *f->roots);
  for (unsigned i = 0; i < a->process_count; i++)
    f->roots[i] = EMPTY;
}

static uint32_t node_new(struct flame_state *f)
{
  uint32_t index = f->free;
  if (index != NONE) {
    f->free = f->nodes.at[index].next;
  } else {
    if (f->nodes.count >= OPGAP_FLAME_NODES)
      return NONE;
    index = (uint32_t)f->nodes.count;
    VEC_PUSH(&f->nodes);
  }
  f->nodes.at[index] = (struct flame_node){.next = NONE, .children = EMPTY};
  return index;
}

static uint32_t find_between(const struct flame_state *f, uint32_t from, uint32_t to, uint32_t name, uint8_t kind)
{
  for (uint32_t i = from; i != to && i != NONE; i = f->nodes.at[i].next)
    if (f->nodes.at[i].name == name && f->nodes.at[i].kind == kind)
      return i;
  return NONE;
}

/* The node of a list with that name and kind. */
static uint32_t list_find(const struct flame_state *f, struct flame_list *list, uint32_t name, uint8_t kind)
{
  uint32_t begin = list->found == NONE ? list->first : f->nodes.at[list->found].next;
  uint32_t index = find_between(f, begin, NONE, name, kind);
  if (index == NONE)
    index = find_between(f, list->first, begin, name, kind);
  if (index != NONE)
    list->found = index;
  return index;
}

static void list_insert(struct flame_state *f, struct flame_list *list, uint32_t index)
{
  uint32_t *place = list->found == NONE ? &list->first : &f->nodes.at[list->found].next;
  f->nodes.at[index].next = *place;
  *place = index;
  list->found = index;
}

/* Moves the subtrees of `from` into the list `into`, which does not move meanwhile. */
static void merge_lists(struct flame_state *f, struct flame_list *into, uint32_t from)
{
  while (from != NONE) {
    uint32_t index = from;
    struct flame_node *node = &f->nodes.at[index];
    from = node->next;
    uint32_t same = list_find(f, into, node->name, node->kind);
    if (same == NONE) {
      list_insert(f, into, index);
      continue;
    }
    struct flame_node *sum = &f->nodes.at[same];
    sum->calls += node->calls;
    sum->self_ns += node->self_ns;
    sum->total_ns += node->total_ns;
    sum->self_gpu_ns += node->self_gpu_ns;
    merge_lists(f, &sum->children, node->children.first);
    node->next = f->free;
    f->free = index;
  }
}

/* The first of what waits deeper than `depth`. */
static uint32_t take_deeper(struct flame_state *f, struct flame_thread *t, unsigned depth)
{
  struct flame_list taken = EMPTY;
  for (unsigned d = depth + 1; d <= t->deepest; d++) { /* more than one level: a parent's record was lost */
    if (taken.first == NONE)
      taken = t->waiting[d];
    else
      merge_lists(f, &taken, t->waiting[d].first);
    t->waiting[d] = EMPTY;
  }
  t->deepest = depth;
  return taken.first;
}

static struct flame_thread *thread_of(struct flame_state *f, size_t thread)
{
  if (f->threads[thread] == NULL) {
    f->threads[thread] = opgap_xcalloc(1, sizeof **f->threads);
    memset(f->threads[thread]->waiting, 0xff, sizeof f->threads[thread]->waiting);
  }
  return f->threads[thread];
}

/* Releases a list of subtrees and counts their calls as left out. */
static void give_up(struct flame_state *f, uint32_t list)
{
  while (list != NONE) {
    struct flame_node *node = &f->nodes.at[list];
    uint32_t next = node->next;
    f->left_out += node->calls;
    give_up(f, node->children.first);
    node->next = f->free;
    f->free = list;
    list = next;
  }
}

void flame_op(struct analysis *a, const struct thread *t, const struct opgap_record *r, enum opgap_op_kind kind,
              uint64_t self_ns, uint64_t self_gpu_ns)
{
  struct flame_state *f = a->flame;
  struct flame_thread *ft = thread_of(f, (size_t)(t - a->threads));
  uint32_t inside = take_deeper(f, ft, r->depth);
  struct flame_list *list = r->depth == 0 ? &f->roots[t->process] : &ft->waiting[r->depth];
  if (!analysis_in_window(a, r->end_ns)) { /* what ended in the window stands without its parent */
    merge_lists(f, list, inside);
    return;
  }
  uint32_t name = analysis_gid(a, t->process, r->field[0]);
  uint32_t index = list_find(f, list, name, (uint8_t)kind);
  if (index == NONE) {
    index = node_new(f);
    if (index == NONE) {
      f->left_out++;
      give_up(f, inside);
      return;
    }
    f->nodes.at[index].name = name;
    f->nodes.at[index].kind = (uint8_t)kind;
    list_insert(f, list, index);
  }
  struct flame_node *node = &f->nodes.at[index];
  node->calls++;
  node->self_ns += self_ns;
  node->total_ns += r->end_ns - r->start_ns;
  node->self_gpu_ns += self_gpu_ns;
  merge_lists(f, &node->children, inside);
}

/* ---- into the summary ---- */

/* Ops whose parent never ended belong to the process as they are. */
static void flush_threads(struct analysis *a)
{
  struct flame_state *f = a->flame;
  for (unsigned i = 0; i < a->thread_count; i++)
    for (unsigned d = 0; f->threads[i] != NULL && d <= f->threads[i]->deepest; d++)
      merge_lists(f, &f->roots[a->threads[i].process], f->threads[i]->waiting[d].first);
}

static int by_total(const void *left, const void *right)
{
  const struct flame_node *const *l = left, *const *r = right;
  if ((*l)->total_ns != (*r)->total_ns)
    return (*l)->total_ns < (*r)->total_ns ? 1 : -1;
  return (*l)->name < (*r)->name ? -1 : (*l)->name > (*r)->name;
}

/* Appends a list of subtrees, the largest first; returns their GPU time. */
static uint64_t list_nodes(struct analysis *a, uint32_t list, enum opgap_role role, uint32_t parent)
{
  struct flame_state *f = a->flame;
  struct opgap_sum_flame *sum = &a->summary->flame;
  VEC(const struct flame_node *) sorted = {0};
  uint64_t gpu_ns = 0;
  for (uint32_t i = list; i != NONE; i = f->nodes.at[i].next)
    *VEC_PUSH(&sorted) = &f->nodes.at[i];
  if (sorted.count > 0)
    qsort(sorted.at, sorted.count, sizeof *sorted.at, by_total);
  for (size_t i = 0; i < sorted.count; i++) {
    const struct flame_node *node = sorted.at[i];
    uint32_t index = (uint32_t)sum->count++;
    struct opgap_sum_flame_node *row = &sum->nodes[index];
    *row = (struct opgap_sum_flame_node){.name = analysis_text(a, node->name),
                                         .kind = (enum opgap_op_kind)node->kind,
                                         .role = role,
                                         .parent = parent,
                                         .calls = node->calls,
                                         .self_cpu_ns = node->self_ns,
                                         .total_cpu_ns = node->total_ns,
                                         .self_gpu_ns = node->self_gpu_ns};
    row->total_gpu_ns = node->self_gpu_ns + list_nodes(a, node->children.first, role, index);
    gpu_ns += row->total_gpu_ns;
  }
  VEC_FREE(&sorted);
  return gpu_ns;
}

void flame_finish(struct analysis *a)
{
  struct flame_state *f = a->flame;
  struct opgap_sum_flame *sum = &a->summary->flame;
  if (f == NULL)
    return;
  flush_threads(a);
  sum->nodes = opgap_pool_alloc(a->pool, f->nodes.count * sizeof *sum->nodes);
  sum->left_out = f->left_out;
  for (int role = 0; role < OPGAP_ROLE_COUNT; role++) {
    struct flame_list roots = EMPTY;
    for (unsigned i = 0; i < a->process_count; i++)
      if (a->processes[i].included && a->processes[i].role == (enum opgap_role)role)
        merge_lists(f, &roots, f->roots[i].first);
    list_nodes(a, roots.first, (enum opgap_role)role, NONE);
  }
}

void flame_close(struct analysis *a)
{
  struct flame_state *f = a->flame;
  if (f == NULL)
    return;
  for (unsigned i = 0; i < a->thread_count; i++)
    free(f->threads[i]);
  VEC_FREE(&f->nodes);
  free(f->threads);
  free(f->roots);
  free(f);
}
