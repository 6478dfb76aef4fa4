/* See cupti_api.h. */
#include "gpu/cupti_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

struct opgap_cupti opgap_cupti;

struct search {
  const char *library;
  char path[PATH_MAX];
};

static int match_library(struct dl_phdr_info *info, size_t size, void *data)
{
  (void)size;
  struct search *search = data;
  const char *slash = strrchr(info->dlpi_name, '/');
  const char *file = slash ? slash + 1 : info->dlpi_name;
  if (strncmp(file, search->library, strlen(search->library)) != 0 || strlen(info->dlpi_name) >= sizeof search->path)
    return 0;
  strcpy(search->path, info->dlpi_name);
  return 1;
}

/* The path of a loaded library by the beginning of its file name. */
static bool find_loaded(struct search *search, const char *library)
{
  search->library = library;
  return dl_iterate_phdr(match_library, search) == 1;
}

bool opgap_gpu_library_loaded(const char *library)
{
  struct search search;
  return find_loaded(&search, library);
}

static void *open_file(const char *folder, const char *middle, const char *file)
{
  char path[PATH_MAX];
  if (strlen(folder) + strlen(middle) + strlen(file) + 1 > sizeof path)
    return NULL;
  strcat(strcat(strcpy(path, folder), middle), file);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* CUPTI must not be older than the CUDA runtime in use, so the newest comes first. */
static const char *const file_names[] = {"libcupti.so.13",   "libcupti.so.12",   "libcupti.so.11.8", "libcupti.so.11.7",
                                         "libcupti.so.11.6", "libcupti.so.11.3", "libcupti.so.11.2", "libcupti.so.11.1",
                                         "libcupti.so.11.0", "libcupti.so"};
#define FILE_NAMES (sizeof file_names / sizeof *file_names)

/* Folders relative to one that holds libcudart or is CUDA_HOME. */
static void *open_near(const char *folder, const char *const *middles, const char *version)
{
  for (const char *const *middle = middles; *middle != NULL; middle++)
    for (unsigned i = 0; i < FILE_NAMES; i++) {
      if (version != NULL && strcmp(file_names[i], version) != 0)
        continue;
      void *handle = open_file(folder, *middle, file_names[i]);
      if (handle != NULL)
        return handle;
    }
  return NULL;
}

/* Beside libcudart: the toolkit has extras/CUPTI, Python wheels nvidia/cuda_cupti next to nvidia/cuda_runtime. */
static void *open_beside_runtime(const char **version)
{
  static const char *const middles[] = {"/", "/../extras/CUPTI/lib64/", "/../../cuda_cupti/lib/", NULL};
  struct search search;
  if (!find_loaded(&search, "libcudart.so"))
    return NULL;
  char *slash = strrchr(search.path, '/');
  const char *file = slash ? slash + 1 : search.path;
  if (strncmp(file, "libcudart.so.12", 15) == 0)
    *version = "libcupti.so.12";
  else if (strncmp(file, "libcudart.so.13", 15) == 0)
    *version = "libcupti.so.13";
  if (slash == NULL)
    return NULL;
  *slash = 0;
  return open_near(search.path, middles, *version);
}

static void *open_cupti(void)
{
  static const char *const home_middles[] = {"/extras/CUPTI/lib64/", "/lib64/", "/lib/", NULL};
  struct search search;
  const char *version = NULL;
  if (find_loaded(&search, "libcupti.so"))
    return dlopen(search.path, RTLD_NOLOAD | RTLD_NOW);
  void *handle = open_beside_runtime(&version);
  if (handle == NULL && version != NULL)
    handle = dlopen(version, RTLD_NOW | RTLD_LOCAL); /* the loader's path, same major version */
  const char *home = getenv("CUDA_HOME");
  if (handle == NULL && home != NULL)
    handle = open_near(home, home_middles, NULL);
  home = getenv("CUDA_PATH");
  if (handle == NULL && home != NULL)
    handle = open_near(home, home_middles, NULL);
  for (unsigned i = 0; handle == NULL && i < FILE_NAMES; i++)
    handle = dlopen(file_names[i], RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL)
    handle = open_near("/usr/local/cuda", home_middles, NULL);
  if (handle == NULL)
    handle = open_near("/opt/cuda", home_middles, NULL);
  return handle;
}

const char *opgap_cupti_bind(void)
{
  void *handle = open_cupti();
  if (handle == NULL)
    return "unavailable: CUPTI is not installed (libcupti.so; set CUDA_HOME)";
  struct opgap_cupti bound = {0};
#define X(required, name, parameters)                                                                                  \
  *(void **)&bound.name = dlsym(handle, #name);                                                                        \
  if (required && bound.name == NULL)                                                                                  \
    return "unavailable: CUPTI is older than CUDA 11 (no " #name ")";
  CUPTI_FUNCTIONS(X)
#undef X
  if (bound.cuptiGetVersion(&bound.version) != CUPTI_OK || bound.version < 13)
    return "unavailable: CUPTI is older than CUDA 11";
  opgap_cupti = bound;
  return NULL;
}
