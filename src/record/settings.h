/* Settings: what the user asked for, from environment variables and flags.
 *
 * Threads   Pure functions on the caller's memory; any context, also inside the preloaded library before main: nothing
 *           here allocates, prints, or touches errno.
 * Ownership struct opgap_settings holds copies; it points nowhere.
 *
 * Everything follows from settings.def: the members below, the parser, the table for --help and `opgap doctor`.
 */
#ifndef OPGAP_RECORD_SETTINGS_H
#define OPGAP_RECORD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPGAP_SETTING_PATH_MAX 1024u
#define OPGAP_BUFFER_MIN (1ull << 20)
#define OPGAP_BUFFER_MAX (16ull << 30)
/* The longest useful message of this module; a shorter buffer cuts it. */
#define OPGAP_SETTING_MESSAGE_MAX 512u

/* Values of the CHOICE settings, in the order of their words in settings.def. */
enum opgap_stacks { OPGAP_STACKS_OFF, OPGAP_STACKS_PYTHON, OPGAP_STACKS_NATIVE, OPGAP_STACKS_BOTH };
enum opgap_control_choice { OPGAP_CONTROL_OFF, OPGAP_CONTROL_ON, OPGAP_CONTROL_IDLE };
enum opgap_children { OPGAP_CHILDREN_ALL, OPGAP_CHILDREN_FORK, OPGAP_CHILDREN_NONE };
enum opgap_log { OPGAP_LOG_QUIET, OPGAP_LOG_WARN, OPGAP_LOG_INFO };
/* Bits of the WORDS setting, in the order of its words. */
enum opgap_gpu_detail { OPGAP_GPU_NODES = 1, OPGAP_GPU_DRIVER = 2, OPGAP_GPU_EXTERNAL = 4 };

/* Steps to record; active == 0: no schedule, everything is recorded.  repeat == 0: until the program's end. */
struct opgap_schedule {
  uint32_t wait, warmup, active, repeat;
};

enum opgap_setting_type {
  OPGAP_SETTING_PATH,
  OPGAP_SETTING_GROUPS,
  OPGAP_SETTING_CHOICE,
  OPGAP_SETTING_WORDS,
  OPGAP_SETTING_SWITCH,
  OPGAP_SETTING_BYTES,
  OPGAP_SETTING_BUFFER,
  OPGAP_SETTING_SECONDS,
  OPGAP_SETTING_SCHEDULE
};

/* Members: out (char[], "" for the default), hooks (mask of enum opgap_group), alloc_events (bool), min_alloc,
 * min_copy (bytes), stacks (enum opgap_stacks), gpu (mask of enum opgap_gpu_detail), schedule, delay_ns, duration_ns,
 * keep_ns, control (enum opgap_control_choice), children (enum opgap_children), buffer, max_size (bytes), log (enum
 * opgap_log), off (bool). */
#define OPGAP_MEMBER_PATH(member)
#define OPGAP_MEMBER_GROUPS(member) uint32_t member;
#define OPGAP_MEMBER_CHOICE(member) uint32_t member;
#define OPGAP_MEMBER_WORDS(member) uint32_t member;
#define OPGAP_MEMBER_SWITCH(member) bool member;
#define OPGAP_MEMBER_BYTES(member) uint64_t member;
#define OPGAP_MEMBER_BUFFER(member) uint64_t member;
#define OPGAP_MEMBER_SECONDS(member) uint64_t member;
#define OPGAP_MEMBER_SCHEDULE(member) struct opgap_schedule member;
/* The path stands last, and is not touched where there is none: record/early.h. */
struct opgap_settings {
#define OPGAP_SETTING(member, env, flag, type, default_, value, help) OPGAP_MEMBER_##type(member)
#include "record/settings.def"
#undef OPGAP_SETTING
  char out[OPGAP_SETTING_PATH_MAX];
};

/* A row of settings.def.  Arrays, not pointers: the loader would have to relocate those in every traced process. */
struct opgap_setting {
  char env[24], flag[16]; /* "OPGAP_OUT", "out" */
  char standard[8];       /* default value as text, "" for none */
  char value[40];         /* placeholder for --help; of CHOICE and SWITCH: what is allowed */
  uint8_t type;           /* enum opgap_setting_type */
  uint16_t offset;        /* of the member in struct opgap_settings */
  char help[192];         /* one line for --help */
};
extern const struct opgap_setting opgap_setting_table[];
extern const unsigned opgap_setting_count;

/* The row of an environment variable ("OPGAP_OUT") or flag ("--out"; length bytes); NULL when there is none. */
const struct opgap_setting *opgap_setting_find(const char *name, size_t length);

void opgap_settings_default(struct opgap_settings *s);

/* Starts from the defaults and takes each value that get(env, ctx) returns; NULL or "" leaves the default.
 * Returns the number of values that are malformed: each leaves its default, and message[size] gets one line about the
 * first (no newline, no prefix): the value and what is allowed. */
int opgap_settings_parse(struct opgap_settings *s, const char *(*get)(const char *name, void *ctx), void *ctx,
                         char *message, size_t size);

/* Sets one; name: "OPGAP_OUT" or "--out", used as given in the message.  Returns 0, or 1 and a message, *s unchanged.
 */
int opgap_settings_set(struct opgap_settings *s, const char *name, const char *value, char *message, size_t size);

/* Does a NULL-terminated list of "NAME=value" hold any setting?  Else all have their defaults. */
bool opgap_settings_any(char *const *environment);
/* The first of a NULL-terminated list of "NAME=value" that looks like a setting (OPGAP_...) and is none; else NULL.
 * Not complained about: OPGAP_SESSION, which hands the trace folder down, and OPGAP_TEST_*. */
const char *opgap_settings_unknown(char *const *environment);

#endif
