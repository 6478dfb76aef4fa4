/* What stdout's terminal can show.  See opgap.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "opgap.h"
#include "output/chart.h"
#include "output/output.h"

unsigned opgap_terminal_width(FILE *file)
{
  struct winsize size;
  unsigned terminal = 0;
  if (isatty(fileno(file)))
    terminal = ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  return opgap_output_width(getenv("COLUMNS"), terminal);
}

bool opgap_terminal_colour(void)
{
  const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && (no_colour == NULL || no_colour[0] == '\0') &&
         (term == NULL || strcmp(term, "dumb") != 0);
}

bool opgap_terminal_utf8(void)
{
  return chart_utf8(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"));
}
