/* Runs a fuzz target over files without a fuzzing engine: `replay FILE|FOLDER...`.  A fault ends it; so a corpus is a
 * test with any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0)
    return -1;
  size_t size = (size_t)ftell(file);
  uint8_t *data = malloc(size + 1);
  rewind(file);
  size_t got = data ? fread(data, 1, size, file) : 0;
  fclose(file);
  if (got != size)
    return -1;
  LLVMFuzzerTestOneInput(data, size);
  free(data);
  return 1;
}

static int run_path(const char *path)
{
  struct stat status;
  int count = 0;
  if (stat(path, &status) != 0)
    return -1;
  if (!S_ISDIR(status.st_mode))
    return run_file(path);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
    char *file = NULL;
    if (entry->d_name[0] == '.' || asprintf(&file, "%s/%s", path, entry->d_name) < 0)
      continue;
    int n = run_path(file);
    free(file);
    if (n < 0) {
      closedir(folder);
      return -1;
    }
    count += n;
  }
  if (folder)
    closedir(folder);
  return count;
}

int main(int argc, char **argv)
{
  int count = 0;
  for (int i = 1; i < argc; i++) {
    int n = run_path(argv[i]);
    if (n < 0) {
      fprintf(stderr, "replay: cannot read %s\n", argv[i]);
      return 2;
    }
    count += n;
  }
  printf("%d inputs\n", count);
  return count > 0 ? 0 : 2;
}
