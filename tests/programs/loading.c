/* What the loader and dlsym see: as without the tracer, but for the hooks that exist. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *where(void *address)
{
  Dl_info info;
  if (address == NULL || !dladdr(address, &info))
    return "nowhere";
  const char *name = strrchr(info.dli_fname, '/');
  name = name ? name + 1 : info.dli_fname;
  if (strcmp(name, "libopgap.so") == 0)
    return "libc.so.6"; /* stands for the function behind the hook */
  return name;
}

static void show(const char *name, void *handle, const char *handle_name)
{
  dlerror();
  void *found = dlsym(handle, name);
  const char *error = dlerror();
  printf("%s %s: %s%s\n", handle_name, name, where(found), error ? " (error)" : "");
}

int main(void)
{
  static const char *const names[] = {"malloc",     "read",          "pthread_cond_wait", "memcpy",
                                      "cudaMalloc", "ncclAllReduce", "not_a_name",        "sqrt",
                                      "dlsym",      "vfork",         "__xstat",           "fcntl64"};
  void *libc = dlopen("libc.so.6", RTLD_LAZY), *program = dlopen(NULL, RTLD_LAZY),
       *libm = dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    show(names[i], RTLD_DEFAULT, "default");
    show(names[i], RTLD_NEXT, "next");
    show(names[i], program, "program");
    show(names[i], libc, "libc");
    show(names[i], libm, "libm");
  }
  /* The caller of dlsym decides what RTLD_NEXT is: this program's own malloc user, not the tracer. */
  size_t (*length)(const char *) = (size_t(*)(const char *))dlsym(RTLD_NEXT, "strlen");
  printf("%zu\n", length("four"));
  return 0;
}
