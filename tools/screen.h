/* A terminal taken over for a time: its second screen, keys without Enter, and the way back however it ends.
 *
 * Threads   Single-threaded; one screen a process.  Signals: while a screen is open, SIGINT, SIGTERM, SIGHUP, SIGQUIT
 *           and SIGWINCH are blocked except inside screen_wait, so nothing is lost and nothing interrupts a drawing.
 */
#ifndef OPGAP_TOOLS_SCREEN_H
#define OPGAP_TOOLS_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum screen_event {
  SCREEN_TIME,    /* the time is over */
  SCREEN_RESIZED, /* draw again */
  SCREEN_QUIT,    /* q, Ctrl-C, or a signal that ends programs */
};

/* terminal: take over the terminal of stdin and stdout; else only the signals are watched. */
void screen_open(bool terminal);
/* Gives the terminal back; where a signal other than SIGINT ended screen_wait, the program dies of it. */
void screen_close(void);
/* Waits until a time (CLOCK_MONOTONIC ns). */
enum screen_event screen_wait(uint64_t until_ns);
/* Replaces what the screen shows by as many lines of the text as fit. */
void screen_draw(const char *text);

#endif
