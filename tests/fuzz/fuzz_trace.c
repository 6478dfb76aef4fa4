/* Fuzz target: a process file of a trace, whatever its bytes, must be opened or refused, and read to its end, without a
 * fault and in bounded memory.  The first byte chooses whether checksums are mended first: with broken checksums the
 * fuzzer would never get behind them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "format/trace_format.h"

/* Makes every chunk header in the buffer sound, so that the payload decoders are reached. */
static void mend(uint8_t *bytes, size_t size)
{
  for (size_t at = sizeof(struct opgap_file_header); at + sizeof(struct opgap_chunk_header) <= size;) {
    struct opgap_chunk_header header;
    memcpy(&header, bytes + at, sizeof header);
    size_t room = size - at - sizeof header;
    header.magic = OPGAP_CHUNK_MAGIC;
    header.header_bytes = sizeof header;
    if (header.stored_bytes > room)
      header.stored_bytes = (uint32_t)room;
    header.payload_crc = opgap_crc32(0, bytes + at + sizeof header, header.stored_bytes);
    header.header_crc = opgap_crc32(0, &header, offsetof(struct opgap_chunk_header, header_crc));
    memcpy(bytes + at, &header, sizeof header);
    at += sizeof header + header.stored_bytes;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1)
    return 0;
  uint8_t *copy = malloc(size);
  if (copy == NULL)
    abort();
  memcpy(copy, data + 1, size - 1);
  if (data[0] & 1)
    mend(copy, size - 1);
  fuzz_read(copy, size - 1);
  free(copy);
  return 0;
}
