/* The flight recorder (OPGAP_KEEP): only the last seconds stay on disk.
 *
 * A trace file is written in parts.  When the present part spans the time to keep, or a third of OPGAP_MAX_SIZE, it
 * becomes NAME.opgt.older in place of the part before it, and a new NAME.opgt goes on: so disk and report hold at least
 * the time to keep, and at most twice that.  Each part begins with what a reader must know without the parts before it:
 * the description, the schema, and for each live thread its start and its totals so far.
 *
 * Threads   the consumer only (drain lock).
 * Files     The new part is complete under another name before it takes its place by rename, so whenever the process
 *           dies there are one or two whole parts.
 */
#ifndef OPGAP_RECORD_KEEP_H
#define OPGAP_RECORD_KEEP_H

#include <stddef.h>
#include <stdint.h>

/* Begins: the first part of a session.  pairs: its description, kept by the caller. */
void opgap_keep_begin(const uint8_t *pairs, size_t pairs_bytes);
/* After a drain: begins a new part if it is time. */
void opgap_keep_turn(void);

#endif
