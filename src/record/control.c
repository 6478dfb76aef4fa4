#include "record/control.h"

#include <string.h>
#include <sys/mman.h>

#include "record/clock.h"
#include "record/early.h"
#include "record/internal.h"
#include "record/lineage.h"
#include "record/raw.h"

/* opgap_active has a page of its own, over which the control page can be mapped.  Pages of 4 KiB only: where they are
 * larger the mapping fails, and the tool says that the process cannot be switched. */
_Alignas(OPGAP_CONTROL_BYTES) __attribute__((visibility("hidden"))) char opgap_active_bytes[OPGAP_CONTROL_BYTES];
/* Names for the assembler alone: AddressSanitizer takes what lies behind the word for no part of an alias. */
#define SAME_PLACE(name) ".globl " #name "\n.hidden " #name "\n.set " #name ", opgap_active_bytes\n"
__asm__(SAME_PLACE(opgap_active) SAME_PLACE(opgap_active_page));

OPGAP_EARLY_DATA static struct opgap_control *control; /* the mapped page, NULL: none */
/* Where there is no lineage: the process whose schedule is in opgap_active's page, which it shares with the children
 * that it forks; 0: the page belongs to this process alone. */
OPGAP_EARLY_DATA static _Atomic int leader;
OPGAP_EARLY_DATA static bool halted;
OPGAP_EARLY_DATA static uint32_t last_open; /* what the schedule wants */

bool opgap_control_mapped(void)
{
  return control != NULL;
}

bool opgap_control_stopped(void)
{
  return control != NULL && !opgap_lineage_has() && atomic_load(&control->wanted) == 0;
}

static bool map_page(int protection_flags, int fd, long offset)
{
  long at = opgap_raw6(SYS_mmap, (long)opgap_active_bytes, OPGAP_CONTROL_BYTES, PROT_READ | PROT_WRITE,
                       protection_flags, fd, offset);
  return at == (long)opgap_active_bytes;
}

/* Other memory with the same word, and the same window, takes the page's place. */
static bool replace_page(int sharing)
{
  uint32_t active = __atomic_load_n(&opgap_active, __ATOMIC_RELAXED), window = opgap_window();
  if (!map_page(sharing | MAP_ANONYMOUS | MAP_FIXED, -1, 0))
    return false;
  atomic_store_explicit(&opgap_active_page.window, window, memory_order_relaxed);
  __atomic_store_n(&opgap_active, active, __ATOMIC_RELAXED);
  return true;
}

bool opgap_control_detach(void)
{
  if (control != NULL && !replace_page(MAP_PRIVATE))
    return false;
  control = NULL;
  return true;
}

bool opgap_control_begin(bool forked)
{
  const struct opgap_settings *settings = &opgap_config.settings;
  if (settings->schedule.active == 0 || settings->control != OPGAP_CONTROL_OFF)
    return opgap_control_detach();
  uint32_t window = opgap_window();
  struct opgap_control *page = opgap_lineage_join(opgap_active_bytes, forked);
  if (page != NULL) {
    atomic_store(&leader, 0);
    atomic_fetch_add(&page->window, window + 1); /* a number that no thread has seen, and never 0 */
  } else if (control != NULL)
    atomic_store(&leader, -1); /* the page stays its parent's, whatever that one's pid is here */
  control = page;
  return true;
}

void opgap_control_leave(void)
{
  if (!opgap_lineage_has() || !replace_page(MAP_PRIVATE)) /* without memory the place stays taken as long as it lives */
    return;
  control = NULL;
  opgap_lineage_leave();
}

bool opgap_control_lead(void)
{
  if (control != NULL || !replace_page(MAP_SHARED))
    return false;
  atomic_store(&leader, opgap_raw_getpid());
  return true;
}

bool opgap_control_leads(void)
{
  if (opgap_lineage_has())
    return opgap_lineage_leads();
  int pid = atomic_load(&leader);
  return pid != 0 && pid == opgap_raw_getpid();
}

OPGAP_EARLY_CODE bool opgap_control_follows(void)
{
  int pid = atomic_load(&leader);
  return pid != 0 && pid != opgap_raw_getpid();
}

/* What is still to come is for this process alone: its children go on with the page as it is. */
OPGAP_EARLY_CODE static bool leave_page(void)
{
  if (atomic_load(&leader) != 0 && !replace_page(MAP_PRIVATE))
    return false;
  atomic_store(&leader, 0);
  return true;
}

/* opgap_active is this process's to write.  A process without a session that finds a page mapped is a copy of the
 * page's owner, made by fork, or by a system call that nobody saw; one that finds another's session shares all memory
 * with it (vfork). */
OPGAP_EARLY_CODE static bool is_own_word(void)
{
  int pid = opgap_state->pid;
  return pid != 0 ? pid == opgap_raw_getpid() : opgap_control_detach();
}

/* What processes that start now begin with. */
static uint32_t wanted_now(void)
{
  char path[sizeof opgap_config.folder + 16], word[8];
  struct opgap_text text = {path, path + sizeof path - 1};
  opgap_text_string(&text, opgap_config.folder);
  opgap_text_string(&text, "/" OPGAP_CONTROL_FILE);
  if (opgap_raw_slurp(path, word, sizeof word) > 0)
    return word[0] == '1';
  return opgap_config.settings.control == OPGAP_CONTROL_ON;
}

/* The ring's file, or -1.  The tool holds its lock for moments; the program does not wait for one that was stopped
 * meanwhile. */
static int lock_ring(const struct opgap_arena *arena)
{
  static uint32_t nobody;
  int fd = (int)opgap_raw_open(arena->ring_file, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
  if (fd < 0)
    return -1;
  for (int i = 0; i < 100 && opgap_raw3(SYS_flock, fd, 2 | 4 /* LOCK_EX | LOCK_NB */, 0) < 0; i++)
    opgap_raw_futex_wait(&nobody, 0, 1000000);
  return fd;
}

static void unlock_ring(int fd)
{
  opgap_raw3(SYS_flock, fd, 8 /* LOCK_UN */, 0); /* a mapping keeps the open file, and its lock with it */
  opgap_raw_close(fd);
}

void opgap_control_offer(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  if (opgap_config.settings.control == OPGAP_CONTROL_OFF || arena->ring_file[0] == 0)
    return;
  struct opgap_control *page = opgap_arena_control(arena);
  page->always = OPGAP_GROUP_process;
  atomic_store(&page->available, 1);
}

void opgap_control_attach(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  struct opgap_control *page = opgap_arena_control(arena);
  if (atomic_load(&page->available) == 0)
    return;
  int fd = lock_ring(arena);
  if (fd < 0)
    return;
  uint32_t window = opgap_window();
  if (map_page(MAP_SHARED | MAP_FIXED, fd, OPGAP_ARENA_HEADER_BYTES)) {
    control = page;
    atomic_store(&page->window, window);
    atomic_store(&page->open, last_open); /* a forked child goes on as its schedule says */
    uint32_t wanted = wanted_now();
    atomic_store(&page->wanted, wanted);
    if (!wanted)
      opgap_control_note(page, opgap_clock_ns(), 0);
    opgap_control_settle(page);
  } else {
    atomic_store(&page->available, 0);
  }
  unlock_ring(fd);
}

void opgap_control_again(void)
{
  if (control == NULL || control != opgap_arena_control(opgap_state->arena))
    return;
  int fd = lock_ring(opgap_state->arena);
  if (fd < 0)
    return;
  uint32_t wanted = wanted_now();
  if (atomic_load(&control->wanted) != wanted && opgap_control_note(control, opgap_clock_ns(), wanted)) {
    atomic_store(&control->wanted, wanted);
    opgap_control_settle(control);
  }
  unlock_ring(fd);
}

OPGAP_EARLY_CODE void opgap_active_open(uint32_t open)
{
  if ((control != NULL && !is_own_word()) || opgap_control_follows())
    return;
  last_open = halted ? 0 : open;
  if (control == NULL) {
    opgap_control_switch(&opgap_active_page, last_open);
    return;
  }
  atomic_store(&control->open, last_open);
  opgap_control_settle(control);
}

OPGAP_EARLY_CODE uint32_t opgap_active_halt(void)
{
  if (!is_own_word() || !leave_page())
    return 0;
  uint32_t before = __atomic_load_n(&opgap_active, __ATOMIC_RELAXED);
  halted = true;
  if (control != NULL) {
    atomic_store(&control->open, 0);
    opgap_control_settle(control);
  } else {
    __atomic_store_n(&opgap_active, 0, __ATOMIC_RELAXED);
  }
  return before;
}

void opgap_active_resume(void)
{
  halted = false;
  opgap_active_open(last_open);
}
