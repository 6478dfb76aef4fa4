/* Ten mallocs of 100 bytes; with an argument, a write behind the last of them. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
  (void)argv;
  const char *options = getenv("ASAN_OPTIONS");
  fprintf(stderr, "%s\n", options != NULL ? options : "none"); /* not buffered: no malloc */
  for (int i = 0; i < 10; i++) {
    char *volatile block = malloc(100);
    if (i == 9 && argc > 1)
      block[100] = 1;
    free(block);
  }
  return 0;
}
