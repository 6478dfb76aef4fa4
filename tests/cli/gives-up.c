/* A program that gives up its rights or its root in the middle: `cli-gives-up setuid`, `chroot FOLDER`. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534

static void look(int times)
{
  struct stat status;
  for (int i = 0; i < times; i++)
    stat("/", &status);
}

int main(int argc, char **argv)
{
  look(2000);
  if (argc == 3 && strcmp(argv[1], "chroot") == 0) {
    if (chroot(argv[2]) != 0 || chdir("/") != 0)
      return 2;
  } else if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
    return 2;
  }
  look(500);
  puts("end");
  return 0;
}
