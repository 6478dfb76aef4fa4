/* Fuzz target: the payload of one chunk, compressed here and put into a sound file, so that every input reaches the
 * decoder of its kind.  The first byte chooses the kind, the rest is the payload; the second byte of a RECORDS chunk is
 * how many records the header claims. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common.h"
#include "format/encode.h"
#include "format/reader.h"
#include "format/trace_format.h"

static uint8_t file[4 << 20];
static size_t file_size;
static uint32_t sequence;

static void add_chunk(uint16_t type, const uint8_t *payload, size_t size, uint32_t records)
{
  struct opgap_chunk_header header = {.magic = OPGAP_CHUNK_MAGIC,
                                      .type = type,
                                      .header_bytes = sizeof header,
                                      .serial = type == OPGAP_CHUNK_RECORDS,
                                      .sequence = ++sequence,
                                      .raw_bytes = (uint32_t)size,
                                      .records = records,
                                      .first_ns = 1000,
                                      .last_ns = 1000000,
                                      .kind = OPGAP_STREAM_THREAD,
                                      .tid = 1};
  uint8_t *out = file + file_size + sizeof header;
  size_t stored = ZSTD_compress(out, sizeof file - file_size - sizeof header, payload, size, 1);
  if (ZSTD_isError(stored))
    abort();
  header.stored_bytes = (uint32_t)stored;
  header.payload_crc = opgap_crc32(0, out, stored);
  header.header_crc = opgap_crc32(0, &header, offsetof(struct opgap_chunk_header, header_crc));
  memcpy(file + file_size, &header, sizeof header);
  file_size += sizeof header + stored;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static struct opgap_encoder encoder;
  static uint8_t schema[64 * 1024];
  static size_t schema_size;
  if (size < 2 || size > 1 << 20)
    return 0;
  if (schema_size == 0) {
    opgap_encoder_init(&encoder, NULL, 0);
    schema_size = opgap_encode_schema(&encoder, schema, sizeof schema);
  }
  struct opgap_file_header header = {.start_ns = 1000, .pid = 1};
  opgap_seal_file_header(&header);
  memcpy(file, &header, sizeof header);
  file_size = sizeof header;
  sequence = 0;
  static const uint16_t kinds[] = {OPGAP_CHUNK_RECORDS, OPGAP_CHUNK_SCHEMA, OPGAP_CHUNK_INFO, OPGAP_CHUNK_END};
  uint16_t kind = kinds[data[0] % 4];
  if (kind != OPGAP_CHUNK_SCHEMA)
    add_chunk(OPGAP_CHUNK_SCHEMA, schema, schema_size, 0);
  add_chunk(kind, data + 2, size - 2, data[1]);
  if (kind == OPGAP_CHUNK_SCHEMA) /* records of the events that it describes, in the built-in form */
    add_chunk(OPGAP_CHUNK_RECORDS, schema, schema_size, data[1]);
  fuzz_read(file, file_size);
  return 0;
}
