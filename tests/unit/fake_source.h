/* Traces made up in memory, for tests of the analysis.  Times are in microseconds, so that figures stay readable. */
#ifndef OPGAP_TESTS_FAKE_SOURCE_H
#define OPGAP_TESTS_FAKE_SOURCE_H

#include "analysis/analysis.h"

enum fake_hook {
  FAKE_READ = OPGAP_FIRST_HOOK,
  FAKE_WRITE,
  FAKE_OPEN,
  FAKE_POLL,
  FAKE_SEM_WAIT,
  FAKE_SEM_POST,
  FAKE_MUTEX_LOCK,
  FAKE_MUTEX_UNLOCK,
  FAKE_COND_WAIT,
  FAKE_COND_TIMEDWAIT,
  FAKE_COND_SIGNAL,
  FAKE_JOIN,
  FAKE_SLEEP,
  FAKE_MALLOC,
  FAKE_FREE,
  FAKE_CUDA_SYNC,
  FAKE_WAITPID,
  FAKE_CUDA_MALLOC,
  FAKE_BARRIER,
  FAKE_MMAP,
  FAKE_CLOSE,
  FAKE_STAT,
  FAKE_FLOCK,
  FAKE_RENAME,
  FAKE_UNLINK,
  FAKE_MSYNC,
  FAKE_EPOLL,
  FAKE_YIELD,
  FAKE_HOOK_END
};

/* A process is made by fake_process, a thread by fake_thread (the first is the main thread). */
void fake_reset(void);
unsigned fake_process(int pid, int ppid, const char *command);
unsigned fake_thread(unsigned process, int tid, const char *name);
unsigned fake_stream(unsigned process, enum opgap_stream_kind kind);
struct opgap_process_info *fake_info(unsigned process);
void fake_setting(unsigned process, const char *key, const char *value);
uint64_t fake_name(unsigned process, const char *text);
uint64_t fake_bytes(unsigned process, const void *bytes,
                    size_t length); /* a name of any bytes, which stay the caller's */

/* Records, in the order in which they ended on their stream. */
void fake_op(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us, const char *name,
             uint64_t allocs, uint64_t bytes);
void fake_range(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us,
                const char *name);
void fake_user_op(unsigned process, unsigned stream, unsigned depth, uint64_t start_us, uint64_t end_us,
                  const char *name);
void fake_step(unsigned process, unsigned stream, uint64_t at_us);
void fake_call(unsigned process, unsigned stream, unsigned depth, enum fake_hook hook, uint64_t start_us,
               uint64_t end_us, uint64_t object, uint64_t value, uint32_t status);
void fake_file_call(unsigned process, unsigned stream, unsigned depth, enum fake_hook hook, uint64_t start_us,
                    uint64_t end_us, const char *path, uint64_t value);
void fake_counter(unsigned process, unsigned stream, enum fake_hook hook, uint64_t at_us, uint64_t calls,
                  uint64_t bytes, uint64_t failed, uint64_t timed, uint64_t time_ns);
void fake_record(unsigned process, unsigned stream, struct opgap_record record);

struct opgap_source fake_source(void);
/* Analyses what was made; fails the test if that fails. */
struct opgap_summary *fake_analyse(const struct opgap_analysis_options *options);

#endif
