/* Markers in nested and unbalanced order, with errno watched; also compiled as C++. */
#include <opgap/opgap.h>

#include <errno.h>
#include <stdio.h>

int main(void)
{
  char name[32];
  errno = 77;
  for (int step = 0; step < 5; step++) {
    opgap_range_pop(); /* nothing is open */
    opgap_range_push("load");
    opgap_range_push("decode");
    opgap_range_pop();
    opgap_range_pop();
    snprintf(name, sizeof name, "parity %d", step % 2);
    opgap_range_push(name);
    opgap_range_pop();
    opgap_range_pop();
    opgap_step();
  }
  opgap_range_push("never ended");
  return errno == 77 ? 0 : 1;
}
