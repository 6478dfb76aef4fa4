/* NVTX ranges and marks: the library is its own NVTX injection.
 *
 * Purpose   NVTX is header-only: each module of the program (each extension with its own copy) calls
 *           InitializeInjectionNvtx2 at its first NVTX call and lets us put functions into its table.
 * Threads   The program's, any number at a time; the path of push and pop is hot.
 * Ownership Domains, registered strings and categories live in a region that is never given back; handles that the
 *           program holds point into it, so a forked child can go on using them.
 *
 * Rules
 *   1. Push and pop nest on a thread within a domain: they are ops on the thread's op stack; the tag is the domain.
 *   2. Start and end may overlap and change threads: they never enter the op stack.  The end writes a free range on its
 *      own thread.
 *   3. A name in a domain of its own is "domain: message".
 *   4. Interned ids belong to one process; kept strings keep the pid for which their id is valid.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu/nvtx_abi.h"
#include "record/raw.h"
#include "record/record.h"
#include "record/session.h"

#define REGION_BYTES (4u << 20)
#define OPEN_RANGES 4096u
#define TEXT_MAX OPGAP_NAME_MAX

enum { STATUS_NVTX = 2 };

/* A string that the program may refer to again. */
struct kept {
  _Atomic uint64_t id_of_pid; /* pid << 32 | interned id */
  const void *domain;         /* categories: whose */
  uint32_t category;
  uint32_t length;
  struct kept *next; /* categories: list */
  char bytes[];
};

static _Atomic(char *) region;
static _Atomic uint32_t region_used;
static struct kept *_Atomic categories;

/* Ranges between start and end.  key: 0 free, else the id that the program got. */
static struct {
  _Atomic uint64_t key;
  uint64_t start;
  uint32_t name;
  int32_t pid; /* whose name it is */
} open_ranges[OPEN_RANGES];
static _Atomic uint64_t next_range;

static bool recording(void)
{
  return (opgap_active & OPGAP_GROUP_nvtx) != 0;
}

/* ---- text ---- */

/* UTF-8 of a code point; a surrogate or an impossible value becomes "?". */
static size_t put_utf8(char *at, uint32_t c)
{
  if (c < 0x80) {
    at[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    at[0] = (char)(0xc0 | c >> 6);
    at[1] = (char)(0x80 | (c & 0x3f));
    return 2;
  }
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    at[0] = '?';
    return 1;
  }
  if (c < 0x10000) {
    at[0] = (char)(0xe0 | c >> 12);
    at[1] = (char)(0x80 | (c >> 6 & 0x3f));
    at[2] = (char)(0x80 | (c & 0x3f));
    return 3;
  }
  at[0] = (char)(0xf0 | c >> 18);
  at[1] = (char)(0x80 | (c >> 12 & 0x3f));
  at[2] = (char)(0x80 | (c >> 6 & 0x3f));
  at[3] = (char)(0x80 | (c & 0x3f));
  return 4;
}

struct text {
  char bytes[TEXT_MAX];
  size_t length;
};

static void add_bytes(struct text *text, const char *bytes, size_t length)
{
  size_t room = sizeof text->bytes - text->length;
  if (length > room)
    length = room;
  for (size_t i = 0; i < length; i++)
    text->bytes[text->length + i] = bytes[i];
  text->length += length;
}

static void add_ascii(struct text *text, const char *string)
{
  if (string != NULL)
    add_bytes(text, string, strlen(string));
}

static void add_wide(struct text *text, const wchar_t *string)
{
  for (; string != NULL && *string != 0 && text->length + 4 <= sizeof text->bytes; string++)
    text->length += put_utf8(text->bytes + text->length, (uint32_t)*string);
}

/* ---- kept strings ---- */

static char *region_start(void)
{
  char *at = atomic_load_explicit(&region, memory_order_acquire);
  if (at != NULL)
    return at;
  char *mine = opgap_raw_mmap(REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (mine == NULL)
    return NULL;
  if (atomic_compare_exchange_strong_explicit(&region, &at, mine, memory_order_acq_rel, memory_order_acquire))
    return mine;
  opgap_raw_munmap(mine, REGION_BYTES);
  return at;
}

static struct kept *keep(const struct text *text)
{
  char *base = region_start();
  uint32_t bytes = (uint32_t)((sizeof(struct kept) + text->length + 7u) & ~(size_t)7);
  if (base == NULL)
    return NULL;
  uint32_t at = atomic_fetch_add_explicit(&region_used, bytes, memory_order_relaxed);
  if (at > REGION_BYTES - bytes) {
    atomic_fetch_sub_explicit(&region_used, bytes, memory_order_relaxed);
    return NULL; /* the program gets a null handle, which NVTX allows: the name is then missing */
  }
  struct kept *kept = (struct kept *)(base + at);
  kept->length = (uint32_t)text->length;
  memcpy(kept->bytes, text->bytes, text->length);
  return kept;
}

static bool is_kept(const void *handle)
{
  const char *base = atomic_load_explicit(&region, memory_order_acquire);
  return base != NULL && (const char *)handle >= base && (const char *)handle < base + REGION_BYTES;
}

static uint32_t kept_id(struct kept *kept)
{
  uint64_t pid = (uint32_t)opgap_session_pid();
  uint64_t known = atomic_load_explicit(&kept->id_of_pid, memory_order_relaxed);
  if (known >> 32 == pid && (uint32_t)known != 0)
    return (uint32_t)known;
  uint32_t id = opgap_intern(kept->bytes, kept->length);
  atomic_store_explicit(&kept->id_of_pid, pid << 32 | id, memory_order_relaxed);
  return id;
}

static const struct kept *find_category(const void *domain, uint32_t category)
{
  const struct kept *c = atomic_load_explicit(&categories, memory_order_acquire);
  while (c != NULL && (c->domain != domain || c->category != category))
    c = c->next;
  return c;
}

static void name_category(const void *domain, uint32_t category, const struct text *text)
{
  struct kept *kept = keep(text);
  if (kept == NULL)
    return;
  kept->domain = domain;
  kept->category = category;
  kept->next = atomic_load_explicit(&categories, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&categories, &kept->next, kept, memory_order_release,
                                                memory_order_relaxed))
    ;
}

/* ---- names ---- */

static void add_domain(struct text *text, const void *domain)
{
  if (!is_kept(domain))
    return;
  const struct kept *kept = domain;
  add_bytes(text, kept->bytes, kept->length);
  add_bytes(text, ": ", 2);
}

static uint32_t name_ascii(const char *message)
{
  return opgap_intern(message ? message : "", message ? strlen(message) : 0);
}

static uint32_t name_wide(const wchar_t *message)
{
  struct text text;
  text.length = 0;
  add_wide(&text, message);
  return opgap_intern(text.bytes, text.length);
}

/* A message, else the category's name, else "range". */
static uint32_t name_attributes(const void *domain, const struct nvtx_attributes *a)
{
  struct text text;
  text.length = 0;
  if (a != NULL && a->message_type == NVTX_MESSAGE_REGISTERED && is_kept(a->message.registered))
    return kept_id((struct kept *)(uintptr_t)a->message.registered);
  add_domain(&text, domain);
  size_t before = text.length;
  if (a != NULL && a->message_type == NVTX_MESSAGE_ASCII)
    add_ascii(&text, a->message.ascii);
  else if (a != NULL && a->message_type == NVTX_MESSAGE_WIDE)
    add_wide(&text, a->message.wide);
  if (text.length == before) {
    const struct kept *category = a != NULL && a->category != 0 ? find_category(domain, a->category) : NULL;
    if (category != NULL)
      add_bytes(&text, category->bytes, category->length);
    else
      add_bytes(&text, "range", 5);
  }
  return opgap_intern(text.bytes, text.length);
}

/* ---- ranges ---- */

static uint64_t domain_tag(const void *domain)
{
  return (uint64_t)(uintptr_t)domain | 1; /* odd: frameworks tag with addresses of their objects */
}

/* How many ranges of the domain are open on the thread: NVTX's level. */
static int level(const struct opgap_thread *thread, uint64_t tag)
{
  int open = 0;
  for (uint32_t i = 0; i < thread->depth && i < OPGAP_MAX_DEPTH; i++)
    open += thread->ops[i].tag == tag;
  return open;
}

static int push(const void *domain, uint32_t name)
{
  struct opgap_thread *thread = opgap_self();
  if (thread == NULL)
    return NVTX_NOT_TRACKED;
  uint64_t tag = domain_tag(domain);
  int before = level(thread, tag);
  opgap_op_begin(name, STATUS_NVTX, tag, 0);
  return before;
}

static int pop(const void *domain)
{
  struct opgap_thread *thread = recording() ? opgap_self() : NULL;
  if (thread == NULL)
    return NVTX_NOT_TRACKED;
  uint64_t tag = domain_tag(domain);
  int before = level(thread, tag);
  if (before == 0) /* pushed before recording began */
    return NVTX_NOT_TRACKED;
  opgap_op_end(OPGAP_EV_RANGE, tag, 0);
  return before - 1;
}

/* An id is a slot and how often slots were handed out before, so a stale id finds nothing. */
static uint64_t start_range(uint32_t name)
{
  for (unsigned tries = 0; tries < 64; tries++) {
    uint64_t id = atomic_fetch_add_explicit(&next_range, 1, memory_order_relaxed) + 1, free_key = 0;
    unsigned slot = id % OPEN_RANGES;
    if (atomic_load_explicit(&open_ranges[slot].key, memory_order_relaxed) != 0)
      continue;
    if (!atomic_compare_exchange_strong_explicit(&open_ranges[slot].key, &free_key, UINT64_MAX, memory_order_acquire,
                                                 memory_order_relaxed))
      continue;
    open_ranges[slot].name = name;
    open_ranges[slot].pid = opgap_session_pid();
    open_ranges[slot].start = opgap_ticks();
    atomic_store_explicit(&open_ranges[slot].key, id, memory_order_release);
    return id;
  }
  return 0; /* thousands are open: this one is not recorded */
}

static void end_range(uint64_t id)
{
  unsigned slot = id % OPEN_RANGES;
  uint64_t key = id;
  if (id == 0 || id == UINT64_MAX || opgap_self() == NULL)
    return;
  uint64_t start = open_ranges[slot].start;
  uint32_t name = open_ranges[slot].name;
  bool ours = open_ranges[slot].pid == opgap_session_pid();
  if (!atomic_compare_exchange_strong_explicit(&open_ranges[slot].key, &key, 0, memory_order_acq_rel,
                                               memory_order_relaxed))
    return;
  if (ours && recording())
    opgap_emit(OPGAP_EV_FREE_RANGE, STATUS_NVTX, start, opgap_ticks(), (const uint64_t[]){name}, 1);
}

static void mark(uint32_t name)
{
  uint64_t now = opgap_ticks(), field = name;
  opgap_emit(OPGAP_EV_MARK, 0, now, now, &field, 1);
}

static void name_thread(uint32_t tid, uint32_t name)
{
  uint64_t now = opgap_ticks(), field = name;
  if ((int)tid == opgap_raw_gettid()) /* another thread's name cannot be recorded on its behalf */
    opgap_emit(OPGAP_EV_THREAD_NAME, 0, now, now, &field, 1);
}

/* ---- what NVTX calls ---- */

static void mark_ex(const struct nvtx_attributes *a)
{
  if (recording())
    mark(name_attributes(NULL, a));
}
static void mark_a(const char *message)
{
  if (recording())
    mark(name_ascii(message));
}
static void mark_w(const wchar_t *message)
{
  if (recording())
    mark(name_wide(message));
}
static uint64_t range_start_ex(const struct nvtx_attributes *a)
{
  return recording() ? start_range(name_attributes(NULL, a)) : 0;
}
static uint64_t range_start_a(const char *message)
{
  return recording() ? start_range(name_ascii(message)) : 0;
}
static uint64_t range_start_w(const wchar_t *message)
{
  return recording() ? start_range(name_wide(message)) : 0;
}
static int range_push_ex(const struct nvtx_attributes *a)
{
  return recording() ? push(NULL, name_attributes(NULL, a)) : NVTX_NOT_TRACKED;
}
static int range_push_a(const char *message)
{
  return recording() ? push(NULL, name_ascii(message)) : NVTX_NOT_TRACKED;
}
static int range_push_w(const wchar_t *message)
{
  return recording() ? push(NULL, name_wide(message)) : NVTX_NOT_TRACKED;
}
static int range_pop(void)
{
  return pop(NULL);
}
static void domain_name_category_a(const void *domain, uint32_t category, const char *name)
{
  struct text text;
  text.length = 0;
  add_ascii(&text, name);
  name_category(domain, category, &text);
}
static void domain_name_category_w(const void *domain, uint32_t category, const wchar_t *name)
{
  struct text text;
  text.length = 0;
  add_wide(&text, name);
  name_category(domain, category, &text);
}
static void name_category_a(uint32_t category, const char *name)
{
  domain_name_category_a(NULL, category, name);
}
static void name_category_w(uint32_t category, const wchar_t *name)
{
  domain_name_category_w(NULL, category, name);
}
static void name_thread_a(uint32_t tid, const char *name)
{
  if (recording())
    name_thread(tid, name_ascii(name));
}
static void name_thread_w(uint32_t tid, const wchar_t *name)
{
  if (recording())
    name_thread(tid, name_wide(name));
}
static void domain_mark_ex(const void *domain, const struct nvtx_attributes *a)
{
  if (recording())
    mark(name_attributes(domain, a));
}
static uint64_t domain_range_start_ex(const void *domain, const struct nvtx_attributes *a)
{
  return recording() ? start_range(name_attributes(domain, a)) : 0;
}
static void domain_range_end(const void *domain, uint64_t id)
{
  (void)domain; /* ids are unique over all domains */
  end_range(id);
}
static int domain_range_push_ex(const void *domain, const struct nvtx_attributes *a)
{
  return recording() ? push(domain, name_attributes(domain, a)) : NVTX_NOT_TRACKED;
}
static int domain_range_pop(const void *domain)
{
  return pop(domain);
}
static const void *domain_register_string_a(const void *domain, const char *string)
{
  struct text text;
  text.length = 0;
  add_domain(&text, domain);
  add_ascii(&text, string);
  return keep(&text);
}
static const void *domain_register_string_w(const void *domain, const wchar_t *string)
{
  struct text text;
  text.length = 0;
  add_domain(&text, domain);
  add_wide(&text, string);
  return keep(&text);
}
static const void *domain_create_a(const char *name)
{
  return domain_register_string_a(NULL, name);
}
static const void *domain_create_w(const wchar_t *name)
{
  return domain_register_string_w(NULL, name);
}
static void domain_destroy(const void *domain)
{
  (void)domain; /* kept: ranges may still name it */
}

#define PUT(index, function)                                                                                           \
  if ((index) < count && table[index] != NULL)                                                                         \
  *table[index] = (nvtx_function)(function)

static void fill_core(nvtx_function **table, unsigned count)
{
  PUT(NVTX_MARK_EX, mark_ex);
  PUT(NVTX_MARK_A, mark_a);
  PUT(NVTX_MARK_W, mark_w);
  PUT(NVTX_RANGE_START_EX, range_start_ex);
  PUT(NVTX_RANGE_START_A, range_start_a);
  PUT(NVTX_RANGE_START_W, range_start_w);
  PUT(NVTX_RANGE_END, end_range);
  PUT(NVTX_RANGE_PUSH_EX, range_push_ex);
  PUT(NVTX_RANGE_PUSH_A, range_push_a);
  PUT(NVTX_RANGE_PUSH_W, range_push_w);
  PUT(NVTX_RANGE_POP, range_pop);
  PUT(NVTX_NAME_CATEGORY_A, name_category_a);
  PUT(NVTX_NAME_CATEGORY_W, name_category_w);
  PUT(NVTX_NAME_THREAD_A, name_thread_a);
  PUT(NVTX_NAME_THREAD_W, name_thread_w);
}

static void fill_core2(nvtx_function **table, unsigned count)
{
  PUT(NVTX_DOMAIN_MARK_EX, domain_mark_ex);
  PUT(NVTX_DOMAIN_RANGE_START_EX, domain_range_start_ex);
  PUT(NVTX_DOMAIN_RANGE_END, domain_range_end);
  PUT(NVTX_DOMAIN_RANGE_PUSH_EX, domain_range_push_ex);
  PUT(NVTX_DOMAIN_RANGE_POP, domain_range_pop);
  PUT(NVTX_DOMAIN_NAME_CATEGORY_A, domain_name_category_a);
  PUT(NVTX_DOMAIN_NAME_CATEGORY_W, domain_name_category_w);
  PUT(NVTX_DOMAIN_REGISTER_STRING_A, domain_register_string_a);
  PUT(NVTX_DOMAIN_REGISTER_STRING_W, domain_register_string_w);
  PUT(NVTX_DOMAIN_CREATE_A, domain_create_a);
  PUT(NVTX_DOMAIN_CREATE_W, domain_create_w);
  PUT(NVTX_DOMAIN_DESTROY, domain_destroy);
}

/* Called once for each module that uses NVTX.  1: taken. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_export_fn get_table);
int InitializeInjectionNvtx2(nvtx_export_fn get_table)
{
  const struct nvtx_callbacks *callbacks = get_table ? get_table(NVTX_TABLE_CALLBACKS) : NULL;
  nvtx_function **table;
  unsigned count;
  if (callbacks == NULL || callbacks->size < sizeof *callbacks)
    return 0;
  if (callbacks->get_module(NVTX_MODULE_CORE, &table, &count) && table != NULL)
    fill_core(table, count);
  if (callbacks->get_module(NVTX_MODULE_CORE2, &table, &count) && table != NULL)
    fill_core2(table, count);
  return 1;
}
