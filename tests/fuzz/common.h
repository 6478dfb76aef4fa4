/* What the fuzz targets share. */
#ifndef OPGAP_TESTS_FUZZ_COMMON_H
#define OPGAP_TESTS_FUZZ_COMMON_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Opens the bytes of a process file, or finds why it cannot, and reads all that it holds.  Aborts on what a reader must
 * not do: a refusal without a reason, a record of no event, a name longer than it says. */
void fuzz_read(const uint8_t *bytes, size_t size);

#endif
