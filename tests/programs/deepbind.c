/* Blocks of a plug-in that bypasses the hooks, freed here, and the other way round.  10 mallocs of 1000000 here. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **arguments)
{
  void *plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
  if (plugin == NULL)
    return 1;
  void *(*take)(size_t) = (void *(*)(size_t))dlsym(plugin, "plugin_take");
  void (*give)(void *) = (void (*)(void *))dlsym(plugin, "plugin_give");
  for (int i = 0; i < 10; i++) {
    char *mine = malloc(1000000), *theirs = take(1000000);
    memset(mine, 1, 1000000);
    memset(theirs, 2, 1000000);
    give(mine);
    theirs = realloc(theirs, 2000000);
    free(theirs);
  }
  return 0;
}
