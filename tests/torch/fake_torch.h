/* A stand-in for libtorch_cpu.so: what a host program calls.  See fake_torch.c. */
#ifndef OPGAP_TESTS_FAKE_TORCH_H
#define OPGAP_TESTS_FAKE_TORCH_H

struct fake_function;

/* Begins an op or range on this thread and ends it, perhaps on another.  asynchronous: _setAsync() was called. */
struct fake_function *fake_begin(unsigned char scope, const char *name, long sequence, int asynchronous);
void fake_end(struct fake_function *function);
/* Number of global callbacks that are registered. */
int fake_callback_count(void);

#endif
