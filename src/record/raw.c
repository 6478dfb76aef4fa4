#include "record/raw.h"

size_t opgap_raw_slurp(const char *path, char *buffer, size_t size)
{
  size_t length = 0;
  int fd = (int)opgap_raw_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd >= 0) {
    long n;
    while (length + 1 < size && (n = opgap_raw_read(fd, buffer + length, size - 1 - length)) > 0)
      length += (size_t)n;
    opgap_raw_close(fd);
  }
  buffer[length] = 0;
  return length;
}
