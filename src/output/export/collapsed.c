/* Collapsed stacks, a line each: "process;thread;op;op;call NANOSECONDS", as flame graph tools read them.
 *
 * The figure is the time in the last frame itself.  GPU work has stacks of its own, "process [GPU 0];op;op;kernel",
 * under the ops that launched it.  Memory grows with the number of different stacks alone. */
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/text.h"
#include "output/export/export.h"

#define LAUNCHES 1048576u /* remembered; a power of two */

struct node {
  uint32_t parent, name; /* name: in `texts` */
  uint64_t ns;
};

struct open_frame {
  uint64_t end_ns;
  uint32_t node;
};

struct thread_stack {
  uint32_t root;
  VEC(struct open_frame) open;
};

struct launch {
  uint64_t correlation;
  uint32_t process, node;
};

struct collapsed {
  struct opgap_export_job *job;
  struct opgap_pool *pool;
  struct opgap_strings texts;
  VEC(struct node) nodes;       /* node 0 is no node */
  struct opgap_map children;    /* (parent, name) -> node */
  struct opgap_map stack_index; /* (process, stream) -> stack + 1 */
  VEC(struct thread_stack) stacks;
  struct opgap_map on_device; /* (node, process and device) -> node */
  struct launch *launches;
  VEC(uint32_t) names; /* by name of the spans: text + 1 */
};

/* Frames are parted by ';', lines by their end. */
static uint32_t text_of(struct collapsed *c, const char *text)
{
  char *clean = text_clean(text);
  for (char *at = clean; (at = strchr(at, ';')) != NULL; at++)
    *at = ':';
  uint32_t id = opgap_strings_id(&c->texts, clean, strlen(clean));
  free(clean);
  return id;
}

static uint32_t name_of(struct collapsed *c, const struct opgap_span *span)
{
  while (c->names.count <= span->name)
    (void)VEC_PUSH(&c->names);
  if (c->names.at[span->name] == 0)
    c->names.at[span->name] = text_of(c, span->text) + 1;
  return c->names.at[span->name] - 1;
}

static uint32_t child(struct collapsed *c, uint32_t parent, uint32_t text)
{
  uint32_t *node = opgap_map_put(&c->children, parent, text);
  if (*node == 0) {
    *node = (uint32_t)c->nodes.count;
    *VEC_PUSH(&c->nodes) = (struct node){.parent = parent, .name = text};
  }
  return *node;
}

static struct thread_stack *stack_of(struct collapsed *c, const struct opgap_span *span)
{
  uint32_t *index = opgap_map_put(&c->stack_index, span->process, span->stream);
  if (*index != 0)
    return &c->stacks.at[*index - 1];
  const struct opgap_process_info *info = opgap_spans_process_info(c->job->spans, span->process);
  uint32_t process = child(c, 0, text_of(c, export_process_name(c->job, span->process)));
  struct thread_stack *stack = VEC_PUSH(&c->stacks);
  *index = (uint32_t)c->stacks.count;
  stack->root = child(c, process, text_of(c, info->streams[span->stream].name));
  return stack;
}

static void leave(struct thread_stack *stack, uint64_t time)
{
  while (stack->open.count > 0 && stack->open.at[stack->open.count - 1].end_ns <= time)
    stack->open.count--;
}

static uint32_t top(const struct thread_stack *stack)
{
  return stack->open.count > 0 ? stack->open.at[stack->open.count - 1].node : stack->root;
}

/* A span's own time is what its children do not take away from it again. */
static void add_span(struct collapsed *c, const struct opgap_span *span)
{
  struct thread_stack *stack = stack_of(c, span);
  leave(stack, span->start_ns);
  bool inside = stack->open.count > 0;
  uint64_t outer = inside ? stack->open.at[stack->open.count - 1].end_ns : UINT64_MAX;
  uint64_t end = span->end_ns < outer ? span->end_ns : outer;
  uint64_t ns = end > span->start_ns ? end - span->start_ns : 0;
  uint32_t parent = top(stack), node = child(c, parent, name_of(c, span));
  c->nodes.at[node].ns += ns;
  if (inside)
    c->nodes.at[parent].ns -= ns;
  *VEC_PUSH(&stack->open) = (struct open_frame){end, node};
}

static struct launch *launch_of(struct collapsed *c, const struct opgap_span *span)
{
  if (c->launches == NULL)
    c->launches = opgap_xcalloc(LAUNCHES, sizeof *c->launches);
  return &c->launches[(span->correlation + span->process * 7919u) & (LAUNCHES - 1)];
}

static void add_launch(struct collapsed *c, const struct opgap_span *span)
{
  struct thread_stack *stack = stack_of(c, span);
  leave(stack, span->start_ns);
  *launch_of(c, span) = (struct launch){span->correlation, span->process, top(stack)};
}

/* The stack of `node` below the device's root instead of its thread's. */
static uint32_t on_device(struct collapsed *c, const struct opgap_span *span, uint32_t node, uint32_t depth)
{
  uint64_t device = (uint64_t)span->process << 32 | span->device;
  bool is_thread = node == 0 || c->nodes.at[node].parent == 0 || c->nodes.at[c->nodes.at[node].parent].parent == 0;
  uint32_t known = opgap_map_get(&c->on_device, is_thread ? 0 : node, device);
  if (known != 0)
    return known;
  if (is_thread || depth > 512) {
    const char *name =
        opgap_pool_printf(c->pool, "%s [GPU %u]", export_process_name(c->job, span->process), span->device);
    known = child(c, 0, text_of(c, name));
    node = 0;
  } else {
    uint32_t parent = on_device(c, span, c->nodes.at[node].parent, depth + 1);
    known = child(c, parent, c->nodes.at[node].name);
  }
  *opgap_map_put(&c->on_device, node, device) = known;
  return known;
}

static void add_device(struct collapsed *c, const struct opgap_span *span)
{
  const struct launch *launch = launch_of(c, span);
  bool known = launch->correlation == span->correlation && launch->process == span->process;
  uint32_t parent = on_device(c, span, known ? launch->node : 0, 0);
  uint32_t node = child(c, parent, name_of(c, span));
  c->nodes.at[node].ns += span->end_ns - span->start_ns;
}

static void write_node(struct collapsed *c, struct sink *sink, uint32_t node)
{
  uint32_t path[512];
  unsigned depth = 0;
  for (uint32_t at = node; at != 0 && depth < 512; at = c->nodes.at[at].parent)
    path[depth++] = c->nodes.at[at].name;
  while (depth-- > 0) {
    sink_text(sink, opgap_strings_text(&c->texts, path[depth]));
    sink_char(sink, depth > 0 ? ';' : ' ');
  }
  sink_number(sink, c->nodes.at[node].ns);
  sink_char(sink, '\n');
}

static void read_spans(struct collapsed *c)
{
  const struct opgap_span *span;
  while ((span = export_next(c->job)) != NULL) {
    if (opgap_span_on_device(span->kind))
      add_device(c, span);
    else if (span->nests && span->end_ns > span->start_ns && span->kind != OPGAP_SPAN_CUDA)
      add_span(c, span);
    else
      export_leave_out(c->job, span);
    if (span->kind == OPGAP_SPAN_CUDA && span->correlation != 0)
      add_launch(c, span);
  }
}

bool export_collapsed(struct opgap_export_job *job)
{
  struct collapsed c = {.job = job, .pool = opgap_pool_new()};
  struct sink *sink = export_open(job, job->path);
  bool done = false;
  opgap_strings_init(&c.texts, c.pool);
  (void)VEC_PUSH(&c.nodes);
  if (sink != NULL) {
    read_spans(&c);
    for (uint32_t i = 1; i < c.nodes.count; i++)
      if (c.nodes.at[i].ns > 0)
        write_node(&c, sink, i);
    done = export_finish(job, sink, job->path);
  }
  for (size_t i = 0; i < c.stacks.count; i++)
    VEC_FREE(&c.stacks.at[i].open);
  VEC_FREE(&c.stacks);
  VEC_FREE(&c.nodes);
  VEC_FREE(&c.names);
  opgap_map_free(&c.children);
  opgap_map_free(&c.stack_index);
  opgap_map_free(&c.on_device);
  opgap_strings_free(&c.texts);
  opgap_pool_free(c.pool);
  free(c.launches);
  return done;
}
