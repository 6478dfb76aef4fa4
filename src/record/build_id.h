/* The build id of a loaded object (NT_GNU_BUILD_ID), as hexadecimal digits.
 *
 * Threads   any, while the object stays loaded.  Reads the object's notes; allocates nothing, calls nothing.
 */
#ifndef OPGAP_RECORD_BUILD_ID_H
#define OPGAP_RECORD_BUILD_ID_H

#include <link.h>
#include <stddef.h>

#define OPGAP_BUILD_ID_BYTES 64u                           /* longer ones are passed over; usual are 20 */
#define OPGAP_BUILD_ID_TEXT (2 * OPGAP_BUILD_ID_BYTES + 1) /* with the NUL */

/* bias, headers, count: of the object, as dl_iterate_phdr gives them.  Returns the text's length; 0: it has none. */
size_t opgap_build_id(ElfW(Addr) bias, const ElfW(Phdr) * headers, unsigned count, char text[OPGAP_BUILD_ID_TEXT]);

#endif
