/* Prints the name of every hook, one a line; with --markdown docs/HOOKS.md. */
#include <stdio.h>
#include <string.h>

#include "hooks/hook_table.h"

static const char *how(const struct opgap_hook_info *info)
{
  switch (info->kind) {
  case OPGAP_HOOK_SPAN:
    return "span";
  case OPGAP_HOOK_POINT:
    return "instant";
  case OPGAP_HOOK_COUNTED:
    return "counted";
  default:
    return "-";
  }
}

static void print_aliases(const struct opgap_hook_info *infos, unsigned count, const char *base)
{
  const char *before = "; also ";
  for (unsigned i = 0; i < count; i++)
    if (infos[i].kind == OPGAP_HOOK_ALIAS && strcmp(infos[i].base, base) == 0) {
      printf("%s`%s`", before, infos[i].name);
      before = ", ";
    }
}

static void print_markdown(const struct opgap_hook_info *infos, unsigned count)
{
  printf("# Hooks\n\nGenerated from `src/hooks/hooks.def` by `cmake --build BUILD --target hooks_doc`; do not edit.\n\n"
         "- *span*: each call is recorded with start, end, object and value.\n"
         "- *counted*: every call is counted; only large, contended or edge ones are recorded as well.\n"
         "- *instant*: each call is recorded with its time.\n"
         "- *-*: the hook keeps the tracer's own books; what it records is said beside it.\n\n"
         "Groups are switched with `OPGAP_HOOKS`; `process` is always on.\n");
  const char *group = "";
  for (unsigned i = 0; i < count; i++) {
    if (infos[i].kind == OPGAP_HOOK_ALIAS)
      continue;
    if (strcmp(group, infos[i].group) != 0) {
      group = infos[i].group;
      printf("\n## %s\n\n| function | recorded | |\n|---|---|---|\n", group);
    }
    printf("| `%s` | %s | %s", infos[i].name, how(&infos[i]), infos[i].doc);
    print_aliases(infos, count, infos[i].name);
    printf(" |\n");
  }
}

int main(int count, char **arguments)
{
  unsigned rows;
  const struct opgap_hook_info *infos = opgap_hook_infos(&rows);
  if (count > 1 && strcmp(arguments[1], "--markdown") == 0) {
    print_markdown(infos, rows);
    return 0;
  }
  for (unsigned i = 0; i < rows; i++)
    puts(infos[i].name);
  return 0;
}
