/* See levels.h. */
#include "analysis/levels.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"

struct set {
  uint64_t from, to, min_ns, left_out;
  size_t limit;
  const char *label;
  VEC(struct opgap_level_span) spans;
};

struct track {
  struct opgap_level_track row;
  uint64_t lane_end[OPGAP_LANES_LIMIT]; /* where the last span of the lane ended */
};

struct maker {
  struct opgap_spans *spans;
  uint64_t duration;
  uint32_t bin_count;
  uint64_t bin_ns;
  unsigned shift; /* from ns to units of weight */
  VEC(struct track) tracks;
  struct opgap_map track_index; /* (process << 32 | stream or context, kind | ...) -> track + 1 */
  VEC(struct opgap_level_entry) entries;
  struct opgap_map entry_index; /* (kind, name) -> entry + 1 */
  struct set *sets;
  size_t set_count;
  uint64_t span_count, too_deep;
};

/* ---- bins ---- */

/* Frequent items: a newcomer takes a free place, else everybody pays for it. */
static void weigh(struct opgap_level_bin *bin, uint32_t entry, uint32_t weight)
{
  uint32_t least = UINT32_MAX;
  if (weight == 0)
    weight = 1; /* shorter than a unit, but seen */
  for (unsigned i = 0; i < OPGAP_BIN_ENTRIES; i++)
    if (bin->weight[i] > 0 && bin->entry[i] == entry) {
      bin->weight[i] += weight;
      return;
    }
  for (unsigned i = 0; i < OPGAP_BIN_ENTRIES; i++) {
    if (bin->weight[i] == 0) {
      bin->entry[i] = entry;
      bin->weight[i] = weight;
      return;
    }
    if (bin->weight[i] < least)
      least = bin->weight[i];
  }
  uint32_t paid = least < weight ? least : weight;
  for (unsigned i = 0; i < OPGAP_BIN_ENTRIES; i++)
    bin->weight[i] -= paid;
  if (weight > paid)
    weigh(bin, entry, weight - paid);
}

void opgap_level_bin_merge(struct opgap_level_bin *into, const struct opgap_level_bin *bin)
{
  into->ns += bin->ns;
  for (unsigned i = 0; i < OPGAP_BIN_ENTRIES; i++)
    if (bin->weight[i] > 0)
      weigh(into, bin->entry[i], bin->weight[i]);
}

static void cover(struct maker *m, struct track *t, unsigned lane, uint32_t entry, uint64_t start, uint64_t end)
{
  if (t->row.bins[lane] == NULL)
    t->row.bins[lane] = opgap_xcalloc(m->bin_count, sizeof *t->row.bins[lane]);
  while (start < end) {
    uint64_t index = start / m->bin_ns, until = (index + 1) * m->bin_ns;
    if (index >= m->bin_count)
      return;
    if (until > end)
      until = end;
    struct opgap_level_bin *bin = &t->row.bins[lane][index];
    bin->ns += until - start;
    weigh(bin, entry, (uint32_t)((until - start) >> m->shift));
    start = until;
  }
}

/* ---- tracks ---- */

static struct track *track_of(struct maker *m, const struct opgap_span *span)
{
  bool gpu = opgap_span_on_device(span->kind);
  enum opgap_track_kind kind = gpu                                   ? OPGAP_TRACK_GPU
                               : span->kind == OPGAP_SPAN_FREE_RANGE ? OPGAP_TRACK_RANGES
                                                                     : OPGAP_TRACK_THREAD;
  uint64_t a = (uint64_t)span->process << 32 | (gpu ? span->context : span->stream);
  uint64_t b = (uint64_t)kind << 62 | (gpu ? (uint64_t)span->device << 32 | span->gpu_stream : 0);
  uint32_t *index = opgap_map_put(&m->track_index, a, b);
  if (*index == 0) {
    struct track *t = VEC_PUSH(&m->tracks);
    t->row = (struct opgap_level_track){
        .kind = kind, .process = span->process, .stream = span->stream, .tid = span->tid, .name = ""};
    if (!gpu)
      t->row.name = opgap_spans_process_info(m->spans, span->process)->streams[span->stream].name;
    if (gpu) {
      t->row.device = span->device;
      t->row.context = span->context;
      t->row.gpu_stream = span->gpu_stream;
    }
    *index = (uint32_t)m->tracks.count;
  }
  return &m->tracks.at[*index - 1];
}

/* The lowest lane that is free and not below what is open around the span; OPGAP_LANES_LIMIT when there is none. */
static unsigned lane_of(const struct track *t, const struct opgap_span *span)
{
  unsigned lane = span->nests ? span->depth : 0;
  if (t->row.kind == OPGAP_TRACK_THREAD && !span->nests) /* inside whatever is open on its thread */
    for (unsigned l = 0; l < t->row.lanes; l++)
      if (t->lane_end[l] > span->start_ns)
        lane = l + 1;
  while (lane < OPGAP_LANES_LIMIT && t->lane_end[lane] > span->start_ns)
    lane++;
  return lane < OPGAP_LANES_LIMIT ? lane : OPGAP_LANES_LIMIT;
}

static uint32_t entry_of(struct maker *m, const struct opgap_span *span)
{
  uint32_t *index = opgap_map_put(&m->entry_index, (uint64_t)span->kind, span->name);
  if (*index == 0) {
    *VEC_PUSH(&m->entries) = (struct opgap_level_entry){span->kind, span->text};
    *index = (uint32_t)m->entries.count;
  }
  return *index - 1;
}

/* ---- sets ---- */

static int by_duration(const void *left, const void *right)
{
  uint64_t l = *(const uint64_t *)left, r = *(const uint64_t *)right;
  return l < r ? -1 : l > r;
}

/* Makes room: from now on only spans longer than the median of those held. */
static void thin_out(struct set *set)
{
  size_t count = set->spans.count, kept = 0;
  uint64_t *durations = opgap_xcalloc(count, sizeof *durations);
  for (size_t i = 0; i < count; i++)
    durations[i] = set->spans.at[i].end_ns - set->spans.at[i].start_ns;
  qsort(durations, count, sizeof *durations, by_duration);
  set->min_ns = durations[count / 2] + 1;
  free(durations);
  for (size_t i = 0; i < count; i++)
    if (set->spans.at[i].end_ns - set->spans.at[i].start_ns >= set->min_ns)
      set->spans.at[kept++] = set->spans.at[i];
  set->left_out += count - kept;
  set->spans.count = kept;
}

static void keep(struct set *set, const struct opgap_level_span *span)
{
  if (span->end_ns < set->from || span->start_ns >= set->to)
    return;
  if (span->end_ns - span->start_ns < set->min_ns) {
    set->left_out++;
    return;
  }
  if (set->spans.count >= set->limit)
    thin_out(set);
  if (span->end_ns - span->start_ns < set->min_ns)
    set->left_out++;
  else
    *VEC_PUSH(&set->spans) = *span;
}

/* ---- reading ---- */

static bool drawn(const struct opgap_span *span)
{
  return span->kind < OPGAP_SPAN_MARK;
}

static void add(struct maker *m, const struct opgap_span *span)
{
  struct track *t = track_of(m, span);
  unsigned lane = lane_of(t, span);
  if (lane == OPGAP_LANES_LIMIT) {
    m->too_deep++;
    return;
  }
  uint32_t entry = entry_of(m, span);
  m->span_count++;
  t->row.spans++;
  if (lane == 0)
    t->row.ns += span->end_ns - span->start_ns;
  if (lane >= t->row.lanes)
    t->row.lanes = lane + 1;
  t->lane_end[lane] = span->end_ns;
  if (lane < OPGAP_BIN_LANES)
    cover(m, t, lane, entry, span->start_ns, span->end_ns);
  struct opgap_level_span kept = {.track = (uint32_t)(t - m->tracks.at),
                                  .entry = entry,
                                  .lane = (uint16_t)lane,
                                  .unfinished = span->unfinished,
                                  .start_ns = span->start_ns,
                                  .end_ns = span->end_ns,
                                  .bytes = span->bytes,
                                  .path = span->path};
  for (size_t i = 0; i < m->set_count; i++)
    keep(&m->sets[i], &kept);
}

/* Fewer bins where there are many threads, so that all of them together stay small. */
static uint32_t bins_for(const struct opgap_summary *summary)
{
  size_t threads = 0;
  for (size_t i = 0; i < summary->process_count; i++)
    threads += summary->processes[i].threads;
  return threads <= 64 ? 4096 : threads <= 256 ? 2048 : threads <= 1024 ? 512 : 128;
}

static void open_sets(struct maker *m, const struct opgap_window *windows, size_t count, size_t limit)
{
  m->set_count = count + 1;
  m->sets = opgap_xcalloc(m->set_count, sizeof *m->sets);
  m->sets[0] = (struct set){.to = UINT64_MAX, .limit = limit, .label = "whole run"};
  for (size_t i = 0; i < count; i++)
    m->sets[i + 1] = (struct set){
        .from = windows[i].from_ns, .to = windows[i].to_ns, .limit = windows[i].limit, .label = windows[i].label};
}

/* ---- the result ---- */

static int busiest_first(const void *left, const void *right)
{
  const struct track *l = *(struct track *const *)left, *r = *(struct track *const *)right;
  bool lg = l->row.kind == OPGAP_TRACK_GPU, rg = r->row.kind == OPGAP_TRACK_GPU;
  if (lg != rg)
    return lg ? -1 : 1;
  return l->row.ns < r->row.ns ? 1 : l->row.ns > r->row.ns ? -1 : 0;
}

static int in_page_order(const void *left, const void *right)
{
  const struct opgap_level_track *l = &(*(struct track *const *)left)->row, *r = &(*(struct track *const *)right)->row;
  if (l->process != r->process)
    return l->process < r->process ? -1 : 1;
  bool lg = l->kind == OPGAP_TRACK_GPU, rg = r->kind == OPGAP_TRACK_GPU;
  if (lg != rg)
    return lg ? 1 : -1;
  if (lg) {
    if (l->device != r->device)
      return l->device < r->device ? -1 : 1;
    return l->gpu_stream < r->gpu_stream ? -1 : l->gpu_stream > r->gpu_stream;
  }
  if (l->stream != r->stream)
    return l->stream < r->stream ? -1 : 1;
  return (int)l->kind - (int)r->kind;
}

static int by_place(const void *left, const void *right)
{
  const struct opgap_level_span *l = left, *r = right;
  if (l->track != r->track)
    return l->track < r->track ? -1 : 1;
  if (l->lane != r->lane)
    return l->lane < r->lane ? -1 : 1;
  return l->start_ns < r->start_ns ? -1 : l->start_ns > r->start_ns;
}

/* The busiest tracks in the order of the page; places[old] is the new index, UINT32_MAX when left out. */
static void take_tracks(struct maker *m, struct opgap_levels *levels, uint32_t *places)
{
  size_t count = m->tracks.count;
  struct track **sorted = opgap_xcalloc(count, sizeof *sorted);
  for (size_t i = 0; i < count; i++)
    sorted[i] = &m->tracks.at[i];
  qsort(sorted, count, sizeof *sorted, busiest_first);
  levels->track_count = count < OPGAP_TRACKS_LIMIT ? count : OPGAP_TRACKS_LIMIT;
  levels->tracks_left_out = count - levels->track_count;
  for (size_t i = levels->track_count; i < count; i++) {
    places[sorted[i] - m->tracks.at] = UINT32_MAX;
    for (unsigned l = 0; l < OPGAP_BIN_LANES; l++)
      free(sorted[i]->row.bins[l]);
  }
  qsort(sorted, levels->track_count, sizeof *sorted, in_page_order);
  levels->tracks = opgap_xcalloc(levels->track_count, sizeof *levels->tracks);
  for (size_t i = 0; i < levels->track_count; i++) {
    levels->tracks[i] = sorted[i]->row;
    places[sorted[i] - m->tracks.at] = (uint32_t)i;
  }
  free(sorted);
}

static void take_set(struct set *set, struct opgap_level_set *row, const uint32_t *places)
{
  size_t kept = 0;
  for (size_t i = 0; i < set->spans.count; i++) {
    struct opgap_level_span span = set->spans.at[i];
    span.track = places[span.track];
    if (span.track != UINT32_MAX)
      set->spans.at[kept++] = span;
  }
  if (kept > 0)
    qsort(set->spans.at, kept, sizeof *set->spans.at, by_place);
  *row = (struct opgap_level_set){.from_ns = set->from,
                                  .to_ns = set->to,
                                  .label = set->label,
                                  .min_ns = set->min_ns,
                                  .left_out = set->left_out,
                                  .count = kept,
                                  .spans = set->spans.at};
}

static struct opgap_levels *take(struct maker *m)
{
  struct opgap_levels *levels = opgap_xcalloc(1, sizeof *levels);
  uint32_t *places = opgap_xcalloc(m->tracks.count, sizeof *places);
  levels->duration_ns = m->duration;
  levels->spans = m->span_count;
  levels->too_deep = m->too_deep;
  levels->bin_count = m->bin_count;
  take_tracks(m, levels, places);
  levels->entries = m->entries.at;
  levels->entry_count = m->entries.count;
  levels->set_count = m->set_count;
  levels->sets = opgap_xcalloc(m->set_count, sizeof *levels->sets);
  for (size_t i = 0; i < m->set_count; i++)
    take_set(&m->sets[i], &levels->sets[i], places);
  levels->sets[0].to_ns = m->duration;
  free(places);
  return levels;
}

struct opgap_levels *opgap_levels_make(struct opgap_spans *spans, const struct opgap_summary *summary,
                                       const struct opgap_window *windows, size_t window_count, size_t spans_limit,
                                       void (*progress)(void *context, uint64_t done, uint64_t total), void *context)
{
  struct maker m = {.spans = spans, .duration = summary->duration_ns};
  uint64_t done, total;
  const struct opgap_span *span;
  m.bin_count = bins_for(summary);
  m.bin_ns = m.duration / m.bin_count + 1;
  while (m.bin_ns >> m.shift > UINT32_MAX / 64) /* the coarsest bin is 16 of the finest */
    m.shift++;
  open_sets(&m, windows, window_count, spans_limit);
  while ((span = opgap_spans_next(spans)) != NULL) {
    if (drawn(span))
      add(&m, span);
    if (progress != NULL && m.span_count % 65536 == 0) {
      opgap_spans_progress(spans, &done, &total);
      progress(context, done, total);
    }
  }
  struct opgap_levels *levels = take(&m);
  opgap_map_free(&m.track_index);
  opgap_map_free(&m.entry_index);
  VEC_FREE(&m.tracks);
  free(m.sets);
  return levels;
}

void opgap_levels_free(struct opgap_levels *levels)
{
  if (levels == NULL)
    return;
  for (size_t i = 0; i < levels->track_count; i++)
    for (unsigned l = 0; l < OPGAP_BIN_LANES; l++)
      free(levels->tracks[i].bins[l]);
  for (size_t i = 0; i < levels->set_count; i++)
    free(levels->sets[i].spans);
  free(levels->tracks);
  free(levels->entries);
  free(levels->sets);
  free(levels);
}
