/* Prints the name of every hook, one a line. */
#include <stdio.h>

#include "hooks/hook_table.h"

int main(void)
{
  unsigned count;
  const struct opgap_hook_info *infos = opgap_hook_infos(&count);
  for (unsigned i = 0; i < count; i++)
    puts(infos[i].name);
  return 0;
}
