/* A program that LD_PRELOAD cannot reach, depending on how it is linked. */
#include <stdio.h>

int main(void)
{
  puts("ran");
  return 5;
}
