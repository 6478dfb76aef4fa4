/* Functions of a library that comes and goes: found when it is there, called through the hook, gone for dlsym before.
 */
#include <dlfcn.h>
#include <stdio.h>

typedef int all_reduce(const void *, void *, size_t, int, int, void *, void *);

int main(int count, char **arguments)
{
  if (count < 2)
    return 1;
  printf("%d\n", dlsym(RTLD_DEFAULT, "ncclAllReduce") == NULL && dlsym(RTLD_DEFAULT, "ncclReduce") == NULL);
  for (int i = 0; i < 3; i++) {
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
      return 2;
    all_reduce *call = (all_reduce *)dlsym(RTLD_DEFAULT, "ncclAllReduce");
    if (call == NULL || call(NULL, NULL, 100 + (size_t)i, 7 /* float */, 0, NULL, NULL) != i)
      return 3;
    printf("%d\n", dlsym(RTLD_DEFAULT, "ncclReduce") == NULL); /* this one has none */
    dlclose(library);
  }
  return 0;
}
