/* The tables of a report, filled from a summary; text.c and markdown.c print them.
 *
 * Each function begins and fills a table that the caller ends; it returns the number of rows left out by the limit. */
#ifndef OPGAP_OUTPUT_SECTIONS_H
#define OPGAP_OUTPUT_SECTIONS_H

#include "output/output.h"
#include "output/table.h"

/* Ops, ranges and GPU work of processes of one role; what: the kinds as bits (1 << kind). */
size_t section_ops(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o,
                   enum opgap_role role, unsigned kinds);
/* Ops by their page faults; has: are these enough to be shown? */
bool section_has_faults(const struct opgap_summary *s);
size_t section_faults(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
/* awaiting: those that only wait for other processes, else all others; has: are there any? */
bool section_has_calls(const struct opgap_summary *s, bool awaiting);
size_t section_calls(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o,
                     bool awaiting);
size_t section_causes(struct table *table, const struct opgap_sum_cause *causes, size_t count, uint64_t total,
                      const struct opgap_output_options *o);
/* The same by cause alone. */
size_t section_cause_sums(struct table *table, const struct opgap_sum_cause *causes, size_t count, uint64_t total);
size_t section_thread_gaps(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_gpu_gaps(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_files(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
/* The same by folder, all operations together. */
size_t section_folders(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_locks(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_processes(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_gpus(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
/* memory.c: what lived at the peak by op and by thread, and what grows with the steps; with OPGAP_ALLOC=events */
size_t section_peak_ops(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_peak_threads(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_peak_lines(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
bool section_has_peak_lines(const struct opgap_summary *s);
bool section_has_leaks(const struct opgap_summary *s);
size_t section_leaks(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
bool section_growth(char *text, size_t size, const struct opgap_sum_memory *m); /* false: nothing to say */
void section_failure(char *text, size_t size, const struct opgap_sum_failure *f);
/* gpu.c */
/* Of the devices with samples of NVML. */
size_t section_gpu_state(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_kernels(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_copies(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_findings(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
void section_gpu_use(char *text, size_t size, const struct opgap_sum_gpu_use *use);
/* ranks.c */
size_t section_ranks(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
void section_straggler(char *text, size_t size, const struct opgap_sum_ranks *ranks);
size_t section_workers(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
size_t section_epochs(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
/* One digit for each thirtieth of the time: batches ready, 9 for more, "." where none was asked for. */
void section_ready(char *text, size_t size, const struct opgap_sum_loader *loader);
size_t section_threads(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);
/* plot.c: charts, of step times (nothing without steps) and of the use of GPUs and of the main thread */
void section_plot_steps(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file);
void section_plot_use(const struct opgap_summary *s, const struct opgap_output_options *o, FILE *file);
size_t section_breakdown(struct table *table, const struct opgap_summary *s, const struct opgap_output_options *o);

/* Sums that the shares of ops divide by. */
uint64_t section_self_cpu(const struct opgap_summary *s, enum opgap_role role);
uint64_t section_self_gpu(const struct opgap_summary *s, enum opgap_role role);
bool section_has_ops(const struct opgap_summary *s, enum opgap_role role, unsigned kinds);

#define SECTION_OPS (1u << OPGAP_OP_TORCH | 1u << OPGAP_OP_RANGE)
#define SECTION_GPU (1u << OPGAP_OP_KERNEL | 1u << OPGAP_OP_MEMCPY | 1u << OPGAP_OP_MEMSET)

#endif
