/* The command-line program: the table of commands, and what they share.
 *
 * Threads   Single-threaded.  Ownership: strings returned live as long as the program, unless said otherwise.
 *
 * One file a command; a command is one line of the table in main.c.  Exit codes: enum opgap_exit, except that `record`
 * exits with the traced program's status.
 */
#ifndef OPGAP_TOOLS_OPGAP_H
#define OPGAP_TOOLS_OPGAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum opgap_exit {
  OPGAP_EXIT_DONE = 0,
  OPGAP_EXIT_REGRESSION = 1,   /* gate */
  OPGAP_EXIT_USAGE = 2,        /* wrong usage or unreadable input */
  OPGAP_EXIT_INCOMPARABLE = 3, /* gate */
  OPGAP_EXIT_DAMAGED = 4       /* the result was printed, but bytes of the trace are damaged or missing */
};

struct opgap_command {
  const char *name, *summary;
  /* argv[0] is the command's name; returns the exit code.  `--help` is the command's to handle. */
  int (*run)(int argc, char **argv);
};

int opgap_cmd_record(int argc, char **argv);
int opgap_cmd_report(int argc, char **argv);
int opgap_cmd_top(int argc, char **argv);
int opgap_cmd_diff(int argc, char **argv);
int opgap_cmd_gate(int argc, char **argv);
int opgap_cmd_baseline(int argc, char **argv);
int opgap_cmd_export(int argc, char **argv);
int opgap_cmd_info(int argc, char **argv);
int opgap_cmd_html(int argc, char **argv);
int opgap_cmd_doctor(int argc, char **argv);
int opgap_cmd_start(int argc, char **argv);
int opgap_cmd_stop(int argc, char **argv);
int opgap_cmd_snapshot(int argc, char **argv);

/* Prints "opgap COMMAND: message" and where to find help on stderr; returns OPGAP_EXIT_USAGE. */
int opgap_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "opgap: message" on stderr; returns `code`. */
int opgap_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The exit code of every command that read a trace: where bytes of it are damaged or missing OPGAP_EXIT_DAMAGED, and
 * one line on stderr that names the first of the files and how many others there are.  damage: what that file lacks;
 * NULL: nothing is damaged. */
struct opgap_summary;
struct opgap_trace;
int opgap_damage_exit(const char *damage, size_t files);
int opgap_summary_exit(const struct opgap_summary *summary);
int opgap_trace_exit(const struct opgap_trace *trace);

/* The word of a list that the user probably meant: the nearest by edit distance, at most a third of its letters off;
 * NULL when none is near. */
const char *opgap_nearest(const char *word, const char *const *words, size_t count);

/* Values of options; false: not such a value.  A time has a unit (50us, 1ms, 0.5s) and becomes ns. */
bool opgap_parse_number(const char *text, uint64_t *value);
bool opgap_parse_time(const char *text, uint64_t *ns);
/* The value of an option that several commands have: 0, or the exit code of a wrong one, which is said.  --steps is A:B
 * with A <= B, counted from 0. */
struct opgap_analysis_options;
int opgap_take_threads(const char *command, const char *text, unsigned *threads);
int opgap_take_steps(const char *command, const char *text, struct opgap_analysis_options *options);
int opgap_take_min_gap(const char *command, const char *text, struct opgap_analysis_options *options);

/* Reads the options of a command: `take` gets each with its value and returns 0, or the exit code of a wrong one.  The
 * option of value 'h' prints the help.  Returns -1 to go on, with optind at the first argument, else the exit code. */
struct option;
int opgap_options(const char *command, int argc, char **argv, const char *letters, const struct option *options,
                  void (*help)(void), int (*take)(void *context, int option, const char *value), void *context);
/* A `take` for one option: its value goes to the `const char *` at `text`. */
int opgap_take_text(void *text, int option, const char *value);

/* CLOCK_MONOTONIC. */
uint64_t opgap_monotonic_ns(void);

/* A percentage on the terminal, of what has taken a second; nothing where stderr is no terminal. */
struct opgap_progress {
  const char *what;
  uint64_t start_ns; /* opgap_monotonic_ns() */
  int percent;       /* last shown; -1: none yet */
  bool terminal;
};
void opgap_progress_begin(struct opgap_progress *progress, const char *what);
void opgap_progress_show(void *progress, uint64_t done, uint64_t total);
void opgap_progress_end(struct opgap_progress *progress);

/* Writes a file as a whole: under another name first, so that a failure leaves no half file and an older one as it was.
 * What is no plain file (a pipe, a terminal) is written as it is; "-" is the standard output.  `write` returns false
 * when it fails by itself; errors of the stream need not be looked for.  Returns OPGAP_EXIT_DONE, or says what failed
 * in one line and returns OPGAP_EXIT_USAGE. */
int opgap_write_file(const char *path, bool (*write)(void *context, FILE *file), void *context);
/* Whether that could succeed, before the work for it: OPGAP_EXIT_DONE (for NULL, too), or one line and the exit status.
 */
int opgap_check_output(const char *path);

/* Width: COLUMNS where it is a number, else that of the terminal, 0 where the file is none.  Colour of stdout: not in a
 * pipe, not with NO_COLOR, not on a dumb terminal.  UTF-8: by the locale's name in the environment. */
unsigned opgap_terminal_width(FILE *file);
bool opgap_terminal_colour(void);
bool opgap_terminal_utf8(void);

/* Text safe for a terminal, by the rules of tables (text_clean).  The result lives until the fourth next call.  The
 * functions above that print a message clean it themselves. */
const char *opgap_printable(const char *text);

/* The newest trace (NAME.opgap) of a folder, as a path to be freed; the folder itself when it has none and is one (a
 * trace by another name, as archives are); NULL when there is none. */
char *opgap_newest_trace(const char *folder);

/* The tracer that belongs to this executable: absolute path to be freed; NULL when it is not found. */
char *opgap_tracer_path(void);

/* Absolute, usable path of the program that `name` means in PATH, to be freed; NULL when there is none. */
char *opgap_find_program(const char *name);
/* Why LD_PRELOAD cannot reach the program at `path` ("statically linked", ...); NULL when nothing is known against it.
 * A script stands for its interpreter. */
const char *opgap_why_untraceable(const char *path);

/* Whether a library's name is that of AddressSanitizer's runtime, and whether the program at `path` is linked against
 * it as a library (as gcc does by default; clang links it into the program). */
bool opgap_is_asan_runtime(const char *name);
bool opgap_needs_asan_runtime(const char *path);

#endif
