/* A plug-in loaded with RTLD_DEEPBIND: its calls go to libc past the hooks, its blocks cross the border both ways. */
#include <stdlib.h>

void *plugin_take(size_t size)
{
  return malloc(size);
}

void plugin_give(void *block)
{
  free(block);
}
