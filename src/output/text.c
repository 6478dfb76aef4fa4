/* The report for people: as text on a terminal or in a pipe, and as markdown.  Both walk the same sections. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/text.h"
#include "output/output.h"
#include "output/sections.h"

struct page {
  const struct opgap_summary *s;
  const struct opgap_output_options *o;
  FILE *file;
  bool markdown;
};

/* Breaks a line at blanks; what follows is indented under the text. */
static void wrap(const char *text, unsigned width, FILE *file)
{
  unsigned at = 0, indent = (unsigned)strspn(text, " ") + 4;
  fputs("  ", file);
  while (*text) {
    unsigned length = (unsigned)strspn(text, " ");
    length += (unsigned)strcspn(text + length, " ");
    if (at > 0 && at + length + 2 > width && width > 40) {
      unsigned blanks = (unsigned)strspn(text, " ");
      fprintf(file, "\n  %*s", (int)indent, "");
      text += blanks;
      length -= blanks;
      at = indent;
    }
    fprintf(file, "%.*s", (int)length, text);
    text += length;
    at += length;
  }
  fputc('\n', file);
}

static void say(const struct page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct page *p, const char *format, ...)
{
  char *text = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    text = NULL;
  va_end(args);
  if (text == NULL)
    return;
  /* the page's own line breaks stay, those of names do not */
  char *first = text;
  while (*first == '\n')
    fputc(*first++, p->file);
  size_t length = strlen(first), breaks = 0;
  for (; length > 0 && first[length - 1] == '\n'; breaks++)
    first[--length] = '\0';
  char *clean = text_clean(first);
  if (p->markdown || p->o->width == 0)
    fprintf(p->file, p->markdown ? "%s\n" : "  %s\n", clean);
  else
    wrap(clean, p->o->width, p->file);
  while (breaks-- > 0)
    fputc('\n', p->file);
  free(clean);
  free(text);
}

static void heading(const struct page *p, const char *title)
{
  if (p->markdown)
    fprintf(p->file, "\n## %s\n\n", title);
  else
    fprintf(p->file, p->o->colour ? "\n\033[1;4m%s\033[0m\n" : "\n%s\n", title);
}

static void finish_table(const struct page *p, struct table *table, size_t left_out, const char *what)
{
  if (p->markdown)
    table_markdown(table, p->file);
  else
    table_print(table, p->o->width, "  ", p->o->colour, p->file);
  table_end(table);
  if (left_out == 1)
    say(p, "... and 1 more (--limit 0 shows all)%s", p->markdown ? "\n" : "");
  else if (left_out > 1)
    say(p, "... and %zu more %s (--limit 0 shows all)%s", left_out, what, p->markdown ? "\n" : "");
}

/* "12,345,678" */
static const char *grouped(char *text, size_t size, uint64_t value)
{
  char digits[32];
  int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
  size_t at = 0;
  for (int i = 0; i < length && at + 2 < size; i++) {
    if (i > 0 && (length - i) % 3 == 0)
      text[at++] = ',';
    text[at++] = digits[i];
  }
  text[at] = '\0';
  return text;
}

static const struct opgap_sum_process *first_process(const struct opgap_summary *s)
{
  for (size_t i = 0; i < s->process_count; i++)
    if (s->processes[i].role == OPGAP_ROLE_TRAINER)
      return &s->processes[i];
  return opgap_step_process(s);
}

static void line(const struct page *p, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void line(const struct page *p, const char *label, const char *format, ...)
{
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (!p->markdown) {
    say(p, "%-10s %s", label, text);
    return;
  }
  char *plain = table_markdown_text(text);
  say(p, "- **%s**: %s", label, plain);
  free(plain);
}

/* A sentence that may hold names. */
static void item(const struct page *p, const char *before, const char *text)
{
  char *plain = p->markdown ? table_markdown_text(text) : NULL;
  say(p, "%s %s", before, plain ? plain : text);
  free(plain);
}

static void head_host(const struct page *p, const char *host)
{
  const char *cores = opgap_summary_info(p->s, "cores"), *cpu = opgap_summary_info(p->s, "cpu"),
             *kernel = opgap_summary_info(p->s, "kernel");
  line(p, "host", "%s%s%s%s%s%s%s%s", host, cores ? ", " : "", cores ? cores : "", cores ? " cores" : "",
       cpu ? ", " : "", cpu ? cpu : "", kernel ? ", Linux " : "", kernel ? kernel : "");
}

/* "2 launchers", behind what stands in the text. */
static size_t count_words(char *text, size_t size, size_t at, unsigned count, const char *what, bool plural)
{
  if (count == 0 || at >= size)
    return at;
  return at + (size_t)snprintf(text + at, size - at, "%s%u %s%s", at ? ", " : "", count, what,
                               count > 1 && plural ? "s" : "");
}

static void head_processes(const struct page *p)
{
  unsigned roles[OPGAP_ROLE_COUNT] = {0}, threads = 0, launchers = 0, launch_helpers = 0;
  int32_t ranks = -1;
  for (size_t i = 0; i < p->s->process_count; i++) {
    const char *label = p->s->processes[i].role_label;
    bool launcher = strcmp(label, OPGAP_LABEL_LAUNCHER) == 0, helper = strcmp(label, OPGAP_LABEL_LAUNCH_HELPER) == 0;
    roles[p->s->processes[i].role] += !launcher && !helper;
    launchers += launcher;
    launch_helpers += helper;
    threads += p->s->processes[i].threads;
    if (p->s->processes[i].rank > ranks)
      ranks = p->s->processes[i].rank;
  }
  char text[256] = "";
  size_t at = 0;
  for (int r = 0; r < OPGAP_ROLE_COUNT; r++)
    at = count_words(text, sizeof text, at, roles[r], opgap_role_name((enum opgap_role)r), r != OPGAP_ROLE_OTHER);
  at = count_words(text, sizeof text, at, launchers, OPGAP_LABEL_LAUNCHER, true);
  count_words(text, sizeof text, at, launch_helpers, OPGAP_LABEL_LAUNCH_HELPER, true);
  line(p, "processes", "%zu (%s), %u thread%s", p->s->process_count, text, threads, threads == 1 ? "" : "s");
  if (ranks >= 0)
    line(p, "ranks", "0 to %d", ranks);
}

/* Whose figures these are, with --process. */
static void view_name(const struct opgap_summary *s, char *text, size_t size)
{
  size_t same = 0;
  while (same < s->process_count && s->processes[same].role == s->processes[0].role)
    same++;
  if (s->process_count == 1)
    snprintf(text, size, "%s", s->processes[0].role_label);
  else if (same == s->process_count && same > 0)
    snprintf(text, size, "%s", opgap_role_name(s->processes[0].role));
  else
    snprintf(text, size, "\"%s\"", s->process_filter);
}

static void head_steps(const struct page *p)
{
  const struct opgap_sum_steps *steps = &p->s->steps;
  char median[32], p95[32];
  text_time(median, sizeof median, steps->median_ns);
  text_time(p95, sizeof p95, steps->p95_ns);
  if (steps->count == 0 && p->s->trainers_left_out) {
    char view[256];
    view_name(p->s, view, sizeof view);
    line(p, "steps", "are those of the trainer; this view is of %s", view);
  } else if (steps->count == 0 && opgap_summary_info(p->s, "OPGAP_SCHEDULE") != NULL &&
             opgap_summary_info(p->s, "OPGAP_SCHEDULE")[0] != '\0')
    line(p, "steps", "none found in what OPGAP_SCHEDULE let be recorded: see the notice");
  else if (steps->count == 0)
    line(p, "steps",
         "none found (no Optimizer.step, opgap_step, ProfilerStep or NVTX step ranges, and no loop of ops)");
  else
    line(p, "steps", "%zu by %s: median %s, p95 %s%s", steps->count, steps->source, median, p95,
         steps->skipped ? " (warm-up left out)" : "");
}

static void head_cost(const struct page *p)
{
  const struct opgap_sum_overhead *o = &p->s->overhead;
  char cpu[32], hooks[32], calls[32], size[32];
  text_time(hooks, sizeof hooks, o->hook_ns);
  text_time(cpu, sizeof cpu, o->flusher_cpu_ns);
  text_bytes(size, sizeof size, p->s->stored_bytes);
  line(p, "tracer", "cost: %s CPU to write the trace, ~%s inside %s hooked calls; %s on disk", cpu, hooks,
       grouped(calls, sizeof calls, o->hooked_calls), size);
}

/* Of a spawned worker the script that it runs, of a program in an argument (python -c) the first line. */
static void head_command(const struct page *p, const struct opgap_sum_process *process)
{
  const struct opgap_sum_process *spawner = opgap_spawner(p->s, process);
  size_t first_line = strcspn(process->command, "\n");
  if (text_is_spawned(process->command)) {
    char script[256];
    text_script(script, sizeof script, spawner->command);
    line(p, "command", "%s" TEXT_SPAWNED, script);
  } else if (process->command[first_line] != '\0') {
    line(p, "command", "%.*s ...", (int)first_line, process->command);
  } else {
    line(p, "command", "%s", process->command);
  }
}

/* ---- untraced processes ---- */

static int order_untraced(const void *left, const void *right)
{
  const struct opgap_sum_untraced *a = *(const struct opgap_sum_untraced *const *)left;
  const struct opgap_sum_untraced *b = *(const struct opgap_sum_untraced *const *)right;
  int order = strcmp(a->reason, b->reason);
  order = order ? order : strcmp(a->command, b->command);
  return order ? order : (a > b) - (a < b);
}

/* Those of one program, for one reason. */
struct untraced_group {
  const struct opgap_sum_untraced *first;
  size_t count;
};

static int order_groups(const void *left, const void *right)
{
  const struct untraced_group *a = left, *b = right;
  return a->count != b->count ? (a->count < b->count) - (a->count > b->count)
                              : (a->first > b->first) - (a->first < b->first);
}

/* A line for each program and reason, the most processes first. */
static void head_untraced(const struct page *p)
{
  const struct opgap_summary *s = p->s;
  const struct opgap_sum_untraced **all = opgap_xcalloc(s->untraced_count + 1, sizeof *all);
  struct untraced_group *groups = opgap_xcalloc(s->untraced_count + 1, sizeof *groups);
  size_t count = 0;
  for (size_t i = 0; i < s->untraced_count; i++)
    all[i] = &s->untraced[i];
  qsort(all, s->untraced_count, sizeof *all, order_untraced);
  for (size_t i = 0; i < s->untraced_count; i++) {
    if (i == 0 || strcmp(all[i]->reason, all[i - 1]->reason) != 0 || strcmp(all[i]->command, all[i - 1]->command) != 0)
      groups[count++].first = all[i];
    groups[count - 1].count++;
  }
  qsort(groups, count, sizeof *groups, order_groups);
  size_t shown = opgap_shown(count, p->o);
  for (size_t i = 0; i < shown; i++) {
    const struct opgap_sum_untraced *first = groups[i].first;
    if (groups[i].count == 1)
      line(p, "untraced", "pid %d (%s): %s", first->pid, first->command, first->reason);
    else
      line(p, "untraced", "%zu processes (%s), the first pid %d: %s", groups[i].count, first->command, first->pid,
           first->reason);
  }
  if (shown < count)
    line(p, "untraced", "... and %zu more lines (--limit 0 shows all)", count - shown);
  free(groups);
  free(all);
}

static void head(const struct page *p)
{
  const struct opgap_summary *s = p->s;
  const struct opgap_sum_process *first = first_process(s);
  char records[32], lost[32], invalid[32];
  fprintf(p->file, p->markdown    ? "# opgap report\n\n"
                   : p->o->colour ? "\033[1mopgap report\033[0m\n"
                                  : "opgap report\n");
  line(p, "trace", "%s%s", s->path, s->complete ? "" : "  (DAMAGED or incomplete, see below)");
  if (first != NULL) {
    head_command(p, first);
    head_host(p, first->host);
  }
  head_processes(p);
  line(p, "duration", "%.3f s", (double)s->duration_ns / 1e9);
  if (s->window_start_ns > 0 || s->window_end_ns < s->duration_ns)
    line(p, "window", "%.3f s to %.3f s only", (double)s->window_start_ns / 1e9, (double)s->window_end_ns / 1e9);
  head_steps(p);
  char threads[48] = "";
  if (s->lost_threads > 0)
    snprintf(threads, sizeof threads, " and %llu threads", (unsigned long long)s->lost_threads);
  line(p, "records", "%s, %s%s lost, %s invalid%s", grouped(records, sizeof records, s->records),
       grouped(lost, sizeof lost, s->lost_records), threads, grouped(invalid, sizeof invalid, s->invalid_records),
       s->process_filter[0] ? " (of the whole trace)" : "");
  head_cost(p);
  if (strcmp(s->gpu_status, OPGAP_GPU_UNSEEN) != 0)
    line(p, "GPU", "%s", s->gpu_status);
  for (size_t i = 0; i < s->damage_count; i++)
    line(p, "damage", "%s", s->damage[i]);
  for (size_t i = 0; i < s->notice_count; i++)
    line(p, "notice", "%s", s->notices[i]);
  for (size_t i = 0; i < s->process_count; i++)
    if (!s->processes[i].kill_safe)
      line(p, "note", "process %d was not kill-safe: its newest records would not have outlived a SIGKILL",
           s->processes[i].pid);
  head_untraced(p);
}

/* Not one of the verdict's classes, but the largest part of a step may still have a name. */
static void undecided(const struct page *p)
{
  const struct opgap_sum_verdict *v = &p->s->verdict;
  if (v->bottleneck_count > 0)
    say(p, "No class of work holds this run back; %s of its step time goes to \"%s\", see Bottlenecks.",
        2 * v->bottlenecks[0].ns >= v->step_ns ? "most" : "the largest part", v->bottlenecks[0].kind);
  else if (p->s->records == 0)
    say(p, "Nothing was recorded of this run, so there is nothing to judge.");
  else
    say(p, "The figures do not say what holds this run back.");
}

static void verdict(const struct page *p)
{
  const struct opgap_sum_verdict *v = &p->s->verdict;
  heading(p, "Verdict");
  if (v->bound_by == OPGAP_BOUND_UNDECIDED)
    undecided(p);
  else
    say(p, "This run is held back by %s%s%s (confidence: %s).%s", p->markdown ? "**" : "",
        opgap_bound_name(v->bound_by), p->markdown ? "**" : "", v->confidence, p->markdown ? "\n" : "");
  for (size_t i = 0; i < v->evidence_count; i++)
    item(p, p->markdown ? "-" : "  -", v->evidence[i]);
  for (size_t i = 0; i < v->remedy_count; i++)
    item(p, p->markdown ? (i == 0 ? "- Try first:" : "- then:") : (i == 0 ? "Try first:" : "      then:"),
         v->remedies[i]);
}

/* What takes step time, largest first, and what a step gains at most without it. */
static void bottlenecks(const struct page *p)
{
  const struct opgap_sum_verdict *v = &p->s->verdict;
  if (v->bottleneck_count == 0)
    return;
  heading(p, "Bottlenecks: upper bounds of what removing each shortens a step by");
  size_t shown = opgap_shown(v->bottleneck_count, p->o);
  for (size_t i = 0; i < shown; i++) {
    const struct opgap_sum_bottleneck *b = &v->bottlenecks[i];
    char text[4096], gain[64];
    if (b->at_most_ns == OPGAP_UNKNOWN)
      snprintf(gain, sizeof gain, "the work itself");
    else
      snprintf(gain, sizeof gain, "at most %.0f %% shorter", 100.0 * (double)b->at_most_ns / (double)v->step_ns);
    snprintf(text, sizeof text, "%s (%s). %s. %s", b->kind, gain, b->text, b->remedy);
    item(p, p->markdown ? "-" : "  -", text);
  }
}

static void breakdown(const struct page *p)
{
  struct table table;
  char time[32];
  if (p->s->breakdown.steps == 0)
    return;
  const struct opgap_sum_process *process = opgap_step_process(p->s);
  heading(p, process != NULL && process->role == OPGAP_ROLE_PROGRAM
                 ? "Where the time of a step goes (main thread)"
                 : "Where the time of a step goes (trainer's main thread)");
  size_t more = section_breakdown(&table, p->s, p->o);
  finish_table(p, &table, more, "");
  if (p->s->steps.skipped > 0)
    say(p, "%zu steps; the first %zu (warm-up) are left out", p->s->breakdown.steps, p->s->steps.skipped);
  double no_cpu = opgap_no_cpu_share(&p->s->breakdown);
  if (no_cpu >= 0.01)
    say(p,
        "Within all of these the main thread, or a thread that it waits for, had no free CPU for ~%.1f %% of the time",
        100 * no_cpu);
  uint64_t hidden = p->s->breakdown.collective_ns - p->s->breakdown.exposed_collective_ns;
  if (hidden > 0) {
    text_time(time, sizeof time, hidden / p->s->breakdown.steps);
    say(p, "Collectives on the GPU beside other kernels, not in the table: %s a step", time);
  }
}

static void plots(const struct page *p)
{
  if (!p->o->plot)
    return;
  if (p->s->steps.count > 0) {
    heading(p, "Step times");
    section_plot_steps(p->s, p->o, p->file);
  }
  heading(p, "Use over time");
  section_plot_use(p->s, p->o, p->file);
}

static void ops_of_role(const struct page *p, enum opgap_role role)
{
  struct table table;
  char title[96], total[32];
  unsigned kinds = SECTION_OPS | SECTION_GPU;
  if (!section_has_ops(p->s, role, kinds))
    return;
  snprintf(title, sizeof title, "Hot ops: %s", opgap_role_name(role));
  heading(p, title);
  size_t more = section_ops(&table, p->s, p->o, role, kinds);
  finish_table(p, &table, more, "ops");
  text_time(total, sizeof total, section_self_cpu(p->s, role));
  say(p, "Self CPU time total: %s", total);
  if (p->s->has_gpu) {
    text_time(total, sizeof total, section_self_gpu(p->s, role));
    say(p, "Self CUDA time total: %s", total);
  }
}

static void calls(const struct page *p)
{
  struct table table;
  size_t more;
  if (section_has_calls(p->s, false)) {
    heading(p, "Hooked calls (time of all threads; ~ estimated from samples)");
    more = section_calls(&table, p->s, p->o, false);
    finish_table(p, &table, more, "calls");
  }
  if (section_has_calls(p->s, true)) {
    heading(p, "Calls that only waited for other processes (their time is these processes')");
    more = section_calls(&table, p->s, p->o, true);
    finish_table(p, &table, more, "calls");
  }
}

static void thread_gaps(const struct page *p)
{
  const struct opgap_sum_gaps *g = &p->s->gaps;
  struct table table;
  char title[160], whose[64] = "", sum[32], least[32];
  uint64_t lived;
  size_t processes = opgap_gap_processes(p->s, &lived);
  text_time(least, sizeof least, g->thread_min_ns);
  if (processes > 1)
    snprintf(whose, sizeof whose, "s of %zu processes", processes);
  snprintf(title, sizeof title, "Idle gaps of the main thread%s (blocked for at least %s)", whose, least);
  heading(p, title);
  if (g->thread_count == 0) {
    say(p, "none");
    return;
  }
  text_time(sum, sizeof sum, g->thread_ns);
  say(p, "%zu gap%s, %s in all, by cause:%s", g->thread_count, g->thread_count == 1 ? "" : "s", sum,
      p->markdown ? "\n" : "");
  size_t more = section_cause_sums(&table, g->thread_by_cause, g->thread_cause_count, g->thread_ns);
  finish_table(p, &table, more, "causes");
  fputc('\n', p->file);
  say(p, "In detail:%s", p->markdown ? "\n" : "");
  more = section_causes(&table, g->thread_by_cause, g->thread_cause_count, g->thread_ns, p->o);
  finish_table(p, &table, more, "causes");
  fputc('\n', p->file);
  say(p, "The longest:%s", p->markdown ? "\n" : "");
  more = section_thread_gaps(&table, p->s, p->o);
  finish_table(p, &table, more, "gaps");
}

static void gpu_launches(const struct page *p)
{
  const struct opgap_sum_launches *l = &p->s->gpu_tables.launches;
  char call[32], queue[32], longest[32];
  if (l->calls == 0)
    return;
  text_time(call, sizeof call, l->call_ns / l->calls);
  text_time(queue, sizeof queue, l->queue_ns / l->calls);
  text_time(longest, sizeof longest, l->queue_max_ns);
  say(p,
      "%llu kernels by %llu launches of %s each; from launch to start %s, at most %s; %.1f %% of the kernels are "
      "shorter than their launch",
      (unsigned long long)l->kernels, (unsigned long long)l->calls, call, queue, longest,
      100.0 * (double)l->short_kernels / (double)l->kernels);
  say(p, "HTA's outliers: %llu launches took more than 50 us, %llu kernels started more than 100 us after theirs",
      (unsigned long long)l->slow_calls, (unsigned long long)l->slow_starts);
  if (p->s->steps.count > 0)
    say(p, "%.1f launches a step", (double)l->calls / (double)p->s->steps.count);
}

/* Before CUDA 12.6, CUPTI does not tell of the driver's launches by themselves. */
static void gpu_unlaunched(const struct page *p)
{
  const struct opgap_sum_gpu_tables *t = &p->s->gpu_tables;
  uint64_t kernels = 0, ns = 0;
  for (size_t i = 0; i < t->kernel_count; i++) {
    kernels += t->kernels[i].calls;
    ns += t->kernels[i].total_ns;
  }
  if (t->launches.unlaunched > 0)
    say(p,
        "%llu of %llu kernels, %.1f %% of their time, have no launch, so no op: their calls were not recorded. Where "
        "they "
        "went through the driver's interface (Triton, NCCL), OPGAP_GPU=driver records them",
        (unsigned long long)t->launches.unlaunched, (unsigned long long)kernels,
        100.0 * (double)t->launches.unlaunched_ns / (double)(ns ? ns : 1));
}

static void gpu_tables(const struct page *p)
{
  const struct opgap_sum_gpu_tables *t = &p->s->gpu_tables;
  struct table table;
  char use[OPGAP_GPU_CHUNKS + 1], chunk[32];
  for (size_t i = 0; i < t->use_count; i++) {
    section_gpu_use(use, sizeof use, &t->use[i]);
    text_time(chunk, sizeof chunk, t->use[i].chunk_ns);
    say(p, "GPU %u in use, tenths by %s: %s", t->use[i].device, chunk, use);
  }
  if (t->kernel_count > 0) {
    heading(p, "Kernels");
    size_t more = section_kernels(&table, p->s, p->o);
    finish_table(p, &table, more, "kernels");
    gpu_launches(p);
    gpu_unlaunched(p);
  }
  if (t->copy_count > 0) {
    heading(p, "Copies");
    size_t more = section_copies(&table, p->s, p->o);
    finish_table(p, &table, more, "rows");
  }
  if (t->finding_count > 0) {
    heading(p, "GPU findings (the rules of Nsight Systems)");
    size_t more = section_findings(&table, p->s, p->o);
    finish_table(p, &table, more, "findings");
  }
}

/* "37.0 % by NVML's samples", of the devices whose work CUPTI did not tell of. */
static void sampled_use(const struct page *p)
{
  bool any = false;
  for (size_t i = 0; i < p->s->gpu_count; i++) {
    const struct opgap_sum_gpu *gpu = &p->s->gpus[i];
    if (gpu->sampled_utilisation < 0)
      continue;
    if (!any)
      heading(p, "GPU use");
    any = true;
    say(p,
        "GPU %u (%s) ran kernels for ~%.1f %% of the time, of all processes, as NVML samples it: CUPTI told of none.",
        gpu->device, gpu->name[0] ? gpu->name : "?", 100 * gpu->sampled_utilisation);
  }
}

static void gpu_state(const struct page *p)
{
  struct table table;
  uint64_t samples = 0;
  for (size_t i = 0; i < p->s->gpu_count; i++)
    samples += p->s->gpus[i].state.samples;
  if (samples == 0)
    return;
  heading(p, "State of the GPUs (NVML, sampled while they worked)");
  section_gpu_state(&table, p->s, p->o);
  finish_table(p, &table, 0, "");
}

static void gpu(const struct page *p)
{
  const struct opgap_sum_gaps *g = &p->s->gaps;
  struct table table;
  char sum[32], least[32], waits[3][32];
  if (!p->s->has_gpu) {
    sampled_use(p);
    gpu_state(p);
    return;
  }
  heading(p, "GPU");
  size_t more = section_gpus(&table, p->s, p->o);
  finish_table(p, &table, more, "GPUs");
  gpu_tables(p);
  gpu_state(p);
  text_time(sum, sizeof sum, g->gpu_ns);
  text_time(least, sizeof least, g->gpu_min_ns);
  heading(p, "GPU idle gaps");
  say(p, "%zu gap%s of at least %s, %s in all, by cause:%s", g->gpu_count, g->gpu_count == 1 ? "" : "s", least, sum,
      p->markdown ? "\n" : "");
  more = section_cause_sums(&table, g->gpu_by_cause, g->gpu_cause_count, g->gpu_ns);
  finish_table(p, &table, more, "causes");
  fputc('\n', p->file);
  say(p, "In detail:%s", p->markdown ? "\n" : "");
  more = section_causes(&table, g->gpu_by_cause, g->gpu_cause_count, g->gpu_ns, p->o);
  finish_table(p, &table, more, "causes");
  text_time(waits[0], sizeof waits[0], g->host_wait_ns);
  text_time(waits[1], sizeof waits[1], g->kernel_wait_ns);
  text_time(waits[2], sizeof waits[2], g->other_wait_ns);
  say(p, "HTA's classes: host_wait %s, kernel_wait %s, other %s", waits[0], waits[1], waits[2]);
  fputc('\n', p->file);
  say(p, "The longest:%s", p->markdown ? "\n" : "");
  more = section_gpu_gaps(&table, p->s, p->o);
  finish_table(p, &table, more, "gaps");
}

static void loader(const struct page *p)
{
  const struct opgap_sum_loader *l = &p->s->loader;
  struct table table;
  char wait[32], startup[32], busy[32], pinned[64] = "", depth[OPGAP_DEPTH_CHUNKS + 1], chunk[32];
  if (l->worker_count == 0)
    return;
  heading(p, "DataLoader workers");
  text_time(wait, sizeof wait, l->await_ns);
  text_time(startup, sizeof startup, l->startup_wait_ns);
  say(p, "%llu of %llu fetches had to wait, %s in all, %s of it for workers that were starting",
      (unsigned long long)l->waited, (unsigned long long)l->fetches, wait, startup);
  if (l->depth_chunk_ns > 0) {
    section_ready(depth, sizeof depth, l);
    text_time(chunk, sizeof chunk, l->depth_chunk_ns);
    say(p, "batches ready when one was asked for: ~%.1f on average, by %s: %s", l->depth, chunk, depth);
  }
  if (l->pin_threads > 0) {
    text_time(wait, sizeof wait, l->pin_wait_ns);
    text_time(busy, sizeof busy, l->pin_busy_ns);
    if (l->pinned_depth >= 0)
      snprintf(pinned, sizeof pinned, "; of the ready ones ~%.1f were pinned", l->pinned_depth);
    say(p, "pin-memory thread: %llu batches, waited %s for workers, %s in no blocking call%s",
        (unsigned long long)l->pin_batches, wait, busy, pinned);
  }
  if (p->markdown)
    fputc('\n', p->file);
  size_t more = section_workers(&table, p->s, p->o);
  finish_table(p, &table, more, "workers");
  if (l->epoch_count == 0)
    return;
  fputc('\n', p->file);
  more = section_epochs(&table, p->s, p->o);
  finish_table(p, &table, more, "times that workers were made");
}

static void threads(const struct page *p)
{
  struct table table;
  if (p->s->thread_count == 0)
    return;
  heading(p, "Threads (scheduler's figures are of the time between its samples)");
  size_t more = section_threads(&table, p->s, p->o);
  finish_table(p, &table, more, "threads");
}

static void files(const struct page *p)
{
  struct table table;
  if (p->s->file_count == 0)
    return;
  heading(p, "Files (time of calls on them, all processes)");
  size_t more = section_folders(&table, p->s, p->o);
  finish_table(p, &table, more, "folders");
  fputc('\n', p->file);
  more = section_files(&table, p->s, p->o);
  finish_table(p, &table, more, "rows");
}

static void failures(const struct page *p)
{
  const struct opgap_sum_memory *m = &p->s->memory;
  for (size_t i = 0; i < m->failure_count; i++) {
    char text[1024];
    section_failure(text, sizeof text, &m->failures[i]);
    say(p, "%s", text);
    for (size_t k = 0; k < m->failures[i].last_count; k++)
      say(p, "  %s", m->failures[i].last[k]);
  }
  if (m->device_retries > 0)
    say(p,
        "%llu calls for device memory failed and had it when they were made again (PyTorch frees what it has cached "
        "first): the device is nearly full, and each such call waits for it",
        (unsigned long long)m->device_retries);
}

/* What lived at the peak, and what grows. */
static void alive(const struct page *p)
{
  struct table table;
  if (p->s->memory.lived_count == 0)
    return;
  heading(p, p->s->memory.peak_count > 1 ? "Alive at the peak of each process, by op that made it"
                                         : "Alive at the peak, by op that made it");
  size_t more = section_peak_ops(&table, p->s, p->o);
  finish_table(p, &table, more, "ops");
  fputc('\n', p->file);
  more = section_peak_threads(&table, p->s, p->o);
  finish_table(p, &table, more, "threads");
  if (section_has_peak_lines(p->s)) {
    fputc('\n', p->file);
    more = section_peak_lines(&table, p->s, p->o);
    finish_table(p, &table, more, "lines");
  }
  if (!section_has_leaks(p->s))
    return;
  heading(p, "Leak candidates (live bytes that grow with the steps)");
  more = section_leaks(&table, p->s, p->o);
  finish_table(p, &table, more, "rows");
}

/* Settings are in the trace where they are not the default. */
static const char *why_no_allocations(const struct opgap_summary *s)
{
  static const char *const limits[] = {"OPGAP_DELAY", "OPGAP_DURATION", "OPGAP_SCHEDULE", "OPGAP_CONTROL",
                                       "OPGAP_KEEP"};
  const char *hooks = opgap_summary_info(s, "OPGAP_HOOKS");
  if (hooks != NULL && strstr(hooks, "all") == NULL) /* "all", or a list with alloc */
    return "no allocation reached the tracer: alloc is not in OPGAP_HOOKS";
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (opgap_summary_info(s, limits[i]) != NULL)
      return "no allocation was made while it was recorded, or another allocator was loaded before the tracer";
  return "no allocation reached the tracer: none was made, or another allocator was loaded before it";
}

static void memory(const struct page *p)
{
  const struct opgap_sum_memory *m = &p->s->memory;
  char allocations[32], frees[32], bytes[32], rss[32], peak[32], live[32], sentence[256];
  heading(p, "Host memory");
  text_bytes(bytes, sizeof bytes, m->bytes_allocated);
  say(p, "%s allocation%s (%llu failed) of %s in all, %s free%s",
      grouped(allocations, sizeof allocations, m->allocations), m->allocations == 1 ? "" : "s",
      (unsigned long long)m->failed, bytes, grouped(frees, sizeof frees, m->frees), m->frees == 1 ? "" : "s");
  if (m->peak_bytes != OPGAP_UNKNOWN) {
    text_bytes(peak, sizeof peak, m->peak_bytes);
    text_bytes(live, sizeof live, m->live_bytes);
    if (p->s->lost_records > 0 || !p->s->complete) /* blocks whose end, or beginning, is missing */
      say(p,
          "peak ~%s, alive at the end ~%s: records are missing (%llu lost), so these do not add up with the counts "
          "above",
          peak, live, (unsigned long long)p->s->lost_records);
    else
      say(p, "peak %s, alive at the end %s", peak, live);
  } else if (m->allocations) {
    say(p, "peak and live bytes are not known without OPGAP_ALLOC=events");
  } else {
    say(p, "%s", why_no_allocations(p->s));
  }
  if (m->peak_rss_bytes != OPGAP_UNKNOWN) {
    text_bytes(rss, sizeof rss, m->peak_rss_bytes);
    say(p, "resident memory ~%s at most (sampled, processes alive at one time together)", rss);
  }
  if (m->churn_of[0]) {
    text_bytes(bytes, sizeof bytes, m->churn_bytes);
    say(p, "%s allocations of %s a step (%s, medians of %llu steps)",
        grouped(allocations, sizeof allocations, m->churn_count), bytes, m->churn_of,
        (unsigned long long)m->churn_steps);
  }
  if (section_growth(sentence, sizeof sentence, m))
    say(p, "%s", sentence);
  failures(p);
  alive(p);
}

static void faults(const struct page *p)
{
  struct table table;
  if (!section_has_faults(p->s))
    return;
  heading(p, "Page faults (of processes that run ops)");
  size_t more = section_faults(&table, p->s, p->o);
  finish_table(p, &table, more, "ops");
}

static void locks(const struct page *p)
{
  struct table table;
  heading(p, "Contended locks");
  if (p->s->lock_count == 0) {
    say(p, "none");
    return;
  }
  size_t more = section_locks(&table, p->s, p->o);
  finish_table(p, &table, more, "locks");
}

static void steps(const struct page *p)
{
  const struct opgap_sum_steps *s = &p->s->steps;
  char text[5][32];
  if (s->count == 0)
    return;
  heading(p, "Steps");
  const uint64_t figures[5] = {s->median_ns, s->p95_ns, s->mean_ns, s->min_ns, s->max_ns};
  for (int i = 0; i < 5; i++)
    text_time(text[i], sizeof text[i], figures[i]);
  say(p, "%zu steps found by %s", s->count, s->source);
  say(p, "median %s, p95 %s, mean %s, min %s, max %s", text[0], text[1], text[2], text[3], text[4]);
  if (s->skipped > 0) {
    text_time(text[0], sizeof text[0], s->durations_ns[0]);
    if (s->skipped == 1)
      say(p, "left out as warm-up: step 0 (it took %s)", text[0]);
    else
      say(p, "left out as warm-up: steps 0 to %zu (the first took %s)", s->skipped - 1, text[0]);
  }
}

static void processes(const struct page *p)
{
  struct table table;
  heading(p, "Processes");
  size_t more = section_processes(&table, p->s, p->o);
  finish_table(p, &table, more, "processes");
}

static void ranks(const struct page *p)
{
  const struct opgap_sum_ranks *r = &p->s->ranks;
  struct table table;
  char text[512];
  if (r->count < 2)
    return;
  heading(p, "Ranks (without warm-up; steps: medians)");
  size_t more = section_ranks(&table, p->s, p->o);
  finish_table(p, &table, more, "ranks");
  section_straggler(text, sizeof text, r);
  say(p, "%s", text);
  if (r->unmatched > 0)
    say(p, "%llu collectives could not be matched over all ranks (other groups, or not recorded everywhere)",
        (unsigned long long)r->unmatched);
}

static void print(const struct page *p)
{
  head(p);
  verdict(p);
  bottlenecks(p);
  breakdown(p);
  plots(p);
  ranks(p);
  for (int role = 0; role < OPGAP_ROLE_COUNT; role++)
    ops_of_role(p, (enum opgap_role)role);
  gpu(p);
  thread_gaps(p);
  loader(p);
  threads(p);
  files(p);
  calls(p);
  processes(p);
  steps(p);
  memory(p);
  faults(p);
  locks(p);
}

unsigned opgap_output_width(const char *columns, unsigned terminal)
{
  char *end;
  if (columns == NULL || columns[0] < '0' || columns[0] > '9')
    return terminal;
  unsigned long width = strtoul(columns, &end, 10);
  return *end == '\0' && width > 0 && width <= 100000 ? (unsigned)width : terminal;
}

void opgap_output_text(const struct opgap_summary *summary, const struct opgap_output_options *options, FILE *file)
{
  print(&(struct page){summary, options, file, false});
}

void opgap_output_markdown(const struct opgap_summary *summary, const struct opgap_output_options *options, FILE *file)
{
  print(&(struct page){summary, options, file, true});
}
