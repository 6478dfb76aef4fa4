/* What hooked calls do, told from their names: the table of a trace may hold hooks that this program has never heard
 * of, so the rules go by families of names and by category, not by a list of ids. */
#include "analysis/internal.h"

#include <string.h>

static const struct rule {
  const char *text;
  bool prefix; /* else anywhere in the name */
  uint8_t verb;
} rules[] = {
    {"pthread_cond_signal", true, VERB_WAKE},
    {"pthread_cond_broadcast", true, VERB_WAKE},
    {"pthread_mutex_unlock", true, VERB_WAKE},
    {"pthread_rwlock_unlock", true, VERB_WAKE},
    {"sem_post", true, VERB_WAKE},
    {"pthread_mutex_", true, VERB_MUTEX},
    {"pthread_spin_", true, VERB_MUTEX},
    {"pthread_rwlock_", true, VERB_RWLOCK},
    {"pthread_cond_", true, VERB_COND},
    {"pthread_barrier_", true, VERB_BARRIER},
    {"pthread_join", true, VERB_JOIN},
    {"pthread_tryjoin", true, VERB_JOIN},
    {"pthread_timedjoin", true, VERB_JOIN},
    {"pthread_clockjoin", true, VERB_JOIN},
    {"sem_", true, VERB_SEM},
    {"sleep", false, VERB_SLEEP},
    {"sched_yield", true, VERB_YIELD},
    {"rename", true, VERB_CHANGE},
    {"link", true, VERB_CHANGE},
    {"symlink", true, VERB_CHANGE},
    {"unlink", true, VERB_CHANGE},
    {"remove", true, VERB_CHANGE},
    {"rmdir", true, VERB_CHANGE},
    {"mkdir", true, VERB_CHANGE},
    {"truncate", false, VERB_CHANGE},
    {"fallocate", false, VERB_CHANGE},
    {"flock", true, VERB_FILE_LOCK},
    {"lockf", true, VERB_FILE_LOCK},
    {"fcntl", true, VERB_FILE_LOCK},
    {"wait4", true, VERB_CHILD},
    {"waitpid", true, VERB_CHILD},
    {"waitid", true, VERB_CHILD},
    {"wait", true, VERB_CHILD},
    {"system", true, VERB_CHILD},
    {"pclose", true, VERB_CHILD},
    {"mmap", true, VERB_MAP},
    {"poll", false, VERB_POLL},
    {"select", false, VERB_POLL},
    {"epoll_", true, VERB_POLL},
    {"connect", true, VERB_CONNECT},
    {"accept", true, VERB_CONNECT},
    {"sendfile", true, VERB_READ},
    {"copy_file_range", true, VERB_READ},
    {"splice", true, VERB_WRITE},
    {"send", true, VERB_WRITE},
    {"recv", true, VERB_READ},
    {"__recv", true, VERB_READ},
    {"getdents", false, VERB_READ},
    {"readdir", true, VERB_READ},
    {"readlink", false, VERB_STAT},
    {"readahead", true, VERB_READ},
    {"read", false, VERB_READ},
    {"write", false, VERB_WRITE},
    {"fputs", true, VERB_WRITE},
    {"fgets", false, VERB_READ},
    {"fgetc", false, VERB_READ},
    {"getline", false, VERB_READ},
    {"getdelim", false, VERB_READ},
    {"fclose", true, VERB_CLOSE},
    {"close", true, VERB_CLOSE},
    {"fopen", true, VERB_OPEN},
    {"freopen", true, VERB_OPEN},
    {"fdopen", true, VERB_OPEN},
    {"creat", true, VERB_OPEN},
    {"open", false, VERB_OPEN},
    {"fsync", true, VERB_SYNC},
    {"fdatasync", true, VERB_SYNC},
    {"sync", true, VERB_SYNC},
    {"msync", true, VERB_SYNC},
    {"fflush", true, VERB_FLUSH},
    {"stat", false, VERB_STAT},
    {"access", false, VERB_STAT},
};

enum verb hooks_verb(const struct opgap_event *event)
{
  if (event->flags & OPGAP_EVENT_FREE && !(event->flags & OPGAP_EVENT_ALLOC))
    return VERB_FREE;
  if (event->flags & OPGAP_EVENT_ALLOC || strcmp(event->category, "alloc") == 0)
    return VERB_ALLOC;
  if (strcmp(event->category, "copy") == 0)
    return VERB_COPY;
  if (strncmp(event->name, "nccl", 4) == 0)
    return VERB_CONNECT;
  if (strcmp(event->category, "cuda") == 0)
    return VERB_CUDA;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    const struct rule *rule = &rules[i];
    if (rule->prefix ? strncmp(event->name, rule->text, strlen(rule->text)) == 0
                     : strstr(event->name, rule->text) != NULL)
      return rule->verb;
  }
  return VERB_OTHER;
}

bool opgap_call_awaits_process(const struct opgap_sum_call *call)
{
  return hooks_verb(&(struct opgap_event){.name = call->name, .category = call->category}) == VERB_CHILD;
}

/* Traces of older versions do not say that calls may block which only look for files, or read folders. */
static uint8_t flags_of(const struct opgap_event *event, enum verb verb)
{
  bool on_files = event->flags & OPGAP_EVENT_OBJECT_NAME && strcmp(event->category, "io") == 0;
  return on_files && (verb_looks_up(verb) || verb == VERB_READ) ? event->flags | OPGAP_EVENT_BLOCKING : event->flags;
}

void hooks_classify(struct analysis *a, unsigned process)
{
  for (unsigned id = 0; id < OPGAP_MAX_EVENTS; id++) {
    const struct opgap_event *event = a->source->event(a->source->context, process, id);
    if (event == NULL || !(event->flags & OPGAP_EVENT_HOOK))
      continue;
    struct hook *hook = &a->processes[process].hooks[id];
    hook->name = analysis_string(a, event->name);
    hook->category = analysis_string(a, event->category);
    hook->verb = (uint8_t)hooks_verb(event);
    hook->flags = flags_of(event, (enum verb)hook->verb);
    hook->span = event->kind == OPGAP_SPAN;
  }
}
