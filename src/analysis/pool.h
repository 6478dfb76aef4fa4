/* Memory of one summary: a pool that is released at once, and growing tables.
 *
 * Threads   one at a time.  Ownership: the pool owns all it hands out until opgap_pool_free.
 * Errors    Running out of memory ends the program with one line: the offline half is a command-line program, and a
 *           report with rows missing would be worse than none.
 */
#ifndef OPGAP_ANALYSIS_POOL_H
#define OPGAP_ANALYSIS_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opgap_pool;

struct opgap_pool *opgap_pool_new(void);
void opgap_pool_free(struct opgap_pool *pool);
/* Zeroed memory, aligned for any type; size 0 gives a valid pointer. */
void *opgap_pool_alloc(struct opgap_pool *pool, size_t size);
const char *opgap_pool_string(struct opgap_pool *pool, const char *text);
const char *opgap_pool_printf(struct opgap_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the program with one line. */
_Noreturn void opgap_out_of_memory(void);
/* malloc family that never returns NULL. */
void *opgap_xcalloc(size_t count, size_t size);
void *opgap_xrealloc(void *block, size_t count, size_t size);

/* A growing array of any type: VEC(T) declares it, VEC_ROOM makes room for one more element, VEC_PUSH returns a pointer
 * to the new, zeroed element. */
#define VEC(T)                                                                                                         \
  struct {                                                                                                             \
    T *at;                                                                                                             \
    size_t count, room;                                                                                                \
  }
#define VEC_ROOM(v)                                                                                                    \
  (__builtin_expect((v)->count < (v)->room, 1)                                                                         \
       ? (void)0                                                                                                       \
       : (void)((v)->at = opgap_vec_grow((v)->at, (v)->count, &(v)->room, sizeof *(v)->at)))
#define VEC_PUSH(v) (VEC_ROOM(v), __builtin_memset(&(v)->at[(v)->count], 0, sizeof *(v)->at), &(v)->at[(v)->count++])
#define VEC_FREE(v) (free((v)->at), (v)->at = NULL, (v)->count = (v)->room = 0)
void *opgap_vec_grow(void *at, size_t count, size_t *room, size_t size);

/* A hash table from a 64-bit key pair to a small index; open addressing, grows by doubling. */
struct opgap_map {
  struct opgap_map_cell {
    uint64_t a, b;
    uint32_t value; /* 0: empty */
  } * cells;
  size_t count, size;
};
/* The value of (a, b); when absent 0. */
uint32_t opgap_map_get(const struct opgap_map *map, uint64_t a, uint64_t b);
/* The place of the value of (a, b), NULL when absent; until the table changes. */
uint32_t *opgap_map_find(const struct opgap_map *map, uint64_t a, uint64_t b);
/* The place of the value of (a, b), made with value 0 if absent; the caller must then store a value other than 0
 * before the next call. */
uint32_t *opgap_map_put(struct opgap_map *map, uint64_t a, uint64_t b);
void opgap_map_clear(struct opgap_map *map);
void opgap_map_free(struct opgap_map *map);

/* Interned strings: id 0 is "". */
struct opgap_strings {
  struct opgap_pool *pool;
  VEC(const char *) text;
  struct opgap_map map; /* (hash, probe) -> id */
};
void opgap_strings_init(struct opgap_strings *strings, struct opgap_pool *pool);
uint32_t opgap_strings_id(struct opgap_strings *strings, const char *bytes, size_t length);
static inline const char *opgap_strings_text(const struct opgap_strings *strings, uint32_t id)
{
  return strings->text.at[id];
}
void opgap_strings_free(struct opgap_strings *strings);

#endif
