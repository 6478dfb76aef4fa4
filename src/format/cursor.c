/* Decoding: the records of a stream, chunk after chunk. */
#include "format/reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "format/recover.h"
#include "format/trace.h"

#define NAME_LOST UINT32_MAX /* id of a name that a chunk uses and could not carry */

/* So few that the records are still in the first-level cache when they are looked at; a chunk's are not. */
#define DECODE_AT_ONCE 128u
/* Bytes behind a decompressed chunk: decoding so many records past its end stays in them. */
#define PADDING (DECODE_AT_ONCE * OPGAP_VARINT_MOST)

/* A column: its bytes, and where the next value is. */
struct column {
  const uint8_t *at, *end;
};

#define COLUMNS (OPGAP_COLUMN_FIELD + OPGAP_MAX_FIELDS)

/* How the records of one event are decoded in a chunk.  Columns that repeat one byte, as many do, are not read: their
 * value is in `record` from the start.  The others are read kind by kind, in the order of enum column_kind. */
enum column_kind { KIND_DURATION, KIND_STATUS, KIND_PLAIN, KIND_DELTA, KIND_NAME, KINDS };

struct plan {
  struct opgap_record record; /* the event, what does not vary, and zeros */
  uint64_t left;              /* records for which the columns that are not read have values */
  unsigned ends[KINDS];       /* behind the columns of a kind */
  struct varying {
    struct column column;
    uint64_t previous; /* of deltas */
    size_t field;      /* of the record */
  } varying[COLUMNS];
  struct column columns[COLUMNS]; /* by enum opgap_event_column, as they begin */
};

/* A fixed pattern: the record but for its times, which move with each record.  Two lines of the cache: a training has
 * hundreds of patterns. */
struct fixed {
  uint64_t lead, tail;
  uint32_t first_delta, delta_count; /* in decoder.deltas */
  struct opgap_record record;
};
struct delta {
  uint64_t step;
  unsigned field;
};

struct decoder {
  struct column common[OPGAP_COMMON_COLUMNS]; /* as they begin */
  struct column pattern, depth, end, lead, tail;
  struct opgap_tree tree;
  struct opgap_leads leads;
  uint16_t patterns[OPGAP_PATTERNS_MAX]; /* of the chunk: as plan_of, or FIXED and an index into fixed */
  unsigned pattern_count;
  struct fixed *fixed; /* [fixed_room] */
  size_t fixed_count, fixed_room;
  struct delta *deltas; /* [delta_room] */
  size_t delta_count, delta_room;
  uint64_t previous[OPGAP_MAX_FIELDS]; /* of fixed patterns' deltas */
  const uint8_t *data_end;             /* behind the last column */
  uint16_t used[OPGAP_MAX_EVENTS];     /* events with columns in this chunk */
  uint16_t used_count;
  uint16_t plan_of[OPGAP_MAX_EVENTS]; /* index into plans, + 1; 0: not in use */
  struct plan *plans;                 /* [plan_room], that of used[i] at i */
  size_t plan_room;
};
#define FIXED 0x8000u
static_assert(OPGAP_PATTERNS_MAX <= FIXED && OPGAP_MAX_EVENTS <= FIXED, "what a pattern is");

struct opgap_cursor {
  struct process *process;
  const struct stream *stream;
  size_t next_chunk;
  struct opgap_record *records; /* DECODE_AT_ONCE */
  size_t record_count, record_at;
  uint64_t records_done, records_left; /* of the chunk, decoded and not */
  uint8_t *raw;
  size_t raw_capacity;
  uint32_t *chunk_names; /* from 1; [0]: no name */
  size_t chunk_name_count, chunk_name_capacity;
  ZSTD_DCtx *zstd;
  struct decoder decoder;
};

struct opgap_cursor *opgap_cursor_open(const struct opgap_trace *trace, unsigned process, unsigned stream)
{
  struct opgap_cursor *cursor = calloc(1, sizeof *cursor);
  if (cursor == NULL)
    return NULL;
  cursor->process = trace->processes[process];
  cursor->stream = &cursor->process->streams[stream];
  cursor->zstd = ZSTD_createDCtx();
  cursor->records = calloc(DECODE_AT_ONCE, sizeof *cursor->records);
  if (cursor->zstd == NULL || cursor->records == NULL) {
    opgap_cursor_close(cursor);
    return NULL;
  }
  return cursor;
}

void opgap_cursor_close(struct opgap_cursor *cursor)
{
  if (cursor == NULL)
    return;
  ZSTD_freeDCtx(cursor->zstd);
  free(cursor->records);
  free(cursor->raw);
  free(cursor->chunk_names);
  free(cursor->decoder.plans);
  free(cursor->decoder.fixed);
  free(cursor->decoder.deltas);
  free(cursor);
}

static bool reserve(void **memory, size_t *capacity, size_t wanted, size_t unit)
{
  if (wanted <= *capacity && *memory)
    return true;
  void *grown = realloc(*memory, (wanted ? wanted : 1) * unit);
  if (grown == NULL)
    return false;
  *memory = grown;
  *capacity = wanted;
  return true;
}

/* The rest of a value of which `v` is the beginning, from its third byte on. */
static inline bool next_rest(struct column *column, const uint8_t *at, uint64_t v, uint64_t *value)
{
  uint64_t byte = 128;
  for (unsigned shift = 14; byte >= 128; shift += 7) {
    if (shift > 63)
      return false;
    byte = *at++;
    v |= (byte & 127) << shift;
  }
  *value = v;
  column->at = at;
  return true;
}

/* The next value of a column.  Most columns have values of one byte, or mostly of two. */
static inline __attribute__((always_inline)) bool next_value(struct column *column, uint64_t *value, bool checked)
{
  if (checked)
    return opgap_get_varint(&column->at, column->end, value);
  const uint8_t *at = column->at;
  uint64_t v = *at++;
  if (v >= 128) {
    uint64_t byte = *at++;
    v = (v & 127) | (byte & 127) << 7;
    if (__builtin_expect(byte >= 128, 0))
      return next_rest(column, at, v, value);
  }
  *value = v;
  column->at = at;
  return true;
}

/* The same of a column whose values have one byte or two as it comes: without a branch that cannot be foretold. */
static inline __attribute__((always_inline)) bool next_mixed(struct column *column, uint64_t *value, bool checked)
{
  if (checked)
    return opgap_get_varint(&column->at, column->end, value);
  const uint8_t *at = column->at;
  uint64_t v = at[0], byte = at[1], more = v >> 7;
  v = (v & 127) | (byte & 127 & (0 - more)) << 7;
  at += 1 + more;
  if (__builtin_expect(more & byte >> 7, 0))
    return next_rest(column, at, v, value);
  *value = v;
  column->at = at;
  return true;
}

/* The plan of an event of this chunk, made when it is not there; NULL: no memory. */
static struct plan *use_event(struct decoder *decoder, unsigned event)
{
  if (decoder->plan_of[event] != 0)
    return &decoder->plans[decoder->plan_of[event] - 1];
  if (decoder->used_count == decoder->plan_room &&
      !reserve((void **)&decoder->plans, &decoder->plan_room, 2 * decoder->plan_room + 8, sizeof *decoder->plans))
    return NULL;
  struct plan *plan = &decoder->plans[decoder->used_count];
  decoder->used[decoder->used_count++] = (uint16_t)event;
  decoder->plan_of[event] = decoder->used_count;
  memset(plan->columns, 0, sizeof plan->columns);
  return plan;
}

/* Sets up the columns. */
static bool read_directory(struct decoder *decoder, const uint8_t **at, const uint8_t *end, uint64_t count)
{
  if (count > (uint64_t)(end - *at) / sizeof(struct opgap_column_entry))
    return false;
  while (decoder->used_count > 0)
    decoder->plan_of[decoder->used[--decoder->used_count]] = 0;
  const uint8_t *entry_at = *at, *data = *at + count * sizeof(struct opgap_column_entry);
  memset(decoder->common, 0, sizeof decoder->common);
  for (uint64_t i = 0; i < count; i++, entry_at += sizeof(struct opgap_column_entry)) {
    struct opgap_column_entry entry;
    memcpy(&entry, entry_at, sizeof entry);
    if (entry.bytes > (uint64_t)(end - data))
      return false;
    struct column column = {data, data + entry.bytes};
    data += entry.bytes;
    if (entry.event == 0 && entry.field < OPGAP_COMMON_COLUMNS)
      decoder->common[entry.field] = column;
    else if (entry.event > 0 && entry.event < OPGAP_MAX_EVENTS && entry.field < COLUMNS) {
      struct plan *plan = use_event(decoder, entry.event);
      if (plan == NULL)
        return false;
      plan->columns[entry.field] = column;
    }
  }
  decoder->data_end = *at = data;
  return true;
}

static bool read_names(struct opgap_cursor *cursor, const uint8_t *at, const uint8_t *end, size_t *count)
{
  uint64_t names;
  if (!opgap_get_varint(&at, end, &names) || names > (uint64_t)(end - at) / 2 ||
      !reserve((void **)&cursor->chunk_names, &cursor->chunk_name_capacity, names + 1, sizeof *cursor->chunk_names))
    return false;
  cursor->chunk_names[0] = 0;
  for (uint64_t i = 1; i <= names; i++) {
    uint64_t id, length;
    if (!opgap_get_varint(&at, end, &id) || !opgap_get_varint(&at, end, &length) || length > (uint64_t)(end - at))
      return false;
    name_add(cursor->process, id, at, length);
    cursor->chunk_names[i] = length && id <= UINT32_MAX ? (uint32_t)id : NAME_LOST;
    at += length;
  }
  *count = names;
  return true;
}

static inline uint64_t name_of_chunk(const struct opgap_cursor *cursor, uint64_t index)
{
  return index <= cursor->chunk_name_count ? cursor->chunk_names[index] : 0;
}

/* Whether a column repeats one value, which is then stored.  Not so a column of deltas unless it stays at 0. */
static bool is_constant(const struct opgap_cursor *cursor, const struct column *column, enum column_kind kind,
                        uint64_t *value)
{
  size_t size = (size_t)(column->end - column->at);
  if (size == 0 || column->at[0] >= 128 || memcmp(column->at, column->at + 1, size - 1) != 0)
    return false;
  *value = kind == KIND_NAME ? name_of_chunk(cursor, column->at[0]) : column->at[0];
  return kind != KIND_DURATION && (kind != KIND_DELTA || *value == 0);
}

static enum column_kind kind_of(const struct opgap_event *row, unsigned column)
{
  if (column == OPGAP_COLUMN_DURATION)
    return KIND_DURATION;
  if (column == OPGAP_COLUMN_STATUS)
    return KIND_STATUS;
  uint8_t coding = row->fields[column - OPGAP_COLUMN_FIELD].coding;
  return coding == OPGAP_DELTA ? KIND_DELTA : coding == OPGAP_NAME ? KIND_NAME : KIND_PLAIN;
}

/* Where a missing column would be: what is read there lies behind its end. */
static struct column present(const struct decoder *decoder, struct column column)
{
  return column.at != NULL ? column : (struct column){decoder->data_end, decoder->data_end};
}

static void add_varying(const struct decoder *decoder, struct plan *plan, unsigned count, unsigned column)
{
  plan->varying[count] = (struct varying){.column = present(decoder, plan->columns[column]),
                                          .field = column < OPGAP_COLUMN_FIELD ? 0 : column - OPGAP_COLUMN_FIELD};
}

static void make_plan(const struct opgap_cursor *cursor, struct plan *plan, const struct opgap_event *row)
{
  unsigned count = 0, columns = OPGAP_COLUMN_FIELD + row->field_count;
  plan->record = (struct opgap_record){.event = row->id};
  plan->left = UINT64_MAX;
  for (enum column_kind kind = KIND_DURATION; kind < KINDS; kind++) {
    for (unsigned i = row->kind == OPGAP_SPAN ? 0 : 1; i < columns; i++) {
      const struct column *column = &plan->columns[i];
      uint64_t value;
      if (kind_of(row, i) != kind)
        continue;
      if (!is_constant(cursor, column, kind, &value)) {
        add_varying(&cursor->decoder, plan, count++, i);
        continue;
      }
      if (kind == KIND_STATUS)
        plan->record.status = (uint32_t)value;
      else
        plan->record.field[i - OPGAP_COLUMN_FIELD] = value;
      if ((size_t)(column->end - column->at) < plan->left)
        plan->left = (size_t)(column->end - column->at);
    }
    plan->ends[kind] = count;
  }
}

static inline __attribute__((always_inline)) bool
decode_fixed(struct decoder *decoder, struct fixed *fixed, uint64_t *of_pair, struct opgap_record *record, bool checked)
{
  uint64_t lead, tail;
  if (!next_mixed(&decoder->lead, &lead, checked) || !next_mixed(&decoder->tail, &tail, checked))
    return false;
  *record = fixed->record;
  lead = *of_pair = fixed->lead = (*of_pair ? *of_pair : fixed->lead) + opgap_unzigzag(lead);
  tail = fixed->tail += opgap_unzigzag(tail);
  struct opgap_tree *tree = &decoder->tree;
  bool parent = opgap_tree_is_parent(tree, record->depth);
  record->start_ns = parent ? tree->first[record->depth + 1] - lead : tree->end + lead;
  record->end_ns = (parent ? tree->end : record->start_ns) + tail;
  opgap_tree_add(tree, record->depth, record->start_ns, record->end_ns);
  const struct delta *delta = decoder->deltas + fixed->first_delta;
  for (unsigned i = fixed->delta_count; i > 0; i--, delta++)
    record->field[delta->field] = decoder->previous[delta->field] += delta->step;
  return true;
}

/* Not checked: a value that lies behind the end of its column is some value, and its column's place says so later. */
static inline __attribute__((always_inline)) bool decode_record(struct opgap_cursor *cursor,
                                                                struct opgap_record *record, bool checked)
{
  struct decoder *decoder = &cursor->decoder;
  uint64_t pattern, depth, value;
  if (!next_value(&decoder->pattern, &pattern, checked) || pattern >= decoder->pattern_count)
    return false;
  unsigned index = decoder->patterns[pattern];
  if (index & FIXED)
    return decode_fixed(decoder, &decoder->fixed[index & ~FIXED], opgap_lead_next(&decoder->leads, (uint32_t)pattern),
                        record, checked);
  decoder->leads.pattern = (uint32_t)pattern;
  if (!next_value(&decoder->depth, &depth, checked) || !next_value(&decoder->end, &value, checked) || index == 0)
    return false;
  struct plan *plan = &decoder->plans[index - 1];
  if (plan->left-- == 0)
    return false;
  *record = plan->record;
  record->depth = (uint8_t)depth;
  record->end_ns = record->start_ns = decoder->tree.end + opgap_unzigzag(value);
  struct varying *v = plan->varying, *plain = v + plan->ends[KIND_PLAIN], *delta = v + plan->ends[KIND_DELTA],
                 *name = v + plan->ends[KIND_NAME];
  if (plan->ends[KIND_DURATION] > 0) {
    if (!next_value(&v++->column, &value, checked))
      return false;
    record->start_ns -= opgap_unzigzag(value);
  }
  opgap_tree_add(&decoder->tree, record->depth, record->start_ns, record->end_ns);
  if (plan->ends[KIND_STATUS] > plan->ends[KIND_DURATION]) {
    if (!next_value(&v++->column, &value, checked))
      return false;
    record->status = (uint32_t)value;
  }
  for (; v < plain; v++)
    if (!next_value(&v->column, &record->field[v->field], checked))
      return false;
  for (; v < delta; v++) {
    if (!next_value(&v->column, &value, checked))
      return false;
    record->field[v->field] = v->previous += opgap_unzigzag(value);
  }
  for (; v < name; v++) {
    if (!next_value(&v->column, &value, checked))
      return false;
    record->field[v->field] = name_of_chunk(cursor, value);
  }
  return true;
}

static bool get_varints(const uint8_t **at, const uint8_t *end, uint64_t *values, unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    if (!opgap_get_varint(at, end, &values[i]))
      return false;
  return true;
}

/* A row of a fixed pattern behind its event and form; NULL: it cannot be read. */
static struct fixed *read_fixed(struct opgap_cursor *cursor, const struct opgap_event *row, const uint8_t **at,
                                const uint8_t *end)
{
  struct decoder *decoder = &cursor->decoder;
  uint64_t values[2 + OPGAP_MAX_FIELDS];
  if (row == NULL || row->kind != OPGAP_SPAN || !get_varints(at, end, values, 2u + row->field_count))
    return NULL;
  if (decoder->fixed_count == decoder->fixed_room &&
      !reserve((void **)&decoder->fixed, &decoder->fixed_room, 2 * decoder->fixed_room + 64, sizeof *decoder->fixed))
    return NULL;
  if (decoder->delta_room - decoder->delta_count < row->field_count &&
      !reserve((void **)&decoder->deltas, &decoder->delta_room, 2 * decoder->delta_room + 64, sizeof *decoder->deltas))
    return NULL;
  struct fixed *fixed = &decoder->fixed[decoder->fixed_count++];
  fixed->record = (struct opgap_record){.event = row->id, .depth = (uint8_t)values[0], .status = (uint32_t)values[1]};
  fixed->lead = fixed->tail = fixed->delta_count = 0;
  fixed->first_delta = (uint32_t)decoder->delta_count;
  for (unsigned f = 0; f < row->field_count; f++) {
    uint64_t value = values[2 + f];
    switch (row->fields[f].coding) {
    case OPGAP_NAME:
      fixed->record.field[f] = name_of_chunk(cursor, value);
      break;
    case OPGAP_DELTA:
      if (value == 0) {
        fixed->record.field[f] = UINT64_MAX;
        break;
      }
      decoder->deltas[decoder->delta_count++] = (struct delta){opgap_unzigzag(value - 1), f};
      fixed->delta_count++;
      break;
    default:
      fixed->record.field[f] = value;
    }
  }
  return fixed;
}

/* The patterns of a chunk, up to the first that cannot be read.  In version 1 an event's id was its pattern. */
static void read_patterns(struct opgap_cursor *cursor)
{
  struct decoder *decoder = &cursor->decoder;
  struct column rows = decoder->common[OPGAP_COLUMN_PATTERNS];
  uint64_t head[2]; /* event, form */
  decoder->fixed_count = decoder->delta_count = decoder->pattern_count = 0;
  if (rows.at == NULL) {
    memcpy(decoder->patterns, decoder->plan_of, sizeof decoder->plan_of);
    decoder->pattern_count = OPGAP_MAX_EVENTS;
    return;
  }
  while (rows.at < rows.end && decoder->pattern_count < OPGAP_PATTERNS_MAX &&
         get_varints(&rows.at, rows.end, head, 2) && head[0] < OPGAP_MAX_EVENTS) {
    if (head[1] == OPGAP_PATTERN_LOOSE)
      decoder->patterns[decoder->pattern_count++] = decoder->plan_of[head[0]];
    else if (head[1] == OPGAP_PATTERN_FIXED &&
             read_fixed(cursor, cursor->process->events[head[0]], &rows.at, rows.end) != NULL)
      decoder->patterns[decoder->pattern_count++] = (uint16_t)(FIXED | (decoder->fixed_count - 1));
    else
      break;
  }
}

/* To the chunk's first record. */
static void rewind_chunk(struct opgap_cursor *cursor)
{
  struct decoder *decoder = &cursor->decoder;
  for (unsigned i = 0; i < decoder->used_count; i++) {
    const struct opgap_event *row = cursor->process->events[decoder->used[i]];
    if (row != NULL)
      make_plan(cursor, &decoder->plans[i], row);
    else
      decoder->plan_of[decoder->used[i]] = 0; /* an event that is not described is not decoded */
  }
  read_patterns(cursor);
  const struct column *common = decoder->common;
  bool has_patterns = common[OPGAP_COLUMN_PATTERNS].at != NULL;
  decoder->pattern = present(decoder, common[has_patterns ? OPGAP_COLUMN_PATTERN : OPGAP_COLUMN_EVENT]);
  decoder->depth = present(decoder, common[OPGAP_COLUMN_DEPTH]);
  decoder->end = present(decoder, common[OPGAP_COLUMN_END]);
  decoder->lead = present(decoder, common[OPGAP_COLUMN_LEAD]);
  decoder->tail = present(decoder, common[OPGAP_COLUMN_TAIL]);
  decoder->tree.end = cursor->process->shift_ns;
  decoder->tree.depth = 0;
  memset(&decoder->leads, 0, sizeof decoder->leads);
  memset(decoder->previous, 0, sizeof decoder->previous);
}

/* Opens a chunk: its columns and names; its records come in decode_some. */
static bool open_chunk(struct opgap_cursor *cursor, const struct opgap_chunk_header *chunk, const uint8_t *payload)
{
  uint64_t records, columns;
  if (!reserve((void **)&cursor->raw, &cursor->raw_capacity, (size_t)chunk->raw_bytes + PADDING, 1))
    return false;
  size_t size = ZSTD_decompressDCtx(cursor->zstd, cursor->raw, chunk->raw_bytes, payload, chunk->stored_bytes);
  process_touched(cursor->process, chunk->stored_bytes);
  if (ZSTD_isError(size))
    return false;
  memset(cursor->raw + size, 0, PADDING);
  const uint8_t *at = cursor->raw, *end = cursor->raw + size;
  if (!opgap_get_varint(&at, end, &records) || !opgap_get_varint(&at, end, &columns) ||
      records > OPGAP_CHUNK_RECORDS_MAX || records > chunk->records)
    return false;
  if (!read_directory(&cursor->decoder, &at, end, columns) || !read_names(cursor, at, end, &cursor->chunk_name_count))
    return false;
  rewind_chunk(cursor);
  cursor->records_done = 0;
  cursor->records_left = records;
  atomic_fetch_add(&cursor->process->invalid, chunk->records - records); /* that only the header claims */
  return true;
}

/* Decodes up to `wanted` records; returns how many there are before the first that cannot be. */
static inline __attribute__((always_inline)) size_t decode_records(struct opgap_cursor *cursor, size_t wanted,
                                                                   bool checked)
{
  size_t count = 0;
  while (count < wanted && decode_record(cursor, &cursor->records[count], checked))
    count++;
  return count;
}

static bool is_within(const struct column *column)
{
  return column->at <= column->end;
}

/* No column was read past its end. */
static bool are_within(const struct decoder *decoder)
{
  bool within = is_within(&decoder->pattern) && is_within(&decoder->depth) && is_within(&decoder->end) &&
                is_within(&decoder->lead) && is_within(&decoder->tail);
  for (unsigned i = 0; i < decoder->used_count && within; i++) {
    const struct plan *plan = &decoder->plans[i];
    for (unsigned k = 0; decoder->plan_of[decoder->used[i]] != 0 && k < plan->ends[KIND_NAME]; k++)
      within = within && is_within(&plan->varying[k].column);
  }
  return within;
}

/* Decodes a chunk again, with all checks, up to the records wanted now. */
static size_t decode_again(struct opgap_cursor *cursor, size_t wanted)
{
  rewind_chunk(cursor);
  for (uint64_t i = 0; i < cursor->records_done; i++)
    if (decode_records(cursor, 1, true) == 0)
      return 0;
  return decode_records(cursor, wanted, true);
}

/* Values are looked for without asking where their columns end, which the padding makes safe.  Where that went wrong,
 * as in a damaged chunk only, the chunk is decoded again with all checks. */
static void decode_some(struct opgap_cursor *cursor)
{
  size_t wanted = cursor->records_left < DECODE_AT_ONCE ? cursor->records_left : DECODE_AT_ONCE;
  cursor->record_at = cursor->record_count = 0;
  if (wanted == 0)
    return; /* the chunk could not be opened: there may be no plans */
  cursor->record_count = decode_records(cursor, wanted, false);
  if (cursor->record_count < wanted || !are_within(&cursor->decoder))
    cursor->record_count = decode_again(cursor, wanted);
  cursor->records_done += cursor->record_count;
  cursor->records_left -= cursor->record_count;
  if (cursor->record_count == wanted)
    return;
  atomic_fetch_add(&cursor->process->invalid, cursor->records_left);
  cursor->records_left = 0;
}

size_t opgap_cursor_batch(struct opgap_cursor *cursor, const struct opgap_record **records)
{
  while (cursor->record_at == cursor->record_count) {
    if (cursor->records_left == 0) {
      if (cursor->next_chunk == cursor->stream->count)
        return 0;
      const uint8_t *payload = cursor->stream->chunks[cursor->next_chunk++];
      struct opgap_chunk_header chunk = chunk_header(payload);
      if (!open_chunk(cursor, &chunk, payload))
        atomic_fetch_add(&cursor->process->invalid, chunk.records);
    }
    decode_some(cursor);
  }
  size_t count = cursor->record_count - cursor->record_at;
  *records = cursor->records + cursor->record_at;
  cursor->record_at = cursor->record_count;
  return count;
}

const struct opgap_record *opgap_cursor_next(struct opgap_cursor *cursor)
{
  if (cursor->record_at == cursor->record_count) {
    const struct opgap_record *unused;
    if (opgap_cursor_batch(cursor, &unused) == 0)
      return NULL;
    cursor->record_at = 0;
  }
  return &cursor->records[cursor->record_at++];
}
