/* See python.h.
 *
 * The walk goes outwards from the innermost frame until one belongs to the user's code: neither an installed package
 * nor the standard library.  A cache by code object tells that; a second one, by instruction, gives the name.
 */
#include "frameworks/python.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "frameworks/python_layout.h"
#include "record/raw.h"
#include "record/record.h"
#include "record/stacks.h"

#define MAX_FRAMES 64u /* looked through for the user's code */

enum stage { UNKNOWN, BUSY, READY, OFF };
static _Atomic uint32_t stage;
static struct opgap_python_layout layout; /* constant once READY */

static void find_layout(void)
{
  uint32_t unknown = UNKNOWN;
  if (!atomic_compare_exchange_strong(&stage, &unknown, BUSY))
    return;
  bool again;
  const char *why = opgap_python_layout_find(&layout, &again);
  if (why != NULL && why[0] && opgap_stacks_python()) {
    static bool said;
    opgap_notice(&said, "this Python is not understood: %s; source lines are not recorded", why);
  }
  atomic_store_explicit(&stage, why == NULL ? READY : again ? UNKNOWN : OFF, memory_order_release);
}

/* ---- loads ---- */

static inline const char *pointer_at(const char *object, uint32_t offset)
{
  return *(const char *const *)(object + offset);
}

static const char *innermost_frame(void)
{
  const char *state = layout.thread_state();
  if (state == NULL)
    return NULL;
  const char *frame = pointer_at(state, layout.state_frame);
  return layout.has_c_frame && frame != NULL ? pointer_at(frame, layout.c_frame_frame) : frame;
}

/* The frame's code object, or NULL for the interpreter's own frames. */
static inline const char *code_of(const char *frame)
{
  if ((uint8_t)frame[layout.frame_owner] >= layout.owner_limit)
    return NULL;
  return (const char *)((uintptr_t)pointer_at(frame, layout.frame_code) & ~layout.code_tag);
}

static inline bool same_code(const struct opgap_python_code *seen, const char *code)
{
  return seen->address == code && seen->line_table == pointer_at(code, layout.code_line_table) &&
         seen->qualified_name == pointer_at(code, layout.code_qualified_name) &&
         seen->first_line == *(const int32_t *)(code + layout.code_first_line);
}

/* ---- text ---- */

struct text {
  char bytes[OPGAP_NAME_MAX];
  size_t length;
};

static void add_byte(struct text *text, uint32_t byte)
{
  if (text->length < sizeof text->bytes)
    text->bytes[text->length++] = (char)byte;
}

static void add_utf8(struct text *text, uint32_t c)
{
  if (c < 0x80) {
    add_byte(text, c);
  } else if (c < 0x800) {
    add_byte(text, 0xc0 | c >> 6);
    add_byte(text, 0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    add_byte(text, 0xe0 | c >> 12);
    add_byte(text, 0x80 | (c >> 6 & 0x3f));
    add_byte(text, 0x80 | (c & 0x3f));
  } else {
    add_byte(text, 0xf0 | c >> 18);
    add_byte(text, 0x80 | (c >> 12 & 0x3f));
    add_byte(text, 0x80 | (c >> 6 & 0x3f));
    add_byte(text, 0x80 | (c & 0x3f));
  }
}

/* Adds a str object.  state: interned 2 bits, then kind 3 (bytes a character), compact 1, ascii 1. */
static void add_string(struct text *text, const char *string)
{
  uint32_t state = *(const uint32_t *)(string + OPGAP_PY_STRING_STATE) >> 2;
  unsigned kind = state & 7;
  bool compact = state >> 3 & 1, ascii = state >> 4 & 1;
  int64_t length = *(const int64_t *)(string + OPGAP_PY_LENGTH);
  const void *data = string + (ascii ? layout.string_ascii_data : layout.string_data);
  if (!compact || (kind != 1 && kind != 2 && kind != 4))
    length = 0;
  for (int64_t i = 0; i < length && text->length < sizeof text->bytes; i++)
    add_utf8(text, kind == 1   ? ((const uint8_t *)data)[i]
                   : kind == 2 ? ((const uint16_t *)data)[i]
                               : ((const uint32_t *)data)[i]);
}

static void add_number(struct text *text, uint32_t number)
{
  if (number >= 10)
    add_number(text, number / 10);
  add_byte(text, '0' + number % 10);
}

/* ---- line numbers ---- */

/* A variable-length number of the location table: 6 bits a byte, the lowest first, bit 6 says that more follow. */
static uint32_t read_number(const uint8_t **at, const uint8_t *end)
{
  uint32_t number = 0, byte = 0x40;
  for (unsigned shift = 0; (byte & 0x40) && *at < end && shift < 30; shift += 6) {
    byte = *(*at)++;
    number |= (byte & 0x3f) << shift;
  }
  return number;
}

/* 3.9 and 3.10: CPython, Objects/lnotab_notes.txt. */
static uint32_t line_of_pairs(const uint8_t *at, const uint8_t *end, int32_t line, uint32_t offset)
{
  uint32_t position = 0;
  for (; end - at >= 2; at += 2) {
    int32_t lines = (int8_t)at[1];
    position += at[0];
    if (layout.lines == OPGAP_PYTHON_LNOTAB && position > offset)
      break;
    if (layout.lines == OPGAP_PYTHON_LNOTAB || lines != -128 /* no line */)
      line += lines;
    if (layout.lines == OPGAP_PYTHON_LINETABLE && offset < position)
      break;
  }
  return (uint32_t)line;
}

/* The line that an instruction belongs to; the first line when the table does not say.  CPython, Objects/locations.md:
 * entries of a head byte (1 | code 4 | units - 1 : 3) and what the code asks for. */
static uint32_t line_of(const char *code, uint32_t offset)
{
  const char *table = pointer_at(code, layout.code_line_table);
  const uint8_t *at = (const uint8_t *)table + OPGAP_PY_BYTES_DATA;
  const uint8_t *end = at + *(const int64_t *)(table + OPGAP_PY_LENGTH);
  int32_t first = *(const int32_t *)(code + layout.code_first_line), line = first;
  uint32_t position = 0;
  if (layout.lines != OPGAP_PYTHON_LOCATIONS)
    return line_of_pairs(at, end, first, offset);
  while (at < end) {
    unsigned head = *at++, form = head >> 3 & 15;
    if (form == 13 || form == 14) { /* a signed difference; 14: end line and columns follow */
      uint32_t number = read_number(&at, end);
      line += number & 1 ? -(int32_t)(number >> 1) : (int32_t)(number >> 1);
      for (unsigned i = 0; form == 14 && i < 3; i++)
        read_number(&at, end);
    } else if (form >= 10 && form <= 12) { /* 0 to 2 lines on, two columns */
      line += (int32_t)form - 10;
      at += 2;
    } else if (form < 10) { /* the same line, columns in one byte */
      at++;
    } /* 15: no location */
    position += ((head & 7) + 1) * 2;
    if (offset < position)
      return (uint32_t)(form == 15 ? first : line);
  }
  return (uint32_t)first;
}

/* ---- whose code ---- */

static bool contains(const struct text *text, const char *part)
{
  size_t length = strlen(part);
  for (size_t i = 0; i + length <= text->length; i++)
    if (memcmp(text->bytes + i, part, length) == 0)
      return true;
  return false;
}

static bool is_users(const char *code)
{
  static const char *const libraries[] = {"/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ",
                                          "<eval_with_key>"};
  struct text file = {.length = 0};
  add_string(&file, pointer_at(code, layout.code_file));
  for (unsigned i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
    if (contains(&file, libraries[i]))
      return false;
  return true;
}

static struct opgap_python_code *look_at_code(struct opgap_python_cache *cache, const char *code)
{
  uint64_t hash = (uint64_t)(uintptr_t)code * UINT64_C(0x9e3779b97f4a7c15);
  struct opgap_python_code *seen = &cache->codes[hash >> 32 & (OPGAP_PYTHON_CODES - 1)];
  if (opgap_likely(same_code(seen, code)))
    return seen;
  if ((const void *)pointer_at(code, OPGAP_PY_TYPE) != layout.code_type)
    return NULL;
  seen->address = NULL; /* a signal handler that looks meets an entry that matches nothing */
  atomic_signal_fence(memory_order_seq_cst);
  seen->line_table = pointer_at(code, layout.code_line_table);
  seen->qualified_name = pointer_at(code, layout.code_qualified_name);
  seen->first_line = *(const int32_t *)(code + layout.code_first_line);
  seen->users = is_users(code);
  atomic_signal_fence(memory_order_seq_cst);
  seen->address = code;
  return seen;
}

static uint32_t name_site(const char *code, uint32_t offset)
{
  struct text text = {.length = 0};
  add_string(&text, pointer_at(code, layout.code_file));
  add_byte(&text, ':');
  add_number(&text, line_of(code, offset));
  add_byte(&text, ' ');
  add_string(&text, pointer_at(code, layout.code_qualified_name));
  return opgap_intern(text.bytes, text.length);
}

static uint32_t site_of(struct opgap_python_cache *cache, const char *frame, const struct opgap_python_code *code)
{
  intptr_t distance = layout.index_unit != 0
                          ? *(const int32_t *)(frame + layout.frame_instruction) * (intptr_t)layout.index_unit
                          : pointer_at(frame, layout.frame_instruction) - (code->address + layout.code_instructions);
  uint32_t offset = distance > 0 ? (uint32_t)distance : 0;
  uint64_t hash = ((uint64_t)(uintptr_t)code->address + offset) * UINT64_C(0x9e3779b97f4a7c15);
  struct opgap_python_site *site = &cache->sites[hash >> 32 & (OPGAP_PYTHON_SITES - 1)];
  if (opgap_likely(site->name != 0 && site->offset == offset && same_code(&site->code, code->address)))
    return site->name;
  site->name = 0;
  atomic_signal_fence(memory_order_seq_cst);
  site->code = *code;
  site->offset = offset;
  atomic_signal_fence(memory_order_seq_cst);
  return site->name = name_site(code->address, offset);
}

static bool is_ready(void)
{
  uint32_t now = atomic_load_explicit(&stage, memory_order_acquire);
  if (opgap_likely(now == READY))
    return true;
  if (now == UNKNOWN)
    find_layout();
  return atomic_load_explicit(&stage, memory_order_acquire) == READY;
}

#define SLOTS 1024u /* threads that can have a cache at the same time */

/* One cache a slot, touched as used and zeroed by fork. */
static struct opgap_python_cache *cache_of_slot(unsigned slot)
{
  static _Atomic(struct opgap_python_cache *) caches;
  struct opgap_python_cache *all = atomic_load_explicit(&caches, memory_order_acquire), *none = NULL;
  size_t size = SLOTS * sizeof *all;
  if (all == NULL) {
    all = opgap_raw_mmap(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (all == NULL)
      return NULL;
    if (opgap_raw3(SYS_madvise, (long)all, (long)size, 18 /* MADV_WIPEONFORK */) < 0 ||
        !atomic_compare_exchange_strong(&caches, &none, all)) {
      opgap_raw_munmap(all, size);
      all = none;
    }
  }
  return all != NULL && slot < SLOTS ? &all[slot] : NULL;
}

unsigned opgap_python_frames(unsigned slot, uint32_t *frames, unsigned room)
{
  unsigned count = 0;
  struct opgap_python_cache *cache = is_ready() ? cache_of_slot(slot) : NULL;
  const char *frame = cache ? innermost_frame() : NULL;
  for (unsigned i = 0; frame != NULL && i < 4 * MAX_FRAMES && count < room;
       i++, frame = pointer_at(frame, layout.frame_previous)) {
    const char *code = code_of(frame);
    if (code == NULL && count > 0)
      frames[count - 1] |= 1; /* the interpreter's own frame, under the first of a run */
    const struct opgap_python_code *seen = code ? look_at_code(cache, code) : NULL;
    uint32_t name = seen ? site_of(cache, frame, seen) : 0;
    if (name)
      frames[count++] =
          name << 1 | (layout.index_unit != 0 || (layout.frame_entry != 0 && frame[layout.frame_entry] != 0));
  }
  if (count > 0)
    frames[count - 1] |= 1;
  return count;
}

uint32_t opgap_python_where(struct opgap_python_cache *cache)
{
  if (opgap_unlikely(!is_ready()))
    return 0;
  const char *innermost = NULL, *frame = innermost_frame();
  const struct opgap_python_code *innermost_code = NULL;
  for (unsigned i = 0; frame != NULL && i < MAX_FRAMES; i++, frame = pointer_at(frame, layout.frame_previous)) {
    const char *code = code_of(frame);
    const struct opgap_python_code *seen = code ? look_at_code(cache, code) : NULL;
    if (seen == NULL)
      continue;
    if (seen->users)
      return site_of(cache, frame, seen);
    if (innermost == NULL) {
      innermost = frame;
      innermost_code = seen;
    }
  }
  /* all of it a library's: the innermost, unless another code object has taken its place in the cache */
  if (innermost == NULL || innermost_code->address != code_of(innermost))
    return 0;
  return site_of(cache, innermost, innermost_code);
}
