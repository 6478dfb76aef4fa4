#include <stdio.h>

int early_answer(void);

int main(void)
{
  printf("%d\n", early_answer());
  return 0;
}
