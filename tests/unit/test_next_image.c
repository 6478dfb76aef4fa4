/* Which programs are certain to be traced, condition by condition: one that is, and the same with one thing changed. */
#include <check.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "folder.h"
#include "hooks/next_image.h"
#include "record/session.h"
#include "suite.h"

#define SESSION "OPGAP_SESSION=/some/where/trace.opgap"
#define PRELOAD "LD_PRELOAD=/usr/lib/libopgap.so"

const char *opgap_session_folder(void)
{
  return "/some/where/trace.opgap";
}

static bool is_own(const char *entry, size_t length)
{
  static const char own[] = "/usr/lib/libopgap.so";
  return length == sizeof own - 1 && memcmp(entry, own, length) == 0;
}

static char path[128], program[64 * 1024];
static size_t program_bytes;

/* An ELF program: headers, and what a test changes in them.  It is never executed. */
static Elf64_Ehdr *elf;
static Elf64_Phdr *parts;
static char *interpreter;
#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define OTHER_MACHINE EM_AARCH64
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#else
#define MACHINE EM_AARCH64
#define OTHER_MACHINE EM_X86_64
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif

static void set_interpreter(const char *loader)
{
  strcpy(interpreter, loader);
  parts[1].p_filesz = strlen(loader) + 1;
}

static void set_up(void)
{
  make_folder();
  ck_assert_int_eq(chdir(folder), 0);
  snprintf(path, sizeof path, "%s/program", folder);
  memset(program, 0, sizeof program);
  elf = (Elf64_Ehdr *)program;
  memcpy(elf->e_ident, ELFMAG, SELFMAG);
  elf->e_ident[EI_CLASS] = ELFCLASS64;
  elf->e_machine = MACHINE;
  elf->e_phoff = sizeof *elf;
  elf->e_phentsize = sizeof *parts;
  elf->e_phnum = 3;
  parts = (Elf64_Phdr *)(elf + 1);
  parts[0].p_type = PT_PHDR;
  parts[1].p_type = PT_INTERP;
  parts[1].p_offset = sizeof *elf + 3 * sizeof *parts;
  parts[2].p_type = PT_LOAD;
  interpreter = program + parts[1].p_offset;
  set_interpreter(LOADER);
  program_bytes = 4096;
}

static void put_file(const char *where, const char *bytes, size_t size)
{
  FILE *file = fopen(where, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
  ck_assert_int_eq(fclose(file), 0);
  ck_assert_int_eq(chmod(where, 0755), 0);
}

static bool stays(const char *what, char *const environment[])
{
  errno = 77;
  bool result = opgap_stays_traced(what, environment, is_own);
  ck_assert_int_eq(errno, 77);
  return result;
}

static char *const usual[] = {(char *)"A=1", (char *)SESSION, (char *)PRELOAD, NULL};

static bool program_stays(void)
{
  put_file(path, program, program_bytes);
  return stays(path, usual);
}

START_TEST(usual_program)
{
  ck_assert(program_stays());
  ck_assert(stays("/proc/self/exe", usual)); /* a true one: this */
  ck_assert(!stays(NULL, usual));
  ck_assert(!stays("program", usual)); /* to be searched for */
  ck_assert(!stays("/nowhere/at/all", usual));
  ck_assert(!stays(folder, usual));
  ck_assert(!stays("/dev/null", usual));
  ck_assert_int_eq(mkfifo("pipe", 0755), 0); /* with the same bytes */
  int pipe = open("pipe", O_RDWR);
  ck_assert_int_eq(write(pipe, program, program_bytes), (ssize_t)program_bytes);
  ck_assert(!stays("./pipe", usual));
  close(pipe);
}
END_TEST

START_TEST(environment)
{
  static const struct {
    bool stays;
    const char *variables[4];
  } cases[] = {
      {true, {SESSION, "LD_PRELOAD=other.so:/usr/lib/libopgap.so"}},
      {true, {"LD_PRELOAD=/usr/lib/libopgap.so other.so", SESSION}},
      {true, {SESSION, PRELOAD, "OPGAP_OFFER=1"}},
      {false, {NULL}},
      {false, {SESSION}},
      {false, {PRELOAD}},
      {false, {SESSION, "LD_PRELOAD="}},
      {false, {SESSION, "LD_PRELOAD=other.so"}},
      {false, {SESSION, "LD_PRELOAD=/usr/lib/libopgap.so.1"}},
      {false, {"OPGAP_SESSION=/some/where/trace.opga", PRELOAD}},
      {false, {"OPGAP_SESSION=/some/where/trace.opgap2", PRELOAD}},
      {false, {"OPGAP_SESSION=", PRELOAD}},
      {false, {SESSION, PRELOAD, "OPGAP_OFF=1"}},
      {false, {SESSION, PRELOAD, "OPGAP_OFF="}},
  };
  ck_assert(program_stays());
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_msg(stays(path, (char *const *)(uintptr_t)cases[i].variables) == cases[i].stays, "case %zu", i);
  ck_assert(!stays(path, NULL));
}
END_TEST

START_TEST(privileges)
{
  /* of a program without effect: version 2, no capability at all */
  static const unsigned char capabilities[20] = {0, 0, 0, 2};
  ck_assert(program_stays());
  ck_assert_int_eq(chmod(path, 04755), 0);
  ck_assert(!stays(path, usual));
  ck_assert_int_eq(chmod(path, 02755), 0);
  ck_assert(!stays(path, usual));
  ck_assert_int_eq(chmod(path, 0755), 0);
  ck_assert(stays(path, usual));
  if (setxattr(path, "security.capability", capabilities, sizeof capabilities, 0) != 0)
    leave_out("a file with capabilities", "not permitted here");
  else
    ck_assert(!stays(path, usual));
}
END_TEST

START_TEST(kind_of_program)
{
  ck_assert(program_stays());
  elf->e_machine = OTHER_MACHINE;
  ck_assert(!program_stays());
  elf->e_machine = MACHINE;
  elf->e_ident[EI_CLASS] = ELFCLASS32;
  ck_assert(!program_stays());
  elf->e_ident[EI_CLASS] = ELFCLASS64;
  elf->e_ident[EI_MAG3] = 'G';
  ck_assert(!program_stays());
  elf->e_ident[EI_MAG3] = ELFMAG3;
  set_interpreter("/lib/ld-musl-x86_64.so.1");
  ck_assert(!program_stays());
  set_interpreter("/opt/glibc/"
                  "ld-linux.so.2");
  ck_assert(program_stays());
  set_interpreter(LOADER);
  parts[1].p_filesz--; /* no end */
  ck_assert(!program_stays());
  parts[1].p_filesz = 0;
  ck_assert(!program_stays());
  set_interpreter(LOADER);
  parts[1].p_type = PT_NOTE; /* static */
  ck_assert(!program_stays());
  parts[1].p_type = PT_INTERP;
  ck_assert(program_stays());
}
END_TEST

/* What lies beyond the part of the file that is read is not certain. */
START_TEST(cut_program)
{
  ck_assert(program_stays());
  program_bytes = sizeof *elf - 1;
  ck_assert(!program_stays());
  program_bytes = sizeof *elf + 3 * sizeof *parts - 1;
  ck_assert(!program_stays());
  program_bytes = parts[1].p_offset + parts[1].p_filesz;
  ck_assert(program_stays());
  program_bytes--;
  ck_assert(!program_stays());
  program_bytes = 0;
  ck_assert(!program_stays());
  program_bytes = 4096;
  elf->e_phoff = UINT64_C(1) << 40;
  ck_assert(!program_stays());
  elf->e_phoff = sizeof *elf;
  elf->e_phentsize = 32;
  ck_assert(!program_stays());
  elf->e_phentsize = sizeof *parts;
  parts[1].p_offset = UINT64_C(1) << 40;
  ck_assert(!program_stays());
  parts[2] = parts[1]; /* its last byte is missing, and means nothing */
  parts[1].p_type = PT_NOTE;
  parts[2].p_offset = sizeof *elf + offsetof(Elf64_Phdr, p_offset);
  strcpy(program + parts[2].p_offset, LOADER);
  program_bytes = sizeof *elf + 3 * sizeof *parts;
  ck_assert(program_stays());
  program_bytes--;
  ck_assert(!program_stays());
}
END_TEST

START_TEST(scripts)
{
  char script[128], text[512];
  ck_assert(program_stays());
  snprintf(script, sizeof script, "%s/script", folder);
  static const struct {
    bool stays;
    const char *head; /* with the program's path */
  } cases[] = {
      {true, "#!%s\n"},   {true, "#! \t%s -x\necho\n"}, {true, "#!%s\t-x\n"}, {false, "#!%s"},
      {false, "#!%s-\n"}, {false, "#!program\n%s\n"},   {false, "#!\n%s\n"},  {false, "#x%s\n"},
      {false, "!!%s\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int length = snprintf(text, sizeof text, cases[i].head, path);
#pragma GCC diagnostic pop
    put_file(script, text, (size_t)length);
    ck_assert_msg(stays(script, usual) == cases[i].stays, "case %zu", i);
  }
  /* the interpreter's conditions are the program's */
  int length = snprintf(text, sizeof text, "#!%s\n", path);
  put_file(script, text, (size_t)length);
  ck_assert(stays(script, usual));
  ck_assert_int_eq(chmod(path, 04755), 0);
  ck_assert(!stays(script, usual));
  ck_assert_int_eq(chmod(path, 0755), 0);
  parts[1].p_type = PT_NOTE;
  ck_assert(!program_stays() && !stays(script, usual));
  put_file(path, text, (size_t)length); /* a script by a script */
  ck_assert(!stays(script, usual));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("next image");
  TCase *tests = new_case("conditions");
  tcase_add_checked_fixture(tests, set_up, remove_folder);
  tcase_add_test(tests, usual_program);
  tcase_add_test(tests, environment);
  tcase_add_test(tests, privileges);
  tcase_add_test(tests, kind_of_program);
  tcase_add_test(tests, cut_program);
  tcase_add_test(tests, scripts);
  suite_add_tcase(suite, tests);
  return run_suite(suite);
}
