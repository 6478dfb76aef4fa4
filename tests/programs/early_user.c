/* Data that holds the address of libearly's function: its resolver runs while this library is relocated, which is after
 * libearly and before the tracer. */
int early_answer(void);
int early_call(void);

static int (*volatile early_pointer)(void) = early_answer;

int early_call(void)
{
  return early_pointer();
}
