#include "hooks/next_image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "hooks/text.h"
#include "record/raw.h"
#include "record/session.h"

#define HEAD_BYTES 1024u /* an ELF header and its program headers, as a rule; else: not certain */

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

/* ---- a program's pointers ---- */

#define PAGE_BYTES 4096u /* the smallest that there is: pages of 64 KiB are asked for several times */

/* The kernel reads the new set before it refuses to do what is unknown with it, so nothing is changed. */
static bool is_readable(const void *at, uintptr_t *known_page)
{
  uintptr_t page = (uintptr_t)at / PAGE_BYTES;
  if (page == *known_page)
    return true;
  long word = (long)((uintptr_t)at & ~(uintptr_t)7);
  if (page == 0) /* to that call the address 0 is no set */
    return false;
  if (opgap_raw6(SYS_rt_sigprocmask, -1, word, 0, 8, 0, 0) == -EFAULT)
    return false;
  *known_page = page;
  return true;
}

static bool is_readable_string(const char *string, uintptr_t *known_page)
{
  do {
    if (!is_readable(string, known_page))
      return false;
  } while (*string++);
  return true;
}

bool opgap_image_is_readable(const char *program, char *const envp[])
{
  uintptr_t array_page = UINTPTR_MAX, string_page = UINTPTR_MAX; /* no page has that number */
  if (program != NULL && !is_readable_string(program, &string_page))
    return false;
  for (; envp != NULL; envp++) {
    if (!is_readable(envp, &array_page))
      return false;
    if (*envp == NULL)
      break;
    if (!is_readable_string(*envp, &string_page))
      return false;
  }
  return true;
}

/* ---- will it be traced? ---- */

static const char *value_of(char *const envp[], const char *name)
{
  size_t length = opgap_length(name);
  for (; envp && *envp; envp++)
    if (opgap_starts_with(*envp, name) && (*envp)[length] == '=')
      return *envp + length + 1;
  return NULL;
}

static bool environment_stays(char *const envp[], bool (*is_own)(const char *entry, size_t length))
{
  const char *session = value_of(envp, "OPGAP_SESSION"), *preload = value_of(envp, "LD_PRELOAD");
  const char *folder = opgap_session_folder();
  if (session == NULL || !opgap_starts_with(session, folder) || session[opgap_length(folder)] != 0 || preload == NULL ||
      value_of(envp, "OPGAP_OFF"))
    return false;
  while (*preload) {
    size_t length = opgap_length_until(preload, ": ");
    if (is_own(preload, length))
      return true;
    preload += length + (preload[length] != 0);
  }
  return false;
}

/* Reads the head of a program that is not privileged; its size or 0. */
static size_t read_head(const char *path, char *head)
{
  struct stat status;
  int fd = (int)opgap_raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0); /* it may be a pipe */
  if (fd < 0)
    return 0;
  long n = 0;
  bool plain = opgap_raw3(SYS_fstat, fd, (long)&status, 0) == 0 && S_ISREG(status.st_mode) &&
               (status.st_mode & (S_ISUID | S_ISGID)) == 0 &&
               opgap_raw6(SYS_fgetxattr, fd, (long)"security.capability", 0, 0, 0, 0) < 0;
  if (plain)
    n = opgap_raw_read(fd, head, HEAD_BYTES);
  opgap_raw_close(fd);
  return n > 0 ? (size_t)n : 0;
}

/* glibc's loader: another one would not load this library. */
static bool is_glibc_loader(const char *path, size_t size)
{
  return size > 0 && path[size - 1] == 0 && opgap_starts_with(opgap_file_name(path, size - 1), "ld-linux");
}

static bool loads_us(const char *head, size_t size)
{
  Elf64_Ehdr elf;
  if (size < sizeof elf)
    return false;
  memcpy(&elf, head, sizeof elf);
  if (!opgap_starts_with(head, ELFMAG) || elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != OWN_MACHINE ||
      elf.e_phentsize != sizeof(Elf64_Phdr) || elf.e_phoff > size ||
      elf.e_phnum * sizeof(Elf64_Phdr) > size - elf.e_phoff)
    return false;
  for (unsigned i = 0; i < elf.e_phnum; i++) {
    Elf64_Phdr part;
    memcpy(&part, head + elf.e_phoff + i * sizeof part, sizeof part);
    if (part.p_type == PT_INTERP)
      return part.p_offset <= size && part.p_filesz <= size - part.p_offset &&
             is_glibc_loader(head + part.p_offset, part.p_filesz);
  }
  return false; /* static */
}

/* The path behind "#!", cut out in place; NULL: this is no script. */
static const char *interpreter(char *head, size_t size)
{
  head[size] = 0;
  if (head[0] != '#' || head[1] != '!' || head[opgap_length_until(head, "\n")] == 0)
    return NULL;
  char *path = head + 2;
  while (*path == ' ' || *path == '\t')
    path++;
  path[opgap_length_until(path, " \t\n")] = 0;
  return path[0] == '/' ? path : NULL;
}

bool opgap_stays_traced(const char *program, char *const envp[], bool (*is_own)(const char *entry, size_t length))
{
  char head[HEAD_BYTES + 1], program_of_script[HEAD_BYTES];
  if (program == NULL || program[opgap_length_until(program, "/")] == 0 || !environment_stays(envp, is_own))
    return false;
  size_t size = read_head(program, head);
  const char *path = interpreter(head, size);
  if (path == NULL)
    return loads_us(head, size);
  memcpy(program_of_script, path, opgap_length(path) + 1);
  size = read_head(program_of_script, head);
  return loads_us(head, size);
}
