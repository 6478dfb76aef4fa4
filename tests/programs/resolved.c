#include <stdio.h>

int early_call(void);

int main(void)
{
  printf("%d\n", early_call());
  return 0;
}
