/* opgap: finds the command and runs it. */
#include "opgap.h"

#include <stdio.h>
#include <string.h>

static const struct opgap_command commands[] = {
    {"record", "run a program and trace it", opgap_cmd_record},
    {"start", "begin recording in a running job", opgap_cmd_start},
    {"stop", "stop recording in a running job, which goes on", opgap_cmd_stop},
    {"snapshot", "copy the trace of a running job as it is now", opgap_cmd_snapshot},
    {"report", "hot ops, idle gaps and their causes, the verdict", opgap_cmd_report},
    {"top", "follows a running job: steps, GPU use, wait for data, hot ops", opgap_cmd_top},
    {"diff", "several runs side by side, and what changed", opgap_cmd_diff},
    {"gate", "compare runs with a baseline: exit 1 when it got slower, and which op did it", opgap_cmd_gate},
    {"baseline", "make the file that the gate compares with", opgap_cmd_baseline},
    {"html", "the report as one page to look at, with a timeline", opgap_cmd_html},
    {"export", "a trace for HTA, TensorBoard, Perfetto, flame graphs, SQL", opgap_cmd_export},
    {"info", "what a trace holds, and which functions this build can record", opgap_cmd_info},
    {"doctor", "check whether programs can be traced on this machine", opgap_cmd_doctor},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static void print_help(void)
{
  puts("opgap: where does the time of a training run go?\n"
       "\n"
       "Usage: opgap COMMAND [OPTIONS]\n"
       "       opgap COMMAND --help\n"
       "\n"
       "Commands:");
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    printf("  %-9s %s\n", commands[i].name, commands[i].summary);
  puts("\n"
       "  opgap record -- python3 train.py     trace a training\n"
       "  opgap report                         read the newest trace\n"
       "\n"
       "Exit status: 0 done, 1 the gate found a regression, 2 wrong usage or unreadable input,\n"
       "  3 the gate could not compare, 4 bytes of the trace are damaged or missing;\n"
       "  record: the program's own (127 not found, 126 cannot be executed, 128+n killed by signal n)");
}

static const struct opgap_command *find_command(const char *name)
{
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name)
{
  const char *names[COMMAND_COUNT];
  for (size_t i = 0; i < COMMAND_COUNT; i++)
    names[i] = commands[i].name;
  const char *near = opgap_nearest(name, names, COMMAND_COUNT);
  if (near != NULL)
    return opgap_usage_error(NULL, "unknown command '%s', did you mean '%s'?", name, near);
  return opgap_usage_error(NULL, "unknown command '%s'", name);
}

/* Output that could not be written (a full disk) must not pass for success. */
static int finish(int code)
{
  if (fflush(stdout) != 0 || ferror(stdout))
    return code != 0 ? code : opgap_fail(OPGAP_EXIT_USAGE, "cannot write the output");
  return code;
}

int main(int argc, char **argv)
{
  if (argc < 2)
    return opgap_usage_error(NULL, "no command given");
  const char *name = argv[1];
  if (strcmp(name, "--version") == 0) {
    puts("opgap " OPGAP_VERSION);
    return finish(OPGAP_EXIT_DONE);
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (strcmp(name, "help") == 0 && argc < 3)) {
    print_help();
    return finish(OPGAP_EXIT_DONE);
  }
  bool help = strcmp(name, "help") == 0;
  const struct opgap_command *command = find_command(help ? argv[2] : name);
  if (command == NULL)
    return unknown_command(help ? argv[2] : name);
  if (help) {
    char *arguments[] = {argv[2], "--help", NULL};
    return finish(command->run(2, arguments));
  }
  return finish(command->run(argc - 1, argv + 1));
}
