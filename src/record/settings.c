#include "record/settings.h"

#include <assert.h>

#include "record/early.h"
#include "record/record.h" /* enum opgap_group */

const struct opgap_setting opgap_setting_table[] = {
#define OPGAP_SETTING(member, env_, flag_, type_, default_, value_, help_)                                             \
  {.env = env_,                                                                                                        \
   .flag = flag_,                                                                                                      \
   .standard = default_,                                                                                               \
   .value = value_,                                                                                                    \
   .type = OPGAP_SETTING_##type_,                                                                                      \
   .offset = offsetof(struct opgap_settings, member),                                                                  \
   .help = help_},
#include "record/settings.def"
#undef OPGAP_SETTING
};
const unsigned opgap_setting_count = sizeof opgap_setting_table / sizeof *opgap_setting_table;

/* C would cut a string's NUL without a word. */
#define FITS(text, member) static_assert(sizeof(text) <= sizeof(((struct opgap_setting *)0)->member), text);
#define OPGAP_SETTING(member, env_, flag_, type_, default_, value_, help_)                                             \
  FITS(env_, env) FITS(flag_, flag) FITS(default_, standard) FITS(value_, value) FITS(help_, help)
#include "record/settings.def"
#undef OPGAP_SETTING

static const struct {
  char name[8];
  uint32_t mask;
} groups[] = {
    {"alloc", OPGAP_GROUP_alloc}, {"copy", OPGAP_GROUP_copy},   {"io", OPGAP_GROUP_io},
    {"net", OPGAP_GROUP_net},     {"sync", OPGAP_GROUP_sync},   {"thread", OPGAP_GROUP_thread},
    {"cuda", OPGAP_GROUP_cuda},   {"torch", OPGAP_GROUP_torch}, {"nvtx", OPGAP_GROUP_nvtx},
};
#define GROUP_COUNT (sizeof groups / sizeof *groups)

/* Text without libc: inside the tracer, libc's string functions are hooks. */

struct span {
  const char *at, *end;
};

OPGAP_EARLY_CODE static size_t length_of(const char *s)
{
  size_t n = 0;
  while (s[n] != '\0')
    n++;
  return n;
}

OPGAP_EARLY_CODE static struct span span_of(const char *s)
{
  return (struct span){s, s + length_of(s)};
}

OPGAP_EARLY_CODE static bool equal(struct span s, const char *word)
{
  for (; s.at < s.end; s.at++, word++) {
    if (*s.at != *word) /* also at the word's NUL, which no span contains */
      return false;
  }
  return *word == '\0';
}

/* Splits off what stands before the first separator.  False when nothing is left; "a," gives "a" and "". */
OPGAP_EARLY_CODE static bool next_part(struct span *rest, char separator, struct span *part)
{
  if (rest->at == NULL)
    return false;
  part->at = rest->at;
  while (rest->at < rest->end && *rest->at != separator)
    rest->at++;
  part->end = rest->at;
  rest->at = rest->at < rest->end ? rest->at + 1 : NULL;
  return true;
}

struct writer {
  char *at, *end; /* end: last byte, kept for the NUL */
};

static void put(struct writer *w, const char *text)
{
  while (*text != '\0' && w->at < w->end)
    *w->at++ = *text++;
  *w->at = '\0';
}

/* A value as the user wrote it: cut, and safe for a terminal. */
static void put_value(struct writer *w, const char *value)
{
  unsigned n = 0;
  for (; value[n] != '\0' && n < 80; n++) {
    char c[2] = {value[n], '\0'};
    if ((unsigned char)c[0] < 0x20 || c[0] == 0x7f)
      c[0] = '?';
    put(w, c);
  }
  if (value[n] != '\0')
    put(w, "...");
}

/* Values.  Each parser returns NULL, or what is wrong; it writes its result only on success. */

OPGAP_EARLY_CODE static const char *parse_digits(struct span *s, uint64_t *result)
{
  uint64_t n = 0;
  if (s->end - s->at > 1 && *s->at == '-' && s->at[1] >= '0' && s->at[1] <= '9')
    return "must not be negative";
  if (s->at == s->end || *s->at < '0' || *s->at > '9')
    return "not a number";
  for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
    unsigned digit = (unsigned)(*s->at - '0');
    if (n > (UINT64_MAX - digit) / 10)
      return "too large";
    n = n * 10 + digit;
  }
  *result = n;
  return NULL;
}

OPGAP_EARLY_CODE static unsigned unit_shift(char unit)
{
  switch (unit) {
  case 'K':
  case 'k':
    return 10;
  case 'M':
  case 'm':
    return 20;
  case 'G':
  case 'g':
    return 30;
  default:
    return 0;
  }
}

OPGAP_EARLY_CODE static const char *parse_bytes(struct span s, uint64_t *result)
{
  uint64_t n;
  const char *wrong = parse_digits(&s, &n);
  if (wrong != NULL)
    return wrong;
  unsigned shift = s.at < s.end ? unit_shift(*s.at) : 0;
  if (shift != 0)
    s.at++;
  if (s.at != s.end)
    return "not a size";
  if (n > UINT64_MAX >> shift)
    return "too large";
  *result = n << shift;
  return NULL;
}

OPGAP_EARLY_CODE static const char *parse_buffer(struct span s, uint64_t *result)
{
  uint64_t n;
  const char *wrong = parse_bytes(s, &n);
  if (wrong != NULL)
    return wrong;
  if (n < OPGAP_BUFFER_MIN)
    return "too small";
  if (n > OPGAP_BUFFER_MAX)
    return "too large";
  *result = n;
  return NULL;
}

/* Decimal seconds to ns; digits below a nanosecond are dropped. */
OPGAP_EARLY_CODE static const char *parse_seconds(struct span s, uint64_t *result)
{
  uint64_t seconds = 0, ns = 0;
  bool fraction_only = s.at < s.end && *s.at == '.'; /* ".5" */
  const char *wrong = fraction_only ? NULL : parse_digits(&s, &seconds);
  if (wrong != NULL)
    return wrong;
  if (seconds > 1000000000u)
    return "too large";
  if (s.at < s.end && *s.at == '.') {
    uint64_t unit = 100000000u;
    for (s.at++; s.at < s.end && *s.at >= '0' && *s.at <= '9'; s.at++, unit /= 10)
      ns += unit * (uint64_t)(*s.at - '0');
    if (s.at[-1] == '.')
      return "not a number";
  }
  if (s.at != s.end)
    return "not a number";
  *result = seconds * 1000000000u + ns;
  return NULL;
}

OPGAP_EARLY_CODE static bool same(struct span a, struct span b)
{
  while (a.at < a.end && b.at < b.end && *a.at == *b.at)
    a.at++, b.at++;
  return a.at == a.end && b.at == b.end;
}

/* Index of the word among "a|b|c". */
OPGAP_EARLY_CODE static const char *parse_choice(struct span s, const char *words, uint32_t *result)
{
  struct span rest = span_of(words), word;
  for (uint32_t i = 0; next_part(&rest, '|', &word); i++) {
    if (same(s, word)) {
      *result = i;
      return NULL;
    }
  }
  return "unknown value";
}

/* The bits of one word of "none|one,other|all". */
OPGAP_EARLY_CODE static bool word_bits(struct span s, const char *words, uint32_t *bits)
{
  struct span rest = span_of(words), none, names = {NULL, NULL}, word;
  uint32_t all = 0;
  next_part(&rest, '|', &none);
  next_part(&rest, '|', &names);
  *bits = 0;
  if (same(s, none))
    return true;
  for (uint32_t bit = 1; next_part(&names, ',', &word); bit <<= 1) {
    all |= bit;
    if (same(s, word))
      *bits = bit;
  }
  if (same(s, rest))
    *bits = all;
  return *bits != 0;
}

OPGAP_EARLY_CODE static const char *parse_words(struct span s, const char *words, uint32_t *result)
{
  uint32_t mask = 0, bits;
  struct span word;
  while (next_part(&s, ',', &word)) {
    if (!word_bits(word, words, &bits))
      return "unknown value";
    mask |= bits;
  }
  *result = mask;
  return NULL;
}

OPGAP_EARLY_CODE static uint32_t group_mask(struct span name)
{
  uint32_t all = 0;
  for (unsigned i = 0; i < GROUP_COUNT; i++) {
    if (equal(name, groups[i].name))
      return groups[i].mask;
    all |= groups[i].mask;
  }
  return equal(name, "all") ? all : 0;
}

/* From left to right: NAME adds, -NAME takes away; a list that begins with -NAME starts from all. */
OPGAP_EARLY_CODE static const char *parse_groups(struct span s, uint32_t *result)
{
  uint32_t mask = s.at < s.end && *s.at == '-' ? group_mask(span_of("all")) : 0;
  struct span name;
  while (next_part(&s, ',', &name)) {
    bool away = name.at < name.end && *name.at == '-';
    if (away)
      name.at++;
    uint32_t group = group_mask(name);
    if (group == 0)
      return "unknown group";
    mask = away ? mask & ~group : mask | group;
  }
  *result = mask | OPGAP_GROUP_process;
  return NULL;
}

static uint32_t *schedule_part(struct opgap_schedule *schedule, struct span key, unsigned *bit)
{
  static const char *const keys[] = {"wait", "warmup", "active", "repeat"};
  uint32_t *parts[] = {&schedule->wait, &schedule->warmup, &schedule->active, &schedule->repeat};
  for (unsigned i = 0; i < 4; i++) {
    if (equal(key, keys[i])) {
      *bit = 1u << i;
      return parts[i];
    }
  }
  return NULL;
}

static const char *parse_schedule(struct span s, struct opgap_schedule *result)
{
  struct opgap_schedule schedule = {0, 0, 0, 0};
  unsigned seen = 0;
  struct span part, key;
  while (next_part(&s, ',', &part)) {
    unsigned bit;
    uint64_t n;
    next_part(&part, '=', &key);
    uint32_t *to = schedule_part(&schedule, key, &bit);
    if (to == NULL || part.at == NULL)
      return "not a schedule";
    if (seen & bit)
      return "a part is given twice";
    const char *wrong = parse_digits(&part, &n);
    if (wrong != NULL)
      return wrong;
    if (part.at != part.end)
      return "not a number";
    if (n > 1000000000u)
      return "too large";
    seen |= bit;
    *to = (uint32_t)n;
  }
  if (schedule.active == 0)
    return "active must be at least 1";
  *result = schedule;
  return NULL;
}

OPGAP_EARLY_CODE static const char *parse_path(struct span s, char *result)
{
  if (s.end - s.at >= (ptrdiff_t)OPGAP_SETTING_PATH_MAX)
    return "path too long";
  for (; s.at < s.end; s.at++, result++) {
    *result = *s.at;
    __asm__ volatile("" ::: "memory"); /* keeps the loop from becoming a call of memcpy, a hook */
  }
  *result = '\0';
  return NULL;
}

OPGAP_EARLY_CODE static const char *parse_value(const struct opgap_setting *setting, const char *value,
                                                struct opgap_settings *s)
{
  char *member = (char *)s + setting->offset;
  struct span text = span_of(value);
  uint32_t index;
  const char *wrong;
  switch (setting->type) {
  case OPGAP_SETTING_PATH:
    return parse_path(text, member);
  case OPGAP_SETTING_GROUPS:
    return parse_groups(text, (uint32_t *)member);
  case OPGAP_SETTING_CHOICE:
    return parse_choice(text, setting->value, (uint32_t *)member);
  case OPGAP_SETTING_WORDS:
    return parse_words(text, setting->value, (uint32_t *)member);
  case OPGAP_SETTING_SWITCH:
    wrong = parse_choice(text, setting->value, &index);
    if (wrong == NULL)
      *(bool *)member = index == 1;
    return wrong;
  case OPGAP_SETTING_BYTES:
    return parse_bytes(text, (uint64_t *)member);
  case OPGAP_SETTING_BUFFER:
    return parse_buffer(text, (uint64_t *)member);
  case OPGAP_SETTING_SECONDS:
    return parse_seconds(text, (uint64_t *)member);
  case OPGAP_SETTING_SCHEDULE:
    return parse_schedule(text, (struct opgap_schedule *)member);
  }
  return "unknown type";
}

/* Messages. */

static void put_allowed(struct writer *w, const struct opgap_setting *setting)
{
  switch (setting->type) {
  case OPGAP_SETTING_PATH:
    put(w, "at most 1023 bytes");
    break;
  case OPGAP_SETTING_GROUPS:
    put(w, "a list of all");
    for (unsigned i = 0; i < GROUP_COUNT; i++) {
      put(w, ",");
      put(w, groups[i].name);
    }
    put(w, "; -NAME takes one away");
    break;
  case OPGAP_SETTING_CHOICE:
  case OPGAP_SETTING_SWITCH:
  case OPGAP_SETTING_WORDS:
    put(w, setting->value);
    break;
  case OPGAP_SETTING_BYTES:
    put(w, "a whole number of bytes, with K, M or G after it if wanted");
    break;
  case OPGAP_SETTING_BUFFER:
    put(w, "1M to 16G (a whole number of bytes, with K, M or G after it if wanted)");
    break;
  case OPGAP_SETTING_SECONDS:
    put(w, "seconds, such as 2 or 0.5, up to 1000000000");
    break;
  case OPGAP_SETTING_SCHEDULE:
    put(w, "wait=N,warmup=N,active=N,repeat=N, of which active is needed");
    break;
  }
}

static void put_wrong(struct writer *w, const struct opgap_setting *setting, const char *name, const char *value,
                      const char *wrong)
{
  put(w, name);
  put(w, "=");
  put_value(w, value);
  put(w, ": ");
  put(w, wrong);
  put(w, "; allowed: ");
  put_allowed(w, setting);
}

const struct opgap_setting *opgap_setting_find(const char *name, size_t length)
{
  struct span s = {name, name + length};
  bool flag = length > 2 && name[0] == '-' && name[1] == '-';
  if (flag)
    s.at += 2;
  for (unsigned i = 0; i < opgap_setting_count; i++) {
    const struct opgap_setting *setting = &opgap_setting_table[i];
    if (equal(s, flag ? setting->flag : setting->env))
      return setting;
  }
  return NULL;
}

OPGAP_EARLY_CODE void opgap_settings_default(struct opgap_settings *s)
{
  if (s->out[0] != '\0')
    s->out[0] = '\0';
  s->schedule = (struct opgap_schedule){0, 0, 0, 0};
  for (unsigned i = 0; i < opgap_setting_count; i++) {
    const struct opgap_setting *setting = &opgap_setting_table[i];
    if (setting->standard[0] != '\0')
      parse_value(setting, setting->standard, s);
  }
}

static struct writer message_writer(char *message, size_t size)
{
  struct writer w = {message, message + size - 1};
  *message = '\0';
  return w;
}

int opgap_settings_parse(struct opgap_settings *s, const char *(*get)(const char *, void *), void *ctx, char *message,
                         size_t size)
{
  int bad = 0;
  struct writer w = message_writer(message, size);
  opgap_settings_default(s);
  for (unsigned i = 0; i < opgap_setting_count; i++) {
    const struct opgap_setting *setting = &opgap_setting_table[i];
    const char *value = get(setting->env, ctx);
    if (value == NULL || *value == '\0')
      continue;
    const char *wrong = parse_value(setting, value, s);
    if (wrong != NULL && bad++ == 0)
      put_wrong(&w, setting, setting->env, value, wrong);
  }
  if (bad > 1) {
    char others[] = {(char)('0' + (bad - 1) / 10), (char)('0' + (bad - 1) % 10), '\0'}; /* fewer than 100 settings */
    put(&w, "; other bad settings: ");
    put(&w, others[0] == '0' ? others + 1 : others);
  }
  return bad;
}

int opgap_settings_set(struct opgap_settings *s, const char *name, const char *value, char *message, size_t size)
{
  struct writer w = message_writer(message, size);
  const struct opgap_setting *setting = opgap_setting_find(name, length_of(name));
  if (setting == NULL) {
    put(&w, "unknown setting ");
    put_value(&w, name);
    return 1;
  }
  const char *wrong = *value == '\0' ? "empty value" : parse_value(setting, value, s);
  if (wrong == NULL)
    return 0;
  put_wrong(&w, setting, name, value, wrong);
  return 1;
}

/* Looks no further than it must: an environment can be long. */
OPGAP_EARLY_CODE static bool starts_with(const char *text, const char *prefix)
{
  for (; *prefix != '\0'; prefix++, text++) {
    if (*text != *prefix)
      return false;
  }
  return true;
}

OPGAP_EARLY_CODE bool opgap_settings_any(char *const *environment)
{
  for (; *environment != NULL; environment++) {
    if (starts_with(*environment, "OPGAP_") && !starts_with(*environment, "OPGAP_SESSION="))
      return true;
  }
  return false;
}

const char *opgap_settings_unknown(char *const *environment)
{
  for (; *environment != NULL; environment++) {
    if (!starts_with(*environment, "OPGAP_") || starts_with(*environment, "OPGAP_TEST_"))
      continue;
    struct span entry = span_of(*environment), name;
    next_part(&entry, '=', &name);
    if (equal(name, "OPGAP_SESSION"))
      continue;
    if (opgap_setting_find(name.at, (size_t)(name.end - name.at)) == NULL)
      return *environment;
  }
  return NULL;
}
