#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "opgap.h"

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
#define WATCHED (sizeof watched / sizeof *watched)

static volatile sig_atomic_t resized, ending;
static bool taken_over;
static struct termios before;
static sigset_t mask_before;
static struct sigaction actions_before[WATCHED];

static void on_signal(int number)
{
  if (number == SIGWINCH || number == SIGCONT)
    resized = 1;
  else
    ending = number;
}

/* Keys come at once and unseen; Ctrl-C and Ctrl-Z stay signals. */
static void set_keys(void)
{
  struct termios raw = before;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void screen_open(bool terminal)
{
  struct sigaction action = {.sa_handler = on_signal};
  sigset_t mask;
  sigemptyset(&mask);
  for (size_t i = 0; i < WATCHED; i++)
    sigaddset(&mask, watched[i]);
  sigprocmask(SIG_BLOCK, &mask, &mask_before);
  for (size_t i = 0; i < WATCHED; i++)
    sigaction(watched[i], &action, &actions_before[i]);
  taken_over = terminal && tcgetattr(STDIN_FILENO, &before) == 0;
  if (!taken_over)
    return;
  set_keys();
  fputs("\033[?1049h\033[?25l\033[?7l", stdout); /* second screen, no cursor, long lines are cut */
  fflush(stdout);
}

void screen_close(void)
{
  if (taken_over) {
    fputs("\033[?7h\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    taken_over = false;
  }
  for (size_t i = 0; i < WATCHED; i++)
    sigaction(watched[i], &actions_before[i], NULL);
  sigprocmask(SIG_SETMASK, &mask_before, NULL);
  if (ending != 0 && ending != SIGINT)
    raise(ending);
}

static struct timespec time_until(uint64_t until_ns)
{
  uint64_t now_ns = opgap_monotonic_ns();
  uint64_t left = until_ns > now_ns ? until_ns - now_ns : 0;
  return (struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
}

static bool quit_key(void)
{
  char keys[64];
  ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
  return count > 0 && (memchr(keys, 'q', (size_t)count) != NULL || memchr(keys, 'Q', (size_t)count) != NULL);
}

enum screen_event screen_wait(uint64_t until_ns)
{
  sigset_t open = mask_before;
  for (size_t i = 0; i < WATCHED; i++)
    sigdelset(&open, watched[i]);
  struct pollfd keys = {.fd = taken_over ? STDIN_FILENO : -1, .events = POLLIN};
  for (;;) {
    if (ending != 0)
      return SCREEN_QUIT;
    if (resized != 0) {
      resized = 0;
      if (taken_over)
        set_keys(); /* after Ctrl-Z and fg the shell has reset them */
      return SCREEN_RESIZED;
    }
    struct timespec left = time_until(until_ns);
    int ready = ppoll(&keys, 1, &left, &open);
    if (ready == 0)
      return SCREEN_TIME;
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready < 0 || keys.revents & (POLLHUP | POLLERR | POLLNVAL) || quit_key())
      return SCREEN_QUIT;
  }
}

void screen_draw(const char *text)
{
  struct winsize size;
  unsigned lines = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
  fputs("\033[H", stdout);
  for (unsigned line = 0; line < lines && *text != '\0'; line++) {
    int length = (int)strcspn(text, "\n");
    /* no line break behind the last line: it would scroll */
    printf("%.*s\033[K%s", length, text, line + 1 < lines ? "\n" : "");
    text += length + (text[length] == '\n');
  }
  fputs("\033[J", stdout);
  fflush(stdout);
}
