/* Memory copies a known number of times; overlapping ones by memcpy too, as old programs do. */
#include <string.h>

static char from[1 << 20], to[1 << 20];
static volatile size_t small = 100, large = 1 << 20;

void *__memcpy_chk(void *, const void *, size_t, size_t);
void *__memmove_chk(void *, const void *, size_t, size_t);
void *__memset_chk(void *, int, size_t, size_t);
void *__mempcpy_chk(void *, const void *, size_t, size_t);

int main(int count, char **arguments)
{
  int bad = 0;
  if (count > 1 && arguments[1][0] == '0')
    return 0;
  for (int i = 0; i < 2000; i++)
    memcpy(to, from, small);
  memset(from, 3, large);
  memcpy(to, from, large);
  bad |= to[large - 1] != 3;
  memmove(to + 1, to, small);
  for (int i = 0; i < 100; i++)
    to[i] = (char)i;
  memcpy(to + 10, to, small - 10); /* overlaps: must behave as memmove */
  for (int i = 0; i < 90; i++)
    bad |= to[i + 10] != (char)i;
  bad |= mempcpy(to, from, small) != to + small;
  bad |= __memcpy_chk(to, from, small, sizeof to) != to;
  bad |= __memmove_chk(to, from, small, sizeof to) != to;
  bad |= __memset_chk(to, 1, small, sizeof to) != to;
  bad |= __mempcpy_chk(to, from, small, sizeof to) != to + small;
  return bad;
}
