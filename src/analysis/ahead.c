#include "analysis/ahead.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/pool.h"

unsigned opgap_cpus(void)
{
  cpu_set_t set;
  int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  return count > 1 ? (unsigned)count : 1;
}

#define LEAST_RECORDS 50000u /* for fewer a second thread is not worth its start */

unsigned opgap_threads_for(unsigned asked, uint64_t records)
{
  return asked != 0 ? asked : records >= LEAST_RECORDS ? opgap_cpus() : 1;
}

/* Signals are for the thread that the program knows. */
static bool start_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(thread, NULL, run, context) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* ---- the queue ---- */

#define BATCH_RECORDS 1024u
#define BATCHES 16u
#define ENOUGH (BATCHES / 2) /* who had to wait goes on at this many: so each sleeps seldom */

struct run {
  uint32_t input, count;
};

struct batch {
  size_t record_count, run_count; /* 0: the end */
  struct run runs[BATCH_RECORDS];
  struct opgap_record records[BATCH_RECORDS];
};

struct ahead {
  ahead_source *next; /* the reading thread's, if there is one */
  void *context;
  bool threaded;
  pthread_t reader;
  struct batch *batches; /* [BATCHES], a ring; those from `taken` to `filled` are the user's */
  pthread_mutex_t lock;  /* filled, taken, ended, left */
  pthread_cond_t more, room;
  size_t filled, taken;
  bool ended, left;            /* nothing comes any more; nothing is wanted any more */
  const struct batch *current; /* NULL: none */
  size_t next_run, next_record;
};

/* NULL: nothing is wanted any more. */
static struct batch *claim_batch(struct ahead *a)
{
  pthread_mutex_lock(&a->lock);
  if (a->filled - a->taken == BATCHES)
    while (!a->left && a->filled - a->taken > ENOUGH)
      pthread_cond_wait(&a->room, &a->lock);
  struct batch *batch = a->left ? NULL : &a->batches[a->filled % BATCHES];
  pthread_mutex_unlock(&a->lock);
  return batch;
}

static void publish_batch(struct ahead *a, bool last)
{
  pthread_mutex_lock(&a->lock);
  a->filled++;
  a->ended = last;
  if (last || a->filled - a->taken >= ENOUGH)
    pthread_cond_signal(&a->more);
  pthread_mutex_unlock(&a->lock);
}

static const struct batch *take_batch(struct ahead *a)
{
  pthread_mutex_lock(&a->lock);
  a->taken += a->current != NULL; /* it is done */
  if (a->filled - a->taken == ENOUGH)
    pthread_cond_signal(&a->room);
  if (a->filled == a->taken)
    while (!a->ended && a->filled - a->taken < ENOUGH)
      pthread_cond_wait(&a->more, &a->lock);
  const struct batch *batch = &a->batches[a->taken % BATCHES];
  pthread_mutex_unlock(&a->lock);
  return batch;
}

/* Appends records of one input. */
static void append(struct batch *batch, size_t input, const struct opgap_record *records, size_t count)
{
  struct opgap_record *to = &batch->records[batch->record_count];
  if (count == 1) /* half of the runs of threads that run at the same time: no call */
    *to = *records;
  else
    memcpy(to, records, count * sizeof *records);
  batch->record_count += count;
  if (batch->run_count == 0 || batch->runs[batch->run_count - 1].input != input)
    batch->runs[batch->run_count++] = (struct run){.input = (uint32_t)input};
  batch->runs[batch->run_count - 1].count += (uint32_t)count;
}

static void *read_ahead(void *context)
{
  struct ahead *a = context;
  const struct opgap_record *records = NULL;
  struct batch *batch;
  size_t input = 0, left = 0;
  for (bool last = false; !last && (batch = claim_batch(a)) != NULL;) {
    batch->record_count = batch->run_count = 0;
    while (batch->record_count < BATCH_RECORDS) {
      if (left == 0 && (left = a->next(a->context, &input, &records)) == 0)
        break;
      size_t room = BATCH_RECORDS - batch->record_count, count = left < room ? left : room;
      append(batch, input, records, count);
      records += count;
      left -= count;
    }
    last = batch->record_count == 0;
    publish_batch(a, last);
  }
  return NULL;
}

static bool start_reader(struct ahead *a)
{
  a->batches = opgap_xcalloc(BATCHES, sizeof *a->batches);
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->more, NULL);
  pthread_cond_init(&a->room, NULL);
  return start_thread(&a->reader, read_ahead, a);
}

struct ahead *ahead_begin(ahead_source *next, void *context, unsigned threads)
{
  struct ahead *a = opgap_xcalloc(1, sizeof *a);
  a->next = next;
  a->context = context;
  a->threaded = threads > 1 && start_reader(a);
  return a;
}

static __attribute__((noinline)) size_t next_of_queue(struct ahead *a, size_t *input,
                                                      const struct opgap_record **records)
{
  if (a->current == NULL || a->next_run == a->current->run_count) {
    a->current = take_batch(a);
    a->next_run = a->next_record = 0;
    if (a->current->run_count == 0)
      return 0;
  }
  const struct run *run = &a->current->runs[a->next_run++];
  *input = run->input;
  *records = &a->current->records[a->next_record];
  a->next_record += run->count;
  return run->count;
}

size_t ahead_next(struct ahead *a, size_t *input, const struct opgap_record **records)
{
  return a->threaded ? next_of_queue(a, input, records) : a->next(a->context, input, records);
}

void ahead_end(struct ahead *a)
{
  if (a == NULL)
    return;
  if (a->threaded) {
    pthread_mutex_lock(&a->lock);
    a->left = true;
    pthread_cond_signal(&a->room);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->reader, NULL);
  }
  if (a->batches != NULL) {
    pthread_cond_destroy(&a->room);
    pthread_cond_destroy(&a->more);
    pthread_mutex_destroy(&a->lock);
    free(a->batches);
  }
  free(a);
}

/* ---- the streams of a process ---- */

struct ahead_streams {
  const struct opgap_source *source;
  unsigned process, stream, count; /* stream: being read */
  void *cursor;                    /* NULL: not opened yet */
  struct ahead *ahead;
};

static size_t next_of_streams(void *context, size_t *stream, const struct opgap_record **records)
{
  struct ahead_streams *s = context;
  for (; s->stream < s->count; s->stream++) {
    if (s->cursor == NULL)
      s->cursor = s->source->cursor_open(s->source->context, s->process, s->stream);
    size_t count = s->cursor != NULL ? s->source->cursor_batch(s->cursor, records) : 0;
    *stream = s->stream;
    if (count > 0)
      return count;
    if (s->cursor != NULL)
      s->source->cursor_close(s->cursor);
    s->cursor = NULL;
  }
  return 0;
}

struct ahead_streams *ahead_streams_begin(const struct opgap_source *source, unsigned process)
{
  struct ahead_streams *s = opgap_xcalloc(1, sizeof *s);
  const struct opgap_process_info *info = source->process(source->context, process);
  *s = (struct ahead_streams){.source = source, .process = process, .count = info->stream_count};
  s->ahead = ahead_begin(next_of_streams, s, opgap_threads_for(source->threads, info->records));
  return s;
}

size_t ahead_streams_next(struct ahead_streams *s, size_t *stream, const struct opgap_record **records)
{
  return ahead_next(s->ahead, stream, records);
}

void ahead_streams_end(struct ahead_streams *s)
{
  ahead_end(s->ahead);
  if (s->cursor != NULL)
    s->source->cursor_close(s->cursor);
  free(s);
}

/* ---- work that is divided ---- */

#define THREADS_MOST 16u

struct division {
  void (*work)(void *context, size_t i);
  void *context;
  size_t count;
  atomic_size_t next; /* relaxed: what was done is seen by pthread_join */
};

static void *take_part(void *context)
{
  struct division *d = context;
  for (size_t i; (i = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed)) < d->count;)
    d->work(d->context, i);
  return NULL;
}

void ahead_divide(unsigned threads, size_t count, void (*work)(void *context, size_t i), void *context)
{
  struct division d = {.work = work, .context = context, .count = count};
  pthread_t others[THREADS_MOST - 1];
  size_t wanted = threads < THREADS_MOST ? threads : THREADS_MOST, started = 0;
  wanted = wanted < count ? wanted : count;
  while (started + 1 < wanted && start_thread(&others[started], take_part, &d))
    started++;
  take_part(&d);
  for (size_t i = 0; i < started; i++)
    pthread_join(others[i], NULL);
}
