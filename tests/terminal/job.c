/* A job under control: each byte of stdin is an order, answered by the same byte on stdout when it is done.
 *   s  one step: the range "work", then opgap_step()
 *   c  a child with one range
 *   e  the end, exit status 4 */
#include <opgap/opgap.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(void)
{
  pid_t pid = fork();
  if (pid == 0) {
    opgap_range_push("child"); /* a process of which nothing is recorded has no trace */
    opgap_range_pop();
    _exit(0);
  }
  waitpid(pid, NULL, 0);
}

int main(void)
{
  char order;
  while (read(STDIN_FILENO, &order, 1) == 1) {
    if (order == 's') {
      opgap_range_push("work");
      opgap_range_pop();
      opgap_step();
    } else if (order == 'c') {
      child();
    }
    if (write(STDOUT_FILENO, &order, 1) != 1 || order == 'e')
      break;
  }
  return 4;
}
