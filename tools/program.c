/* Programs on disk: where they are, and whether LD_PRELOAD can reach them.  See opgap.h. */
#include "opgap.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

static bool is_program(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

char *opgap_find_program(const char *name)
{
  if (strchr(name, '/') != NULL)
    return is_program(name) ? realpath(name, NULL) : NULL;
  const char *at = getenv("PATH");
  for (at = at != NULL ? at : "/bin:/usr/bin"; at != NULL && *name != '\0';) {
    size_t length = strcspn(at, ":");
    char *path;
    if (asprintf(&path, "%.*s%s%s", (int)length, at, length > 0 ? "/" : "./", name) < 0)
      return NULL;
    bool found = is_program(path);
    char *resolved = found ? realpath(path, NULL) : NULL;
    free(path);
    if (found)
      return resolved;
    at = at[length] == ':' ? at + length + 1 : NULL;
  }
  return NULL;
}

/* Reads a part of a file; false when it is not there whole. */
static bool read_at(int fd, void *buffer, size_t size, uint64_t offset)
{
  return offset < INT64_MAX && pread(fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

static bool read_segment(int fd, const Elf64_Ehdr *header, unsigned i, Elf64_Phdr *segment)
{
  return read_at(fd, segment, sizeof *segment, header->e_phoff + (uint64_t)i * header->e_phentsize);
}

/* The interpreter of an ELF file; "" when it names none, false when the file is damaged. */
static bool elf_interpreter(int fd, const Elf64_Ehdr *header, char *path, size_t size)
{
  *path = '\0';
  for (unsigned i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_segment(fd, header, i, &segment))
      return false;
    if (segment.p_type != PT_INTERP)
      continue;
    if (segment.p_filesz == 0 || segment.p_filesz > size || !read_at(fd, path, segment.p_filesz, segment.p_offset))
      return false;
    path[segment.p_filesz - 1] = '\0';
    return true;
  }
  return true;
}

static const char *elf_reason(int fd)
{
  Elf64_Ehdr header;
  char interpreter[256];
  if (!read_at(fd, &header, sizeof header, 0))
    return NULL;
  if (header.e_ident[EI_CLASS] == ELFCLASS32)
    return "a 32-bit program";
  if (OWN_MACHINE != EM_NONE && header.e_machine != OWN_MACHINE)
    return "a program for another processor architecture";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || !elf_interpreter(fd, &header, interpreter, sizeof interpreter))
    return NULL;
  if (*interpreter == '\0')
    return "statically linked";
  if (strstr(interpreter, "musl") != NULL)
    return "linked against musl instead of glibc";
  return NULL;
}

/* The kernel and ld.so ignore LD_PRELOAD paths in programs that gain rights. */
static const char *rights_reason(const char *path)
{
  struct stat info;
  if (stat(path, &info) != 0)
    return NULL;
  if ((info.st_mode & S_ISUID) && info.st_uid != getuid())
    return "setuid";
  if ((info.st_mode & S_ISGID) && (info.st_mode & S_IXGRP) && info.st_gid != getgid())
    return "setgid";
  if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
    return "given capabilities";
  return NULL;
}

/* The first word after "#!"; false when the file is no script. */
static bool script_interpreter(int fd, char *path, size_t size)
{
  ssize_t length = pread(fd, path, size - 1, 0);
  if (length < 3 || path[0] != '#' || path[1] != '!')
    return false;
  path[length] = '\0';
  char *word = path + 2 + strspn(path + 2, " \t");
  word[strcspn(word, " \t\n")] = '\0';
  memmove(path, word, strlen(word) + 1);
  return true;
}

/* A script that `env` starts runs env first, which is as dynamic as anything: what env finds is not looked at. */
static const char *why_untraceable(const char *path, unsigned scripts_left)
{
  char first[256];
  const char *reason = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return rights_reason(path);
  if (read_at(fd, first, SELFMAG, 0) && memcmp(first, ELFMAG, SELFMAG) == 0) {
    reason = rights_reason(path);
    if (reason == NULL)
      reason = elf_reason(fd);
  } else if (scripts_left > 0 && script_interpreter(fd, first, sizeof first)) {
    reason = why_untraceable(first, scripts_left - 1);
  }
  close(fd);
  return reason;
}

const char *opgap_why_untraceable(const char *path)
{
  return why_untraceable(path, 4);
}

/* ---- libraries that a program is linked against ---- */

static bool find_segment(int fd, const Elf64_Ehdr *header, uint32_t type, Elf64_Phdr *segment)
{
  for (unsigned i = 0; i < header->e_phnum; i++)
    if (read_segment(fd, header, i, segment) && segment->p_type == type)
      return true;
  return false;
}

/* Where in the file an address of the program is; UINT64_MAX: nowhere. */
static uint64_t file_offset(int fd, const Elf64_Ehdr *header, uint64_t address)
{
  for (unsigned i = 0; i < header->e_phnum; i++) {
    Elf64_Phdr segment;
    if (read_segment(fd, header, i, &segment) && segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return UINT64_MAX;
}

bool opgap_is_asan_runtime(const char *name)
{
  return strstr(name, "libasan.so") != NULL || strstr(name, "libclang_rt.asan") != NULL;
}

static bool needs_asan_runtime(int fd)
{
  Elf64_Ehdr header;
  Elf64_Phdr dynamic;
  Elf64_Dyn entry;
  uint64_t strings = UINT64_MAX;
  if (!read_at(fd, &header, sizeof header, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr) ||
      !find_segment(fd, &header, PT_DYNAMIC, &dynamic))
    return false;
  uint64_t count = dynamic.p_filesz / sizeof entry;
  for (uint64_t i = 0; i < count && read_at(fd, &entry, sizeof entry, dynamic.p_offset + i * sizeof entry); i++)
    if (entry.d_tag == DT_STRTAB)
      strings = file_offset(fd, &header, entry.d_un.d_ptr);
  for (uint64_t i = 0; strings != UINT64_MAX && i < count; i++) {
    char name[64] = "";
    if (!read_at(fd, &entry, sizeof entry, dynamic.p_offset + i * sizeof entry) || entry.d_tag == DT_NULL)
      break;
    if (entry.d_tag == DT_NEEDED && strings + entry.d_un.d_val < INT64_MAX &&
        pread(fd, name, sizeof name - 1, (off_t)(strings + entry.d_un.d_val)) > 0 && opgap_is_asan_runtime(name))
      return true;
  }
  return false;
}

bool opgap_needs_asan_runtime(const char *path)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool needs = fd >= 0 && needs_asan_runtime(fd);
  if (fd >= 0)
    close(fd);
  return needs;
}
