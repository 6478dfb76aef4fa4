/* The tracer's lines on the program's standard error.
 *
 * Threads   any, any context; the flusher has a descriptor table of its own and borrows the program's descriptor 2.
 * Rules     A line goes through the program's own open file, so that neither overwrites the other's bytes; it waits for
 *           nobody (a full pipe), and raises no signal (a closed one, the limit of file sizes).  What cannot be written
 *           so is dropped, or, if it is the flusher's, left to the thread that ends the process. */
#ifndef OPGAP_RECORD_STDERR_H
#define OPGAP_RECORD_STDERR_H

#include <stddef.h>

/* At most OPGAP_STDERR_LINE bytes. */
#define OPGAP_STDERR_LINE 1400u
void opgap_stderr_write(const char *line, size_t bytes);

/* The process ends: writes what the flusher could not. */
void opgap_stderr_end(void);

#endif
