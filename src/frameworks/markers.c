/* What the markers of opgap.h call when the tracer is loaded.
 *
 * Threads: any; hot path.  A range's tag is made of its place in the thread's stack of open ops; so the innermost open
 * range is found there again, and no other state is kept.
 */
#include <opgap/opgap.h>

#include <string.h>

#include "frameworks/torch_record.h"
#include "record/record.h"
#include "record/session.h"
#include "record/settings.h"

#define EXPORT __attribute__((visibility("default")))
#define MARKER_TAG (UINT64_C(1) << 62) /* no address and no tag of torch's ranges has this bit alone */
#define MARKER_TAG_MASK (UINT64_C(3) << 62)
#define RANGE_BY_HEADER 1u /* status of OPGAP_EV_RANGE: opgap.h */

/* Markers stay on while a schedule has recording off: steps are counted by them. */
static struct opgap_thread *marked_thread(void)
{
  if (opgap_active == 0 && opgap_settings->schedule.active == 0)
    return NULL;
  return opgap_self();
}

EXPORT void opgap_marker_step(void)
{
  if (marked_thread() == NULL)
    return;
  const uint64_t no_name = 0;
  opgap_emit(OPGAP_EV_STEP, 0, opgap_ticks(), 0, &no_name, 1);
}

EXPORT void opgap_marker_push(const char *name)
{
  struct opgap_thread *thread = marked_thread();
  if (thread == NULL)
    return;
  uint32_t id = name ? opgap_intern(name, strlen(name)) : 0;
  opgap_op_begin(id, RANGE_BY_HEADER, MARKER_TAG | thread->depth, 0);
}

EXPORT void opgap_marker_pop(void)
{
  struct opgap_thread *thread = marked_thread();
  if (thread == NULL)
    return;
  for (uint32_t depth = thread->depth; depth > 0; depth--) {
    uint64_t tag = thread->ops[depth - 1].tag;
    if ((tag & MARKER_TAG_MASK) == MARKER_TAG) {
      opgap_op_end(OPGAP_EV_RANGE, tag, OPGAP_NO_SEQUENCE);
      return;
    }
  }
}
