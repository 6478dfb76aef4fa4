#include "record/keep.h"

#include <string.h>

#include "format/reader.h"
#include "format/trace_format.h"
#include "record/control.h"
#include "record/gpu_stream.h"
#include "record/internal.h"
#include "record/raw.h"
#include "record/schedule.h"
#include "record/stacks.h"

static const uint8_t *description;
static size_t description_bytes;
static uint64_t part_start_ns;

void opgap_keep_begin(const uint8_t *pairs, size_t pairs_bytes)
{
  description = pairs;
  description_bytes = pairs_bytes;
  part_start_ns = opgap_state->arena->first_anchor.ns;
}

static bool path_with(char *path, size_t size, const char *suffix)
{
  struct opgap_text text = {path, path + size - 1};
  opgap_text_string(&text, opgap_state->arena->trace_file);
  opgap_text_string(&text, suffix);
  return text.at < text.end;
}

static long move(const char *from, const char *to)
{
  return opgap_raw6(SYS_renameat, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0);
}

/* The present part takes a second name, so that a part has the process's name at every moment; where the file system
 * has no links it is renamed. */
static long make_older(const char *second, const char *older)
{
  const char *present = opgap_state->arena->trace_file;
  opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)second, 0);
  if (opgap_raw6(SYS_linkat, AT_FDCWD, (long)present, AT_FDCWD, (long)second, 0, 0) < 0)
    return move(present, older);
  return move(second, older);
}

/* What the process stream and the GPU's say once, and a reader of this part must know. */
static size_t more_of_stream(const struct opgap_thread *slot, uint64_t *words, size_t room)
{
  if (slot->kind == OPGAP_STREAM_GPU)
    return opgap_gpu_devices(words, room);
  if (slot->kind != OPGAP_STREAM_PROCESS)
    return 0;
  uint64_t now = opgap_state->arena->last_anchor.ns;
  size_t count = 0;
  if (opgap_control_stopped() || opgap_schedule_waits()) {
    words[count++] = OPGAP_WORD0(OPGAP_EV_RECORDING, 2, 0, 0);
    words[count++] = now;
  }
  return count + opgap_stack_tables(words + count, room - count, now);
}

static long write_part(const char *path)
{
  struct opgap_state *state = opgap_state;
  long fd = opgap_raw_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return fd;
  state->part_file = (int)fd + 1;
  long error = opgap_consumer_part(state->consumer, description, description_bytes, more_of_stream);
  state->part_file = 0;
  opgap_raw_close((int)fd);
  return error;
}

static long new_part(void)
{
  struct opgap_state *state = opgap_state;
  char path[sizeof state->arena->trace_file + 16], second[sizeof path], older[sizeof path];
  if (!path_with(path, sizeof path, ".new") || !path_with(second, sizeof second, ".link") ||
      !path_with(older, sizeof older, OPGAP_OLDER_PART))
    return -36; /* ENAMETOOLONG */
  uint64_t before = state->file_bytes;
  state->file_bytes = 0;
  long error = write_part(path);
  if (error == 0)
    error = make_older(second, older);
  if (error == 0)
    error = move(path, state->arena->trace_file);
  if (error == 0) {
    state->part++;
    return 0;
  }
  state->file_bytes = before;
  opgap_raw3(SYS_unlinkat, AT_FDCWD, (long)path, 0);
  return error;
}

void opgap_keep_turn(void)
{
  struct opgap_arena *arena = opgap_state->arena;
  const struct opgap_settings *settings = &opgap_config.settings;
  uint64_t now = arena->last_anchor.ns;
  /* a third: two parts, each of which the last drain before its turn made larger */
  bool full = settings->max_size && opgap_state->file_bytes > settings->max_size / 3;
  if (settings->keep_ns == 0 || opgap_state->write_failed || (now - part_start_ns < settings->keep_ns && !full))
    return;
  struct opgap_account account = opgap_consumer_account(arena);
  long error = new_part();
  part_start_ns = now; /* after a failure, too: not to be tried again at once */
  if (error == 0)
    return;
  static bool said;
  opgap_consumer_restore(arena, account);
  opgap_notice(&said, "OPGAP_KEEP cannot drop what is old (%s, error %d): the trace grows", opgap_error_words(error),
               (int)-error);
}
