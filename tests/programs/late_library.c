/* Stands for a communication library that is loaded late.  The result is the element count above 100. */
#include <stddef.h>

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *communicator, void *stream);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *communicator, void *stream)
{
  return from || to || type != 7 || operation || communicator || stream ? -1 : (int)count - 100;
}
