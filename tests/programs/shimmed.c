#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
  char byte;
  int zero = open("/dev/zero", O_RDONLY);
  printf("%d", (int)read(zero, &byte, 1));
  printf(" %d", (int)read(-7, &byte, 1));
  printf(" %d\n", (int)read(-8, &byte, 1));
  return 0;
}
