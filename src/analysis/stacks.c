#include "analysis/stacks.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ahead.h"
#include "analysis/symbols.h"

#define INLINED 16u  /* functions at one address */
#define FRAMES 1024u /* of one stack, inlined ones included */

/* A frame of any kind, once for each place in the code. */
struct frame {
  uint32_t function, line, module; /* ids of strings: rows by each */
  bool interpreter;                /* CPython's loop: Python frames belong in its place */
  enum { NO_NAME, NO_SOURCE, NATIVE_SOURCE, PYTHON_SOURCE } source; /* what a source location can say */
};

/* The frames at one address, innermost first. */
struct place {
  struct frame frames[INLINED];
  unsigned count;
  bool is_signal; /* what the kernel calls a handler through: the frame that called it was interrupted */
};

struct seen_stack {
  uint64_t name_id;
  uint32_t call; /* string: the recorded call; 0: an op */
  uint64_t ns, count, bytes;
};

struct seen_module {
  const char *path, *build_id;
};

struct module_list {
  VEC(struct seen_module) v;
};

struct reading {
  const struct opgap_source *source;
  struct opgap_pool *pool;
  unsigned process;
  enum opgap_stack_by by;
  struct opgap_stack_table *table;
  struct opgap_symbols *symbols;
  struct opgap_strings strings;
  struct module_list modules;    /* of the process */
  VEC(struct seen_stack) stacks; /* of the process */
  struct opgap_map stack_index;  /* (name id, call) -> stacks + 1 */
  VEC(struct place) places;      /* of the process */
  struct opgap_map place_index;  /* (address of the code, module) -> places + 1 */
  VEC(struct opgap_stack_row) rows;
  struct opgap_map row_index; /* (string, 0) -> rows + 1 */
};

const char *opgap_stack_by_name(enum opgap_stack_by by)
{
  static const char *const names[] = {"function", "line", "module", "stack"};
  return names[by];
}

enum opgap_stack_by opgap_stack_by_parse(const char *text)
{
  int by = 0;
  while (by < OPGAP_BY_COUNT && strcmp(text, opgap_stack_by_name((enum opgap_stack_by)by)) != 0)
    by++;
  return (enum opgap_stack_by)by;
}

static uint32_t string(struct reading *r, const char *text)
{
  return opgap_strings_id(&r->strings, text, strlen(text));
}

static const char *name_of(const struct reading *r, uint64_t id)
{
  return r->source->name(r->source->context, r->process, id, NULL);
}

/* ---- records ---- */

static void add_module(const struct opgap_source *source, unsigned process, struct opgap_pool *pool,
                       struct module_list *modules, const struct opgap_record *record)
{
  if (record->status >= 65536)
    return;
  while (modules->v.count <= record->status)
    *VEC_PUSH(&modules->v) = (struct seen_module){"", ""};
  struct seen_module *m = &modules->v.at[record->status];
  m->path = opgap_pool_string(pool, source->name(source->context, process, record->field[0], NULL));
  m->build_id = opgap_pool_string(pool, source->name(source->context, process, record->field[1], NULL));
}

static const struct seen_module *module_at(const struct reading *r, uint64_t index)
{
  return index < r->modules.v.count ? &r->modules.v.at[index] : NULL;
}

/* Time of the stacks that have no op around them yet, by depth. */
struct levels {
  uint64_t ns[257];
  uint64_t inside; /* the op whose record came last */
  unsigned deepest;
};

/* An op, with or without a stack of its own, which would follow. */
static void end_op(struct levels *levels, unsigned depth)
{
  levels->inside = 0;
  for (unsigned d = depth + 1; d <= levels->deepest; d++) {
    levels->inside += levels->ns[d];
    levels->ns[d] = 0;
  }
  levels->ns[depth] += levels->inside;
  levels->deepest = depth;
}

static void add_stack(struct reading *r, struct levels *levels, const struct opgap_record *record)
{
  const struct opgap_event *event = r->source->event(r->source->context, r->process, record->status);
  bool op = record->status == OPGAP_EV_OP || record->status == OPGAP_EV_RANGE;
  uint64_t inside = op ? levels->inside : 0;
  uint64_t ns = record->field[1] > inside ? record->field[1] - inside : 0;
  uint32_t call = !op && event ? string(r, event->name) : 0;
  levels->ns[record->depth] += ns;
  if (record->depth > levels->deepest)
    levels->deepest = record->depth;
  uint32_t *index = opgap_map_put(&r->stack_index, record->field[0], call);
  if (*index == 0) {
    *VEC_PUSH(&r->stacks) = (struct seen_stack){.name_id = record->field[0], .call = call};
    *index = (uint32_t)r->stacks.count;
  }
  struct seen_stack *stack = &r->stacks.at[*index - 1];
  stack->ns += ns;
  stack->count++;
  stack->bytes += record->field[2];
}

static void read_streams(struct reading *r)
{
  struct ahead_streams *streams = ahead_streams_begin(r->source, r->process);
  struct levels *levels = opgap_xcalloc(1, sizeof *levels);
  const struct opgap_record *records;
  size_t now = SIZE_MAX, stream;
  for (size_t n; (n = ahead_streams_next(streams, &stream, &records)) > 0;) {
    if (stream != now)
      *levels = (struct levels){0};
    now = stream;
    for (size_t i = 0; i < n; i++) {
      if (records[i].event == OPGAP_EV_STACK)
        add_stack(r, levels, &records[i]);
      else if (records[i].event == OPGAP_EV_MODULE)
        add_module(r->source, r->process, r->pool, &r->modules, &records[i]);
      else if (records[i].event == OPGAP_EV_OP || records[i].event == OPGAP_EV_RANGE)
        end_op(levels, records[i].depth);
    }
  }
  ahead_streams_end(streams);
  free(levels);
}

/* ---- frames ---- */

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static const char *line_text(struct reading *r, const struct opgap_symbol *symbol, const char *module)
{
  if (symbol->file[0] == '\0')
    return opgap_pool_printf(r->pool, "%s (%s)", symbol->function, base_name(module));
  return opgap_pool_printf(r->pool, "%s:%u %s", symbol->file, symbol->line, symbol->function);
}

/* The C runtime, in every stack of a program: its debug information may be there where the program's is not. */
static bool is_runtime(const char *path)
{
  static const char *const names[] = {"libc.so", "libc-2", "ld-linux", "libpthread", "libstdc++", "libgcc_s"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(base_name(path), names[i], strlen(names[i])) == 0)
      return true;
  return false;
}

static void find_place(struct reading *r, struct place *place, uint64_t module, uint64_t address)
{
  struct opgap_symbol found[INLINED];
  const struct seen_module *m = module_at(r, module);
  const char *path = m && m->path[0] ? m->path : "(no file)";
  unsigned count = m ? opgap_symbols_find(r->symbols, m->path, m->build_id, address, found, INLINED) : 0;
  if (count == 0) {
    const char *text = opgap_pool_printf(r->pool, "%s+0x%" PRIx64, base_name(path), address);
    place->frames[0] = (struct frame){string(r, text), string(r, text), string(r, path), false, NO_NAME};
    place->count = 1;
    return;
  }
  bool runtime = is_runtime(path);
  for (unsigned i = 0; i < count; i++)
    place->frames[i] = (struct frame){string(r, found[i].function), string(r, line_text(r, &found[i], path)),
                                      string(r, path), strncmp(found[i].function, "_PyEval_EvalFrameDefault", 24) == 0,
                                      runtime                    ? NO_NAME
                                      : found[i].file[0] != '\0' ? NATIVE_SOURCE
                                                                 : NO_SOURCE};
  place->count = count;
}

static void find_signal(struct reading *r, struct place *place, uint64_t module, uint64_t address)
{
  const struct seen_module *m = module_at(r, module);
  place->is_signal = m != NULL && opgap_symbols_is_signal(r->symbols, m->path, m->build_id, address);
  if (place->is_signal) {
    uint32_t text = string(r, "<signal handler called>");
    place->frames[0] = (struct frame){text, text, string(r, m->path), false, NO_NAME};
    place->count = 1;
  }
}

/* `interrupted`: it was about to run what is at its address; else its address is behind a call. */
static const struct place *place_of(struct reading *r, uint64_t module, uint64_t address, bool interrupted)
{
  uint64_t code = address - !interrupted;
  uint32_t *index = opgap_map_put(&r->place_index, code, module + 1);
  if (*index == 0) {
    struct place *place = VEC_PUSH(&r->places);
    *index = (uint32_t)r->places.count;
    if (!interrupted)
      find_signal(r, place, module, address);
    if (!place->is_signal)
      find_place(r, place, module, code);
    return place;
  }
  return &r->places.at[*index - 1];
}

/* "FILE:LINE FUNCTION"; files may have blanks in their names, functions have none. */
static struct frame python_frame(struct reading *r, uint64_t id)
{
  const char *text = name_of(r, id), *function = strrchr(text, ' ');
  const char *colon = function ? memrchr(text, ':', (size_t)(function - text)) : NULL;
  size_t file = colon ? (size_t)(colon - text) : strlen(text);
  return (struct frame){string(r, function ? function + 1 : text), string(r, text),
                        opgap_strings_id(&r->strings, text, file), false, PYTHON_SOURCE};
}

static bool get_number(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
  *value = 0;
  for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128)
      return true;
  }
  return false;
}

unsigned opgap_stack_python(const char *stack, size_t length, uint64_t *frames, unsigned room)
{
  const uint8_t *at = (const uint8_t *)stack + 1, *end = (const uint8_t *)stack + length;
  uint64_t kind, value;
  unsigned count = 0;
  if (length == 0 || stack[0] != 1)
    return 0;
  while (count < room && get_number(&at, end, &kind) && get_number(&at, end, &value))
    if (kind == 0)
      frames[count++] = value >> 1;
  return count;
}

struct frames {
  struct frame at[FRAMES];
  unsigned count;
};

static void push(struct frames *frames, struct frame frame)
{
  if (frames->count < FRAMES)
    frames->at[frames->count++] = frame;
}

/* The Python frames of one run of the interpreter's loop take that loop's place; `next` moves behind them. */
static void push_run(struct reading *r, struct frames *to, const uint64_t *python, unsigned count, unsigned *next)
{
  while (*next < count) {
    uint64_t frame = python[(*next)++];
    push(to, python_frame(r, frame >> 1));
    if (frame & 1)
      break;
  }
}

/* Decodes a stack, innermost frame first. */
static void decode(struct reading *r, uint64_t name_id, struct frames *frames)
{
  size_t length;
  const uint8_t *bytes = (const uint8_t *)r->source->name(r->source->context, r->process, name_id, &length);
  const uint8_t *at = bytes + 1, *end = bytes + length;
  uint64_t python[FRAMES], kind, value;
  unsigned python_count = 0, next = 0;
  frames->count = 0;
  if (length == 0 || bytes[0] != 1)
    return;
  while (get_number(&at, end, &kind) && get_number(&at, end, &value)) /* Python's come last */
    if (kind == 0 && python_count < FRAMES)
      python[python_count++] = value;
  at = bytes + 1;
  bool interrupted = false;
  while (get_number(&at, end, &kind) && get_number(&at, end, &value)) {
    if (kind == 0)
      continue;
    const struct place *place = place_of(r, kind == 1 ? UINT32_MAX : kind - 2, value, interrupted);
    interrupted = place->is_signal;
    for (unsigned i = 0; i < place->count; i++) {
      if (place->frames[i].interpreter && next < python_count)
        push_run(r, frames, python, python_count, &next);
      else
        push(frames, place->frames[i]);
    }
  }
  while (next < python_count) /* only Python was recorded, or the interpreter has no names */
    push_run(r, frames, python, python_count, &next);
}

/* ---- rows ---- */

static struct opgap_stack_row *row(struct reading *r, uint32_t text)
{
  uint32_t *index = opgap_map_put(&r->row_index, text, 1);
  if (*index == 0) {
    VEC_PUSH(&r->rows)->text = opgap_strings_text(&r->strings, text);
    *index = (uint32_t)r->rows.count;
  }
  return &r->rows.at[*index - 1];
}

static uint32_t key_of(const struct reading *r, const struct frame *frame)
{
  return r->by == OPGAP_BY_FUNCTION ? frame->function : r->by == OPGAP_BY_LINE ? frame->line : frame->module;
}

/* Functions from the outermost on, then the call; ";" ends a name in this format. */
static uint32_t whole_stack(struct reading *r, const struct frames *frames, uint32_t call)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL)
    return 0;
  for (unsigned i = frames->count; i-- > 0;) {
    for (const char *p = opgap_strings_text(&r->strings, frames->at[i].function); *p; p++)
      fputc(*p == ';' || *p == '\n' ? ' ' : *p, out);
    if (i > 0 || call)
      fputc(';', out);
  }
  fputs(opgap_strings_text(&r->strings, call), out);
  fclose(out);
  uint32_t id = opgap_strings_id(&r->strings, text, size);
  free(text);
  return id;
}

static void add_rows(struct reading *r, const struct seen_stack *stack, struct frames *frames)
{
  decode(r, stack->name_id, frames);
  r->table->ns += stack->ns;
  r->table->stacks += stack->count;
  if (frames->count == 0)
    return;
  bool whole = r->by == OPGAP_BY_STACK;
  struct opgap_stack_row *leaf = row(r, whole ? whole_stack(r, frames, stack->call) : key_of(r, &frames->at[0]));
  leaf->self_ns += stack->ns;
  for (unsigned i = 0; i < (whole ? 1 : frames->count); i++) {
    bool again = false; /* a recursive function counts once */
    for (unsigned k = 0; k < i && !again; k++)
      again = key_of(r, &frames->at[k]) == key_of(r, &frames->at[i]);
    if (again)
      continue;
    struct opgap_stack_row *to = whole ? leaf : row(r, key_of(r, &frames->at[i]));
    to->total_ns += stack->ns;
    to->count += stack->count;
    to->bytes += stack->bytes;
  }
}

/* The modules and stacks of the process. */
static void read_records(struct reading *r)
{
  r->modules.v.count = r->stacks.count = r->places.count = 0;
  opgap_map_clear(&r->stack_index);
  opgap_map_clear(&r->place_index);
  read_streams(r);
}

static uint64_t told(const struct reading *r, const char *key)
{
  const char *text = r->source->info(r->source->context, r->process, key);
  return text ? strtoull(text, NULL, 10) : 0;
}

static void read_process(struct reading *r)
{
  read_records(r);
  struct frames *frames = opgap_xcalloc(1, sizeof *frames);
  for (size_t i = 0; i < r->stacks.count; i++)
    add_rows(r, &r->stacks.at[i], frames);
  free(frames);
  r->table->distinct += r->stacks.count;
  r->table->skipped += told(r, "stacks_skipped");
  r->table->failed += told(r, "stacks_failed");
  r->table->cost_ns += told(r, "stacks_ns");
}

static int by_self(const void *left, const void *right)
{
  const struct opgap_stack_row *l = left, *r = right;
  if (l->self_ns != r->self_ns)
    return l->self_ns < r->self_ns ? 1 : -1;
  if (l->total_ns != r->total_ns)
    return l->total_ns < r->total_ns ? 1 : -1;
  return strcmp(l->text, r->text);
}

struct opgap_stack_table *opgap_stack_table_read(const struct opgap_source *source, enum opgap_stack_by by,
                                                 int32_t process)
{
  struct opgap_pool *pool = opgap_pool_new();
  struct opgap_stack_table *table = opgap_pool_alloc(pool, sizeof *table);
  struct reading r = {
      .source = source, .pool = pool, .by = by, .table = table, .symbols = opgap_symbols_new(pool, source->path)};
  table->pool = pool;
  opgap_strings_init(&r.strings, pool);
  for (r.process = 0; r.process < source->process_count; r.process++)
    if (process == 0 || source->process(source->context, r.process)->pid == process)
      read_process(&r);
  if (r.rows.count > 0)
    qsort(r.rows.at, r.rows.count, sizeof *r.rows.at, by_self);
  table->row_count = r.rows.count;
  table->rows = opgap_pool_alloc(pool, r.rows.count * sizeof *table->rows);
  if (r.rows.count > 0)
    memcpy(table->rows, r.rows.at, r.rows.count * sizeof *table->rows);
  table->changed_modules = opgap_symbols_changed(r.symbols);
  opgap_symbols_free(r.symbols);
  opgap_strings_free(&r.strings);
  opgap_map_free(&r.stack_index);
  opgap_map_free(&r.place_index);
  opgap_map_free(&r.row_index);
  VEC_FREE(&r.modules.v);
  VEC_FREE(&r.stacks);
  VEC_FREE(&r.places);
  VEC_FREE(&r.rows);
  return table;
}

void opgap_stack_table_free(struct opgap_stack_table *table)
{
  if (table != NULL)
    opgap_pool_free(table->pool);
}

/* ---- modules ---- */

static void mark_modules(struct reading *r, uint64_t name_id, bool *used)
{
  size_t length;
  const uint8_t *bytes = (const uint8_t *)r->source->name(r->source->context, r->process, name_id, &length);
  const uint8_t *at = bytes + 1, *end = bytes + length;
  uint64_t kind, value;
  if (length == 0 || bytes[0] != 1)
    return;
  while (get_number(&at, end, &kind) && get_number(&at, end, &value))
    if (kind >= 2 && kind - 2 < r->modules.v.count)
      used[kind - 2] = true;
}

void opgap_stack_modules(const struct opgap_source *source,
                         void (*visit)(void *context, const char *path, const char *build_id), void *context)
{
  struct opgap_pool *pool = opgap_pool_new();
  struct reading r = {.source = source, .pool = pool};
  struct opgap_map visited = {0};
  opgap_strings_init(&r.strings, pool);
  for (r.process = 0; r.process < source->process_count; r.process++) {
    read_records(&r);
    bool *used = opgap_xcalloc(r.modules.v.count + 1, sizeof *used);
    for (size_t i = 0; i < r.stacks.count; i++)
      mark_modules(&r, r.stacks.at[i].name_id, used);
    for (size_t i = 0; i < r.modules.v.count; i++) {
      const struct seen_module *m = &r.modules.v.at[i];
      uint32_t *again = used[i] ? opgap_map_put(&visited, string(&r, m->path), string(&r, m->build_id)) : NULL;
      if (again != NULL && *again == 0) {
        *again = 1;
        visit(context, m->path, m->build_id);
      }
    }
    free(used);
  }
  opgap_map_free(&visited);
  opgap_map_free(&r.stack_index);
  opgap_strings_free(&r.strings);
  VEC_FREE(&r.modules.v);
  VEC_FREE(&r.stacks);
  opgap_pool_free(pool);
}

/* ---- source locations ---- */

struct opgap_stack_places {
  struct reading r;            /* of the process looked at last */
  struct module_list *modules; /* by process */
  struct frames frames;
};

struct opgap_stack_places *opgap_stack_places_new(const struct opgap_source *source, struct opgap_pool *pool)
{
  struct opgap_stack_places *places = opgap_xcalloc(1, sizeof *places);
  places->r = (struct reading){
      .source = source, .pool = pool, .process = UINT_MAX, .symbols = opgap_symbols_new(pool, source->path)};
  places->modules = opgap_xcalloc(source->process_count, sizeof *places->modules);
  opgap_strings_init(&places->r.strings, pool);
  return places;
}

void opgap_stack_places_module(struct opgap_stack_places *places, unsigned process, const struct opgap_record *record)
{
  add_module(places->r.source, process, places->r.pool, &places->modules[process], record);
}

const char *opgap_stack_place(struct opgap_stack_places *places, unsigned process, uint64_t stack)
{
  struct reading *r = &places->r;
  struct frames *frames = &places->frames;
  r->modules = places->modules[process]; /* may have grown */
  if (r->process != process) {
    r->process = process;
    r->places.count = 0;
    opgap_map_clear(&r->place_index);
  }
  decode(r, stack, frames);
  unsigned best = 0;
  while (best + 1 < frames->count && /* how PyTorch tells us of the op's end */
         strncmp(opgap_strings_text(&r->strings, frames->at[best].function), "at::RecordFunction::", 20) == 0)
    best++;
  for (unsigned i = best + 1; i < frames->count; i++)
    if (frames->at[i].source > frames->at[best].source)
      best = i;
  return frames->count == 0 ? "" : opgap_strings_text(&r->strings, frames->at[best].line);
}

void opgap_stack_places_free(struct opgap_stack_places *places)
{
  if (places == NULL)
    return;
  for (unsigned i = 0; i < places->r.source->process_count; i++)
    VEC_FREE(&places->modules[i].v);
  free(places->modules);
  opgap_symbols_free(places->r.symbols);
  opgap_strings_free(&places->r.strings);
  opgap_map_free(&places->r.place_index);
  VEC_FREE(&places->r.places);
  free(places);
}
