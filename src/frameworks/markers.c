/* What the markers of opgap.h call when the tracer is loaded.
 *
 * Threads: any; hot path.  A range's tag is made of its place in the thread's stack of open ops; so the innermost open
 * range is found there again, and no other state is kept.
 */
#include <opgap/opgap.h>

#include <string.h>

#include "frameworks/steps.h"
#include "frameworks/torch_record.h"
#include "record/record.h"

#define EXPORT __attribute__((visibility("default")))
#define MARKER_TAG (UINT64_C(1) << 62) /* no address and no tag of torch's ranges has this bit alone */
#define MARKER_TAG_MASK (UINT64_C(3) << 62)
#define MARKER_RECORDED (UINT64_C(1) << 61) /* the push was inside the window of recording */
#define RANGE_BY_HEADER 1u                  /* status of OPGAP_EV_RANGE: opgap.h */

/* Outside the window of recording: ranges are still pushed, so that each pop finds its own, and steps are counted. */
static bool recording(void)
{
  return (opgap_active & ~(uint32_t)OPGAP_GROUP_process) != 0;
}

static struct opgap_thread *traced_thread(void)
{
  return opgap_active ? opgap_self() : NULL;
}

EXPORT void opgap_marker_step(void)
{
  if (traced_thread() == NULL)
    return;
  const uint64_t no_name = 0;
  if (recording())
    opgap_emit(OPGAP_EV_STEP, 0, opgap_ticks(), 0, &no_name, 1);
  opgap_step_ended(OPGAP_STEP_MARKER);
}

EXPORT void opgap_marker_push(const char *name)
{
  struct opgap_thread *thread = traced_thread();
  if (thread == NULL)
    return;
  uint32_t id = name ? opgap_intern(name, strlen(name)) : 0;
  opgap_op_begin(id, RANGE_BY_HEADER, MARKER_TAG | (recording() ? MARKER_RECORDED : 0) | thread->depth, 0);
}

EXPORT void opgap_marker_pop(void)
{
  struct opgap_thread *thread = traced_thread();
  if (thread == NULL)
    return;
  for (uint32_t depth = thread->depth; depth > 0; depth--) {
    uint64_t tag = thread->ops[depth - 1].tag;
    if ((tag & MARKER_TAG_MASK) != MARKER_TAG)
      continue;
    if (tag & MARKER_RECORDED)
      opgap_op_end(OPGAP_EV_RANGE, tag, OPGAP_NO_SEQUENCE);
    else
      thread->depth = depth - 1; /* dropped, with what was left open inside it */
    return;
  }
}
