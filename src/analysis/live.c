/* See live.h. */
#include "analysis/live.h"

#include <stdlib.h>
#include <string.h>

/* ---- owners ---- */

/* Notes what the owner had at the last peak and at the ends of steps; before each change. */
static void note(struct live *l, struct live_owner *o)
{
  if (o->peaks != l->peaks) {
    o->peak_bytes = o->bytes;
    o->peak_count = o->count;
    o->peaks = l->peaks;
  }
  if (o->steps != l->steps) {
    uint64_t from = o->steps > LIVE_WARM_UP ? o->steps : LIVE_WARM_UP;
    if (l->steps > from)
      line_add_run(&o->growth, (double)from, (double)(l->steps - from), (double)o->bytes);
    o->steps = l->steps;
  }
}

/* Reuse forgets a joined owner, or makes a new one. */
static uint32_t new_owner(struct live *l, uint32_t thread, uint32_t op, uint32_t place)
{
  uint32_t index = (uint32_t)l->owners.count;
  if (l->spare.count > 0)
    index = l->spare.at[--l->spare.count];
  else
    VEC_PUSH(&l->owners);
  l->owners.at[index] = (struct live_owner){.thread = thread, .op = op, .place = place};
  note(l, &l->owners.at[index]); /* it had nothing at all peaks and steps before */
  return index;
}

static uint32_t site_of(struct live *l, uint32_t thread, uint32_t op, uint32_t place)
{
  uint32_t *index = opgap_map_put(&l->index, (uint64_t)thread << 32 | op, place);
  if (*index == 0)
    *index = new_owner(l, thread, op, place) + 1;
  return *index - 1;
}

/* The owner of a block that thread makes now; place 0: not known of the block alone. */
static uint32_t owner_now(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint32_t place)
{
  if (depth == 0)
    return site_of(l, thread, 0, place);
  if (w->at == NULL)
    w->at = opgap_xcalloc(LIVE_DEPTHS, sizeof *w->at);
  if (depth >= LIVE_DEPTHS)
    depth = LIVE_DEPTHS - 1;
  if (depth > w->deepest)
    w->deepest = depth;
  for (uint32_t at = w->at[depth]; at != 0; at = l->owners.at[at - 1].next)
    if (l->owners.at[at - 1].place == place)
      return at - 1;
  uint32_t owner = new_owner(l, thread, 0, place);
  l->owners.at[owner].next = w->at[depth];
  w->at[depth] = owner + 1;
  return owner;
}

static struct live_owner *accountable(const struct live *l, uint32_t owner)
{
  struct live_owner *o = &l->owners.at[owner];
  return o->site ? &l->owners.at[o->site - 1] : o;
}

static void join(struct live *l, uint32_t owner, uint32_t site)
{
  struct live_owner *from = &l->owners.at[owner], *to = &l->owners.at[site];
  note(l, from);
  note(l, to);
  to->bytes += from->bytes;
  to->count += from->count;
  to->peak_bytes += from->peak_bytes;
  to->peak_count += from->peak_count;
  if (to->growth.yy == 0 && to->growth.y0 == 0) /* of two that grow, the site's own line stays */
    to->growth = from->growth;
  from->site = site + 1;
  if (from->blocks == 0)
    *VEC_PUSH(&l->spare) = owner;
}

void live_op_ended(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint32_t op, uint32_t place)
{
  for (unsigned d = depth + 1; d <= w->deepest; d++) {
    for (uint32_t at = w->at[d], next; at != 0; at = next) {
      next = l->owners.at[at - 1].next;
      join(l, at - 1, site_of(l, thread, op, place ? place : l->owners.at[at - 1].place));
    }
    w->at[d] = 0;
  }
  w->deepest = depth;
}

/* ---- blocks ---- */

static struct live_cell *cell_of(const struct live *l, uint64_t address)
{
  uint64_t hash = address * 0x9e3779b97f4a7c15ull;
  size_t i = (hash ^ hash >> 32) & (l->size - 1);
  while (l->cells[i].address != 0 && l->cells[i].address != address)
    i = (i + 1) & (l->size - 1);
  return &l->cells[i];
}

static void grow(struct live *l)
{
  struct live old = *l;
  l->size = old.size ? old.size * 2 : 1024;
  l->cells = opgap_xcalloc(l->size, sizeof *l->cells);
  for (size_t i = 0; i < old.size; i++)
    if (old.cells[i].address != 0)
      *cell_of(l, old.cells[i].address) = old.cells[i];
  free(old.cells);
}

static void give_back(struct live *l, struct live_cell *cell)
{
  struct live_owner *maker = &l->owners.at[cell->owner], *o = accountable(l, cell->owner);
  note(l, o);
  o->bytes -= cell->bytes;
  o->count--;
  l->bytes -= cell->bytes;
  cell->bytes = 0;
  if (--maker->blocks == 0 && maker->site != 0)
    *VEC_PUSH(&l->spare) = cell->owner;
}

uint64_t live_release(struct live *l, uint64_t address)
{
  struct live_cell *cell = l->size ? cell_of(l, address) : NULL;
  uint64_t bytes = cell != NULL ? cell->bytes : 0;
  if (bytes > 0)
    give_back(l, cell);
  return bytes;
}

#define LEAST_ALIGNMENT 16u /* of blocks that have room for more than 8 bytes */

uint32_t live_hold(struct live *l, uint64_t address, uint64_t *bytes)
{
  uint64_t at = address & ~(uint64_t)(LEAST_ALIGNMENT - 1), least = at > LIVE_REACH ? at - LIVE_REACH : 1;
  if (l->size == 0)
    return 0;
  for (; at >= least; at -= LEAST_ALIGNMENT) {
    const struct live_cell *cell = cell_of(l, at);
    if (cell->bytes == 0)
      continue;
    if (address - at >= cell->bytes)
      return 0;
    *bytes = cell->bytes;
    l->owners.at[cell->owner].blocks++; /* not to be used again */
    return cell->owner + 1;
  }
  return 0;
}

const struct live_owner *live_owner_of(const struct live *l, uint32_t owner)
{
  return accountable(l, owner);
}

void live_add(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint64_t address, uint64_t bytes,
              uint64_t at_ns)
{
  if (l->used * 2 >= l->size)
    grow(l);
  struct live_cell *cell = cell_of(l, address);
  if (cell->address == 0)
    l->used++;
  else if (cell->bytes != 0)
    give_back(l, cell); /* its end was not recorded */
  cell->address = address;
  if (bytes == 0)
    return;
  w->made = address;
  w->peaks = l->peaks;
  cell->bytes = bytes;
  cell->owner = owner_now(l, w, thread, depth, 0);
  struct live_owner *o = &l->owners.at[cell->owner];
  note(l, o);
  o->blocks++;
  o->count++;
  o->bytes += bytes;
  l->bytes += bytes;
  if (l->bytes > l->peak_bytes) {
    l->peak_bytes = l->bytes;
    l->peak_ns = at_ns;
    l->peaks++;
  }
}

void live_placed(struct live *l, struct live_waiting *w, uint32_t thread, unsigned depth, uint64_t bytes,
                 uint32_t place)
{
  struct live_cell *cell = l->size ? cell_of(l, w->made) : NULL;
  if (cell == NULL || bytes == 0 || cell->bytes != bytes)
    return;
  uint32_t index = owner_now(l, w, thread, depth, place);
  struct live_owner *to = &l->owners.at[index], *from = &l->owners.at[cell->owner];
  if (to == from)
    return;
  note(l, from);
  note(l, to);
  from->bytes -= bytes;
  from->count--;
  from->blocks--;
  to->bytes += bytes;
  to->count++;
  to->blocks++;
  if (l->peaks != w->peaks) { /* it was alive at the last one */
    from->peak_bytes -= bytes;
    from->peak_count--;
    to->peak_bytes += bytes;
    to->peak_count++;
  }
  cell->owner = index;
}

/* ---- steps, the end ---- */

void live_step_ended(struct live *l, unsigned source)
{
  if (l->source != source) {
    for (size_t i = 0; i < l->owners.count; i++) {
      l->owners.at[i].steps = 0;
      l->owners.at[i].growth = (struct line){0};
    }
    l->steps = 0;
    l->source = source;
  }
  l->steps++;
}

void live_finish(struct live *l)
{
  size_t count = l->owners.count;
  for (size_t i = 0; i < count; i++) {
    struct live_owner o = l->owners.at[i];
    uint32_t site = o.site == 0 && o.op == 0 ? site_of(l, o.thread, 0, o.place) : (uint32_t)i;
    if (site != i)
      join(l, (uint32_t)i, site);
  }
  for (size_t i = 0; i < l->owners.count; i++)
    note(l, &l->owners.at[i]);
}

void live_free(struct live *l)
{
  free(l->cells);
  VEC_FREE(&l->owners);
  VEC_FREE(&l->spare);
  opgap_map_free(&l->index);
}
