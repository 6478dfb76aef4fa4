#include "analysis/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64u * 1024u)

struct block {
  struct block *next;
  size_t used, size;
  _Alignas(16) char data[];
};

struct opgap_pool {
  struct block *blocks;
};

_Noreturn void opgap_out_of_memory(void)
{
  fputs("opgap: out of memory\n", stderr);
  exit(2);
}

void *opgap_xcalloc(size_t count, size_t size)
{
  void *block = calloc(count ? count : 1, size ? size : 1);
  if (block == NULL)
    opgap_out_of_memory();
  return block;
}

void *opgap_xrealloc(void *block, size_t count, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes))
    opgap_out_of_memory();
  block = realloc(block, bytes ? bytes : 1);
  if (block == NULL)
    opgap_out_of_memory();
  return block;
}

void *opgap_vec_grow(void *at, size_t count, size_t *room, size_t size)
{
  if (count < *room)
    return at;
  *room = *room ? *room * 2 : 16;
  return opgap_xrealloc(at, *room, size);
}

struct opgap_pool *opgap_pool_new(void)
{
  return opgap_xcalloc(1, sizeof(struct opgap_pool));
}

void opgap_pool_free(struct opgap_pool *pool)
{
  if (pool == NULL)
    return;
  for (struct block *b = pool->blocks, *next; b != NULL; b = next) {
    next = b->next;
    free(b);
  }
  free(pool);
}

void *opgap_pool_alloc(struct opgap_pool *pool, size_t size)
{
  size = (size + 15) & ~(size_t)15;
  struct block *b = pool->blocks;
  if (b == NULL || b->size - b->used < size) {
    size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    b = opgap_xcalloc(1, sizeof *b + room);
    b->size = room;
    b->next = pool->blocks;
    pool->blocks = b;
  }
  void *at = b->data + b->used;
  b->used += size;
  return at;
}

static const char *pool_bytes(struct opgap_pool *pool, const char *bytes, size_t length)
{
  char *copy = opgap_pool_alloc(pool, length + 1);
  memcpy(copy, bytes, length);
  return copy;
}

const char *opgap_pool_string(struct opgap_pool *pool, const char *text)
{
  return text == NULL ? "" : pool_bytes(pool, text, strlen(text));
}

const char *opgap_pool_printf(struct opgap_pool *pool, const char *format, ...)
{
  va_list args;
  char *text = NULL;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  if (length < 0)
    opgap_out_of_memory();
  const char *copy = pool_bytes(pool, text, (size_t)length);
  free(text);
  return copy;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
  uint64_t x = (a ^ (b * 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return x ^ x >> 29;
}

/* The cell of (a, b) or the empty one where it belongs; size is a power of two and never full. */
static struct opgap_map_cell *map_cell(const struct opgap_map *map, uint64_t a, uint64_t b)
{
  size_t i = mix(a, b) & (map->size - 1);
  while (map->cells[i].value != 0 && (map->cells[i].a != a || map->cells[i].b != b))
    i = (i + 1) & (map->size - 1);
  return &map->cells[i];
}

uint32_t opgap_map_get(const struct opgap_map *map, uint64_t a, uint64_t b)
{
  return map->size == 0 ? 0 : map_cell(map, a, b)->value;
}

uint32_t *opgap_map_find(const struct opgap_map *map, uint64_t a, uint64_t b)
{
  struct opgap_map_cell *cell = map->size == 0 ? NULL : map_cell(map, a, b);
  return cell != NULL && cell->value != 0 ? &cell->value : NULL;
}

static void map_grow(struct opgap_map *map)
{
  struct opgap_map larger = {.size = map->size ? map->size * 2 : 64, .count = map->count};
  larger.cells = opgap_xcalloc(larger.size, sizeof *larger.cells);
  for (size_t i = 0; i < map->size; i++)
    if (map->cells[i].value != 0)
      *map_cell(&larger, map->cells[i].a, map->cells[i].b) = map->cells[i];
  free(map->cells);
  *map = larger;
}

uint32_t *opgap_map_put(struct opgap_map *map, uint64_t a, uint64_t b)
{
  if (map->size == 0)
    map_grow(map);
  struct opgap_map_cell *cell = map_cell(map, a, b);
  if (cell->value != 0)
    return &cell->value;
  if (map->count * 2 >= map->size) {
    map_grow(map);
    cell = map_cell(map, a, b);
  }
  map->count++;
  cell->a = a;
  cell->b = b;
  return &cell->value;
}

void opgap_map_clear(struct opgap_map *map)
{
  if (map->size)
    memset(map->cells, 0, map->size * sizeof *map->cells);
  map->count = 0;
}

void opgap_map_free(struct opgap_map *map)
{
  free(map->cells);
  *map = (struct opgap_map){0};
}

void opgap_strings_init(struct opgap_strings *strings, struct opgap_pool *pool)
{
  *strings = (struct opgap_strings){.pool = pool};
  *VEC_PUSH(&strings->text) = "";
}

static uint64_t hash_bytes(const char *bytes, size_t length)
{
  uint64_t hash = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3ull;
  return hash;
}

uint32_t opgap_strings_id(struct opgap_strings *strings, const char *bytes, size_t length)
{
  length = strnlen(bytes, length);
  if (length == 0)
    return 0;
  uint64_t hash = hash_bytes(bytes, length);
  for (uint64_t probe = 0;; probe++) {
    uint32_t id = opgap_map_get(&strings->map, hash, probe);
    if (id == 0) {
      *VEC_PUSH(&strings->text) = pool_bytes(strings->pool, bytes, length);
      id = (uint32_t)(strings->text.count - 1);
      *opgap_map_put(&strings->map, hash, probe) = id;
      return id;
    }
    const char *text = strings->text.at[id];
    if (strncmp(text, bytes, length) == 0 && text[length] == '\0')
      return id;
  }
}

void opgap_strings_free(struct opgap_strings *strings)
{
  opgap_map_free(&strings->map);
  VEC_FREE(&strings->text);
}
