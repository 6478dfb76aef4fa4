/* The life of the CUPTI connection.
 *
 *            InitializeInjection               foreign cuptiSubscribe, ...
 *   ABSENT ----------------------> ATTACHED -------------------------------> YIELDED
 *     |                             |    ^                                     |
 *     | CUPTI says no               |    '--- helper, 1 s after it was freed --'
 *     v                             v exit
 *   FAILED                        ENDED
 *
 * Purpose   Decides when CUPTI is used and by whom; runs the helper thread that asks CUPTI for finished buffers.
 * Threads   InitializeInjection: the program's thread inside cuInit.  Helper: one thread of ours, created there; it
 *           shares the program's descriptors, blocks all signals, and sleeps without a timer while CUPTI holds no
 *           buffer, unless another user has CUPTI.  Poll, drain: the flusher, which never calls CUPTI (its
 *           descriptor table is its own).
 * Ownership `life` belongs to the process in `life_pid`; a forked child resets it before use.
 *
 * Invariants
 *   1. CUPTI is called only in state ATTACHED, or on the way there, with the life lock held.
 *   2. Nothing here initialises CUDA, synchronises it, or creates a context, stream or event.
 *   3. After ENDED CUPTI is never called again: CUDA may be torn down.
 *   4. At exit, the flush runs in an atexit handler registered when CUDA has made a context.  CUDA's own handlers
 *      were registered before, so they run after it.
 *   5. CUDA calls are recorded by CUPTI or by the hooks (record/cuda_calls.h): `changing` before any kind is switched.
 */
#include "gpu/life.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/activity.h"
#include "gpu/buffers.h"
#include "gpu/cupti_api.h"
#include "gpu/gpu.h"
#include "gpu/gpu_clock.h"
#include "gpu/gpu_state.h"
#include "record/cuda_calls.h"
#include "record/early.h"
#include "record/raw.h"
#include "record/record.h"
#include "record/session.h"
#include "record/settings.h"

#define FLUSH_EVERY_NS 100000000u    /* what a SIGKILL can cost */
#define SAMPLE_EVERY_NS 1000000000u  /* where nothing is to be flushed */
#define RETAKE_AFTER_NS 1000000000u  /* the other user may still be collecting */
#define JOIN_PATIENCE_NS 5000000000u /* a subscriber that only wants callbacks never collects */
#define EXIT_PATIENCE_NS 50000000u   /* for kernels in flight at exit */
#define LOCK_PATIENCE_NS 1000000000u /* another user's call is never held up longer */
#define HELPER_STACK (512u * 1024u)
#define EXIT_HANDLERS 8 /* one a context; more are not needed to be the last one registered */

enum life_state { LIFE_ABSENT, LIFE_ATTACHED, LIFE_YIELDED, LIFE_FAILED, LIFE_ENDED };

OPGAP_EARLY_DATA static _Atomic int life_pid; /* whose `life` is; -pid while that process resets it */
static struct {
  _Atomic int state;     /* enum life_state; written with the lock held */
  _Atomic uint32_t lock; /* tid of the holder; futex */
  const char *_Atomic failure;
  _Atomic bool failed_vaguely; /* CUPTI did not say why: without a device that is the reason */
  bool enabled;                /* kinds are on; lock */
  bool helper_runs;            /* lock */
  _Atomic bool any_record;
  _Atomic int exit_handlers;
  _Atomic bool over;              /* the last drain comes */
  _Atomic uint32_t bell;          /* futex: rings the helper */
  _Atomic uint32_t sleeps;        /* the helper sleeps without a timer */
  _Atomic uint64_t foreign_kinds; /* activity kinds that the other user has enabled */
  _Atomic uint64_t retake_at;     /* ns; 0: not */
  _Atomic uint64_t join_by;       /* ns; the other user allows others beside it: join it when it collects, or then */
} life;

OPGAP_EARLY_DATA static _Atomic bool started; /* the library was preloaded */

/* ---- lock and process ---- */

static bool lock_life(uint64_t patience_ns)
{
  uint32_t self = (uint32_t)opgap_raw_gettid();
  uint64_t give_up = opgap_clock_ns() + patience_ns;
  for (;;) {
    uint32_t holder = 0;
    if (atomic_compare_exchange_strong_explicit(&life.lock, &holder, self, memory_order_acquire, memory_order_relaxed))
      return true;
    if (holder == self || opgap_clock_ns() > give_up)
      return false;
    opgap_raw_futex_wait(&life.lock, holder, 1000000);
  }
}

static void unlock_life(void)
{
  atomic_store_explicit(&life.lock, 0, memory_order_release);
  opgap_raw_futex_wake(&life.lock);
}

static int state_now(void)
{
  return atomic_load_explicit(&life.state, memory_order_acquire);
}

static void set_state(int state)
{
  atomic_store_explicit(&life.state, state, memory_order_release);
}

/* In a forked child nothing of the parent's CUPTI works: start from nothing. */
static void ensure_process(void)
{
  int pid = opgap_raw_getpid(), seen = atomic_load_explicit(&life_pid, memory_order_acquire);
  if (seen == pid)
    return;
  if (seen != -pid &&
      atomic_compare_exchange_strong_explicit(&life_pid, &seen, -pid, memory_order_acquire, memory_order_relaxed)) {
    memset(&life, 0, sizeof life);
    opgap_gpu_buffers_reset();
    opgap_gpu_clock_reset();
    opgap_gpu_decode_reset();
    opgap_gpu_state_reset();
    atomic_store_explicit(&life_pid, pid, memory_order_release);
    return;
  }
  uint32_t never = 0;
  while (atomic_load_explicit(&life_pid, memory_order_acquire) != pid)
    opgap_raw_futex_wait(&never, 0, 100000);
}

static bool wanted(void)
{
  return (__atomic_load_n(&opgap_active, __ATOMIC_RELAXED) & OPGAP_GROUP_cuda) != 0;
}

/* ---- kinds ---- */

/* In this order: runtime calls first, so that no kernel comes without its launch. */
static const int all_kinds[] = {CUPTI_KIND_DEVICE,
                                CUPTI_KIND_EXTERNAL,
                                CUPTI_KIND_RUNTIME,
                                CUPTI_KIND_DRIVER,
                                CUPTI_KIND_CONCURRENT_KERNEL,
                                CUPTI_KIND_MEMCPY,
                                CUPTI_KIND_MEMCPY2,
                                CUPTI_KIND_MEMSET,
                                CUPTI_KIND_SYNCHRONIZATION,
                                CUPTI_KIND_MEMORY2,
                                CUPTI_KIND_MEMORY_POOL,
                                CUPTI_KIND_OVERHEAD,
                                CUPTI_KIND_GRAPH_TRACE};
#define ALL_KINDS (sizeof all_kinds / sizeof *all_kinds)

/* OPGAP_GPU: whole graphs exclude the kernels in them; driver calls are many. */
static bool is_asked_for(int kind)
{
  uint32_t detail = opgap_settings ? opgap_settings->gpu : 0;
  switch (kind) {
  case CUPTI_KIND_GRAPH_TRACE:
    return (detail & OPGAP_GPU_NODES) == 0 && opgap_cupti_graphs_whole();
  case CUPTI_KIND_DRIVER:
    return (detail & OPGAP_GPU_DRIVER) != 0;
  case CUPTI_KIND_EXTERNAL:
    return (detail & OPGAP_GPU_EXTERNAL) != 0;
  default:
    return true;
  }
}

static void quiet_runtime_calls(void)
{
#define X(cbid, name) opgap_cupti_runtime_call(cbid, false); /* where that fails the decoder leaves them out */
  CUPTI_QUIET_RUNTIME_CALLS(X)
#undef X
}

static void driver_launches(bool on)
{
#define X(cbid, name) opgap_cupti_driver_call(cbid, on); /* where CUPTI knows all or none: none */
  CUPTI_DRIVER_LAUNCHES(X)
#undef X
}

/* CUPTI_OK, or the error of the kind that nothing works without. */
static int enable_kinds(void)
{
  int kernel_result = CUPTI_OK;
  opgap_cuda_report_by(OPGAP_CUDA_CHANGING);
  for (unsigned i = 0; i < ALL_KINDS; i++) {
    int result = is_asked_for(all_kinds[i]) ? opgap_cupti_enable(all_kinds[i]) : CUPTI_OK;
    if (all_kinds[i] == CUPTI_KIND_CONCURRENT_KERNEL)
      kernel_result = result; /* the others may be missing on a device or in an older CUPTI */
  }
  life.enabled = kernel_result == CUPTI_OK;
  if (life.enabled) {
    quiet_runtime_calls();
    if (!is_asked_for(CUPTI_KIND_DRIVER))
      driver_launches(true);
  }
  opgap_cuda_report_by(life.enabled ? OPGAP_CUDA_BY_CUPTI : OPGAP_CUDA_BY_HOOKS);
  return kernel_result;
}

static void disable_kinds(void)
{
  opgap_cuda_report_by(OPGAP_CUDA_CHANGING);
  if (!is_asked_for(CUPTI_KIND_DRIVER))
    driver_launches(false);
  for (unsigned i = ALL_KINDS; i-- > 0;)
    if (is_asked_for(all_kinds[i]))
      opgap_cupti_disable(all_kinds[i]);
  life.enabled = false;
  opgap_cuda_report_by(OPGAP_CUDA_BY_HOOKS);
}

/* ---- attach and detach: lock held, on threads that share the program's descriptors ---- */

static const char *failure_text(int result)
{
  switch (result) {
  case CUPTI_NO_PRIVILEGE:
  case CUPTI_VIRTUALIZED_NO_PRIVILEGE:
    return "unavailable: no permission to profile the GPU (NVreg_RestrictProfilingToAdminUsers)";
  case CUPTI_MULTIPLE_SUBSCRIBERS:
    return "unavailable: another tool holds CUPTI";
  case CUPTI_VIRTUALIZED:
    return "unavailable: CUPTI does not support this virtual GPU";
  case CUPTI_CONFIDENTIAL_COMPUTING:
    return "unavailable: CUPTI does not work under confidential computing";
  case CUPTI_MIG_DEVICE:
    return "unavailable: CUPTI does not support this MIG device";
  case CUPTI_NOT_INITIALIZED:
    return "unavailable: CUPTI does not start (no working driver)";
  default:
    return "unavailable: CUPTI does not start";
  }
}

static void exit_handler(void);

static void register_exit(void)
{
  if (atomic_fetch_add_explicit(&life.exit_handlers, 1, memory_order_relaxed) < EXIT_HANDLERS)
    atexit(exit_handler);
}

/* The only callback: CUDA has made a context, so its exit handlers stand. */
static void subscriber_callback(void *user, int domain, uint32_t cbid, const void *data)
{
  (void)user;
  (void)data;
  if (domain == CUPTI_DOMAIN_RESOURCE && cbid == CUPTI_RESOURCE_CONTEXT_CREATED)
    register_exit();
}

/* After another user of this process, its idle subscription may stay; activities do not need one. */
static int attach_cupti(bool after_other)
{
  int result = opgap_cupti_subscribe(subscriber_callback);
  if (result != CUPTI_OK && !(after_other && result == CUPTI_MULTIPLE_SUBSCRIBERS))
    return result;
  opgap_gpu_buffers_close(false);
  result = opgap_cupti_register();
  if (result == CUPTI_OK) {
    opgap_gpu_clock_start();
    if (wanted())
      result = enable_kinds();
  }
  if (result != CUPTI_OK) {
    disable_kinds();
    opgap_cupti_restore();
    opgap_cupti_unsubscribe();
  }
  return result;
}

static void flush(void)
{
  opgap_cupti.cuptiActivityFlushAll(0);
  opgap_gpu_buffers_ask_dropped();
}

/* Everything CUPTI has, finished or not. */
static void flush_forced(uint64_t patience_ns)
{
  uint64_t give_up = opgap_clock_ns() + patience_ns;
  uint32_t never = 0;
  flush();
  while (opgap_gpu_buffers_filling() > 0 && opgap_clock_ns() < give_up) {
    opgap_raw_futex_wait(&never, 0, 1000000);
    flush();
  }
  opgap_cupti.cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
  opgap_gpu_buffers_ask_dropped();
}

static void detach_cupti(void)
{
  disable_kinds();
  flush_forced(0);
  opgap_cupti_restore();
  opgap_cupti_unsubscribe();
}

/* ---- helper ---- */

static void ring(void)
{
  atomic_fetch_add_explicit(&life.bell, 1, memory_order_release);
  opgap_raw_futex_wake(&life.bell);
}

static void attach(void);

static void expect_to_join(void)
{
  atomic_store_explicit(&life.join_by, opgap_clock_ns() + JOIN_PATIENCE_NS, memory_order_release);
}

/* Beside a user that allows others.  Not before it collects: until then it may choose how, and the first choice counts
 * for all.  Returns whether it is still to come. */
static bool join(void)
{
  uint64_t join_by = atomic_load_explicit(&life.join_by, memory_order_acquire);
  if (join_by == 0 || state_now() != LIFE_YIELDED)
    return false;
  bool ready = opgap_clock_ns() > join_by;
  if (!ready && lock_life(LOCK_PATIENCE_NS)) {
    ready = opgap_cupti_others_collect();
    unlock_life();
  }
  if (ready) {
    atomic_store_explicit(&life.join_by, 0, memory_order_relaxed);
    attach();
  }
  return !ready;
}

/* While another user has CUPTI, what NVML tells of the devices goes on. */
static void sample_beside(void)
{
  if (!wanted() || (!opgap_gpu_state_any() && opgap_gpu_state_find() != OPGAP_GPU_FOUND))
    return;
  if (opgap_gpu_state_sample(opgap_clock_ns()))
    opgap_session_wake();
}

/* One round; returns in how many ns another must follow, 0: when the bell rings. */
static uint64_t helper_round(void)
{
  bool joins = join();
  uint64_t retake_at = atomic_load_explicit(&life.retake_at, memory_order_acquire);
  if (state_now() == LIFE_YIELDED)
    sample_beside();
  if (retake_at != 0) {
    if (opgap_clock_ns() < retake_at)
      return FLUSH_EVERY_NS;
    atomic_store_explicit(&life.retake_at, 0, memory_order_relaxed);
    attach();
  }
  if (state_now() == LIFE_YIELDED)
    return joins ? FLUSH_EVERY_NS : SAMPLE_EVERY_NS;
  if (state_now() != LIFE_ATTACHED || !lock_life(LOCK_PATIENCE_NS))
    return state_now() == LIFE_ATTACHED ? FLUSH_EVERY_NS : 0;
  bool more = false, works = opgap_gpu_buffers_filling() > 0;
  if (state_now() == LIFE_ATTACHED) {
    if (wanted() != life.enabled) {
      if (life.enabled)
        disable_kinds();
      else
        enable_kinds();
    }
    if (works)
      flush();
    more = opgap_gpu_buffers_filling() > 0;
    if (opgap_gpu_buffer_take() != NULL) { /* the wake-up at its completion came before the flusher slept */
      opgap_session_wake();
      more = true;
    }
  }
  unlock_life();
  if (works && opgap_gpu_state_sample(opgap_clock_ns()))
    opgap_session_wake();
  return more ? FLUSH_EVERY_NS : 0;
}

/* CUPTI does not work: NVML tells at least how much the devices do.  Until the program ends. */
static void sample_instead(void)
{
  enum opgap_gpu_found found = OPGAP_GPU_NOT_YET;
  while (found != OPGAP_GPU_NONE && !atomic_load_explicit(&life.over, memory_order_acquire)) {
    uint32_t bell = atomic_load_explicit(&life.bell, memory_order_acquire);
    if (found == OPGAP_GPU_NOT_YET)
      found = opgap_gpu_state_find();
    if (wanted() && opgap_gpu_state_sample(opgap_clock_ns()))
      opgap_session_wake();
    opgap_raw_futex_wait(&life.bell, bell, found == OPGAP_GPU_FOUND ? SAMPLE_EVERY_NS : FLUSH_EVERY_NS);
  }
}

static void *helper_main(void *unused)
{
  (void)unused;
  opgap_vfork_enter(); /* for good: hooks pass this thread's calls through */
  uint32_t bell = atomic_load_explicit(&life.bell, memory_order_acquire);
  uint64_t again_ns = FLUSH_EVERY_NS;
  while (state_now() != LIFE_ENDED && state_now() != LIFE_FAILED) {
    atomic_store_explicit(&life.sleeps, again_ns == 0, memory_order_seq_cst);
    /* seq_cst pairs with the exchange in opgap_gpu_wake_helper: a buffer that went out before we said "sleeps" is
     * seen here, one after it rings the bell */
    if (again_ns == 0 && opgap_gpu_buffers_filling() > 0)
      again_ns = FLUSH_EVERY_NS;
    opgap_raw_futex_wait(&life.bell, bell, again_ns);
    bell = atomic_load_explicit(&life.bell, memory_order_acquire); /* what rings during a round is another round */
    again_ns = helper_round();
  }
  if (state_now() == LIFE_FAILED)
    sample_instead();
  return NULL;
}

void opgap_gpu_wake_helper(void)
{
  atomic_store_explicit(&life.any_record, true, memory_order_relaxed);
  if (atomic_exchange_explicit(&life.sleeps, 0, memory_order_seq_cst) != 0)
    ring();
}

/* The helper starts with all signals blocked; the caller's mask is the same before and after. */
static void start_helper(void)
{
  pthread_attr_t attributes;
  pthread_t thread;
  if (life.helper_runs || pthread_attr_init(&attributes) != 0)
    return;
  opgap_session_threads();
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, HELPER_STACK);
  uint64_t signals = opgap_raw_block_signals();
  life.helper_runs = pthread_create(&thread, &attributes, helper_main, NULL) == 0;
  opgap_raw_restore_signals(signals);
  pthread_attr_destroy(&attributes);
}

static void fail(const char *reason, bool vaguely)
{
  static bool said;
  atomic_store_explicit(&life.failed_vaguely, vaguely, memory_order_relaxed);
  atomic_store_explicit(&life.failure, reason, memory_order_relaxed);
  set_state(LIFE_FAILED);
  opgap_notice(&said, "no GPU activity: %s", reason + sizeof "unavailable: " - 1);
}

/* From ABSENT or YIELDED to ATTACHED or FAILED, or to YIELDED while another user gets ready.  On a program's thread or
 * the helper. */
static void attach(void)
{
  if (!lock_life(LOCK_PATIENCE_NS))
    return;
  if (state_now() == LIFE_ABSENT || state_now() == LIFE_YIELDED) {
    const char *reason = opgap_cupti_bind();
    bool first = state_now() == LIFE_ABSENT;
    bool wait = first && reason == NULL && opgap_cupti_others_share() && !opgap_cupti_others_collect();
    int result = reason || wait ? CUPTI_UNKNOWN : attach_cupti(!first);
    if (wait) {
      set_state(LIFE_YIELDED);
      expect_to_join();
      start_helper();
    } else if (result == CUPTI_OK) {
      if (state_now() == LIFE_YIELDED) /* contexts may stand already */
        register_exit();
      set_state(LIFE_ATTACHED);
      start_helper();
    } else {
      fail(reason ? reason : failure_text(result),
           reason || result == CUPTI_NOT_INITIALIZED || result == CUPTI_UNKNOWN);
      start_helper();
    }
  }
  unlock_life();
}

/* The tracer's own work on a program's thread must not appear in the trace. */
static void attach_unseen(void)
{
  opgap_vfork_enter();
  attach();
  opgap_vfork_leave();
}

/* ---- entries ---- */

static void end_cupti(void)
{
  if (state_now() != LIFE_ATTACHED || !lock_life(LOCK_PATIENCE_NS))
    return;
  opgap_vfork_enter();
  if (state_now() == LIFE_ATTACHED) {
    if (opgap_gpu_buffers_filling() > 0)
      flush_forced(EXIT_PATIENCE_NS);
    opgap_gpu_buffers_close(true);
    opgap_cuda_report_by(OPGAP_CUDA_BY_HOOKS);
    set_state(LIFE_ENDED);
    ring();
  }
  opgap_vfork_leave();
  unlock_life();
}

static void exit_handler(void)
{
  ensure_process();
  opgap_gpu_state_stop();
  end_cupti();
}

/* On the way of exit() the handler has run, and this finds ENDED.  On that of _exit() it has not, and CUDA is up. Where
 * none was registered there never was a context, so there is nothing to collect. */
void opgap_gpu_end(void)
{
  ensure_process();
  if (atomic_load_explicit(&life.exit_handlers, memory_order_relaxed) > 0)
    end_cupti();
  atomic_store_explicit(&life.over, true, memory_order_release);
  opgap_gpu_state_stop();
}

void opgap_gpu_flush(void)
{
  ensure_process();
  if (atomic_load_explicit(&life.exit_handlers, memory_order_relaxed) == 0 || state_now() != LIFE_ATTACHED ||
      !lock_life(LOCK_PATIENCE_NS))
    return;
  opgap_vfork_enter();
  if (state_now() == LIFE_ATTACHED && opgap_gpu_buffers_filling() > 0)
    flush_forced(0);
  opgap_vfork_leave();
  unlock_life();
}

void opgap_gpu_drain(void)
{
  ensure_process();
  struct opgap_gpu_buffer *buffer;
  bool over = atomic_load_explicit(&life.over, memory_order_acquire); /* before the last buffers are taken */
  while ((buffer = opgap_gpu_buffer_take()) != NULL) {
    opgap_gpu_decode(buffer);
    opgap_gpu_buffer_release(buffer);
  }
  opgap_cuda_settle(over, opgap_gpu_emit_call);
  opgap_gpu_state_drain();
  opgap_gpu_emit_lost(1, opgap_gpu_buffers_dropped());
}

void opgap_gpu_poll(void)
{
  ensure_process();
  if (state_now() == LIFE_ATTACHED && wanted() != life.enabled)
    ring();
}

OPGAP_EARLY_CODE void opgap_gpu_window(void)
{
  if (atomic_load_explicit(&life_pid, memory_order_relaxed) == 0)
    return; /* neither this process nor one that it was forked from has come to CUDA */
  ensure_process();
  if (state_now() != LIFE_ABSENT)
    opgap_gpu_poll();
}

/* libcuda calls this inside cuInit: CUDA_INJECTION64_PATH, documented with CUPTI's injection samples. */
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void)
{
  if (!atomic_load_explicit(&started, memory_order_relaxed))
    return 1;
  ensure_process();
  if (state_now() == LIFE_ABSENT && (opgap_settings == NULL || (opgap_settings->hooks & OPGAP_GROUP_cuda) != 0))
    attach_unseen();
  return 1;
}

void opgap_gpu_foreign_enter(void)
{
  static bool said;
  ensure_process();
  if (state_now() != LIFE_ATTACHED || !lock_life(LOCK_PATIENCE_NS))
    return;
  opgap_vfork_enter();
  bool released = state_now() == LIFE_ATTACHED;
  if (released) {
    detach_cupti();
    set_state(LIFE_YIELDED);
    ring(); /* the helper goes on with NVML alone */
  }
  opgap_vfork_leave();
  unlock_life();
  if (released)
    opgap_notice(&said, "another user of CUPTI starts: GPU activity pauses until it ends");
}

bool opgap_gpu_foreign_kind(int kind, bool on)
{
  uint64_t bit = kind >= 0 && kind < 64 ? UINT64_C(1) << kind : 0;
  if (on)
    return (atomic_fetch_or_explicit(&life.foreign_kinds, bit, memory_order_relaxed) | bit) != 0;
  return (atomic_fetch_and_explicit(&life.foreign_kinds, ~bit, memory_order_relaxed) & ~bit) != 0;
}

bool opgap_gpu_foreign_allows(const void *parameters)
{
  const struct cupti_subscriber_params *params = parameters;
  return params != NULL && params->size > offsetof(struct cupti_subscriber_params, allow_several) &&
         params->allow_several == 1;
}

bool opgap_gpu_foreign_disturbs(const void *parameters)
{
  ensure_process();
  return !opgap_gpu_foreign_allows(parameters) || state_now() != LIFE_ATTACHED || !opgap_cupti_shared();
}

void opgap_gpu_foreign_shares(void)
{
  if (state_now() != LIFE_YIELDED || !opgap_cupti.can_share)
    return;
  expect_to_join();
  ring();
}

void opgap_gpu_foreign_clock(uint64_t (*now)(void))
{
  opgap_cupti_program_clock(now);
}

void opgap_gpu_foreign_leave(bool holds)
{
  if (!holds) {
    atomic_store_explicit(&life.foreign_kinds, 0, memory_order_relaxed);
    atomic_store_explicit(&life.join_by, 0, memory_order_relaxed);
  }
  if (state_now() != LIFE_YIELDED)
    return;
  atomic_store_explicit(&life.retake_at, holds ? 0 : opgap_clock_ns() + RETAKE_AFTER_NS, memory_order_release);
  if (!holds)
    ring();
}

OPGAP_EARLY_CODE void opgap_gpu_start(void)
{
  Dl_info self;
  char path[PATH_MAX]; /* absolute: the program may change its folder before CUDA looks */
  atomic_store_explicit(&started, true, memory_order_relaxed);
  if (getenv("CUDA_INJECTION64_PATH") && getenv("NVTX_INJECTION64_PATH"))
    return; /* a child of a traced program has them already */
  if (!dladdr((void *)(uintptr_t)InitializeInjection, &self) || self.dli_fname == NULL ||
      realpath(self.dli_fname, path) == NULL)
    return;
  setenv("CUDA_INJECTION64_PATH", path, 0);
  setenv("NVTX_INJECTION64_PATH", path, 0);
}

const char *opgap_gpu_status(void)
{
  ensure_process();
  bool device = opgap_cupti_device_node();
  switch (state_now()) {
  case LIFE_FAILED:
    if (!device && atomic_load_explicit(&life.failed_vaguely, memory_order_relaxed))
      return "no device";
    return atomic_load_explicit(&life.failure, memory_order_relaxed);
  case LIFE_YIELDED:
    return "unavailable: another user of CUPTI took over";
  case LIFE_ATTACHED:
  case LIFE_ENDED:
    if (atomic_load_explicit(&life.any_record, memory_order_relaxed))
      return "ok";
    return device ? "unavailable: CUPTI reported nothing" : "no device";
  default:
    break;
  }
  if (!device)
    return "no device";
  return opgap_gpu_library_loaded("libcuda.so")
             ? "unavailable: CUDA did not call the tracer (CUDA_INJECTION64_PATH belongs to another tool)"
             : "unavailable: the program did not use CUDA";
}
