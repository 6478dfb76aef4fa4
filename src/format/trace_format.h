/* The bytes of a trace file; docs/TRACE_FORMAT.md describes them for other readers.
 *
 * Little-endian.  A file is a header and then chunks; each chunk stands alone (its predictors start anew and it carries
 * the names it uses), so a file may be cut or cut out anywhere between chunks.
 */
#ifndef OPGAP_FORMAT_TRACE_FORMAT_H
#define OPGAP_FORMAT_TRACE_FORMAT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPGAP_TRACE_MAGIC "OPGAPTRC"
#define OPGAP_TRACE_VERSION 2u
#define OPGAP_CHUNK_MAGIC 0x4843474fu /* "OGCH" */

#define OPGAP_UNTRACED ".untraced-" /* PID behind it: a folder beside the traces, while `opgap record` waits */
#define OPGAP_SIZE_REACHED "OPGAP_MAX_SIZE is reached" /* value of the pair "stopped" */
#define OPGAP_OLDER_PART ".older" /* behind a file's name: the part before it, of the same process */

enum opgap_chunk_type {
  OPGAP_CHUNK_INFO = 1,    /* keys and values about the process */
  OPGAP_CHUNK_SCHEMA = 2,  /* the event table */
  OPGAP_CHUNK_RECORDS = 3, /* records of one stream */
  OPGAP_CHUNK_END = 4,     /* the process's end, as keys and values; void if chunks follow */
};

struct opgap_file_header {
  char magic[8];
  uint32_t version;     /* of the writer */
  uint32_t min_version; /* a reader older than this must refuse */
  uint32_t header_bytes;
  uint32_t features; /* enum opgap_file_feature; unknown bits may be ignored */
  uint64_t start_ns;
  int32_t pid;
  uint32_t first_sequence; /* of its chunks; 0: 1 */
  uint64_t kept_from_ns;   /* what was recorded before was dropped (OPGAP_KEEP); 0: nothing was */
  uint32_t reserved[3];
  uint32_t header_crc; /* CRC-32 of the bytes before */
};
static_assert(sizeof(struct opgap_file_header) == 64, "file header");

enum opgap_file_feature {
  OPGAP_FILE_HAS_CRC = 1,    /* header_crc is there: from version 2 on always */
  OPGAP_FILE_TELLS_LOSS = 2, /* why records are lost: in chunk headers, and with the end */
};

struct opgap_chunk_header {
  uint32_t magic;
  uint16_t type; /* unknown types are skipped */
  uint16_t header_bytes;
  uint32_t serial;       /* stream; 0: the file */
  uint32_t sequence;     /* counts the chunks of a file from 1; a jump is a missing chunk */
  uint32_t stored_bytes; /* payload that follows the header: one zstd frame */
  uint32_t raw_bytes;    /* payload after decompression, at most OPGAP_CHUNK_MAX */
  uint32_t records;
  uint32_t payload_crc; /* CRC-32 (IEEE) of the stored payload */
  uint64_t first_ns, last_ns;
  uint64_t position; /* position in the stream's ring behind the last record: what recovery skips */
  uint64_t lost;     /* records of the stream that are not in it, so far: these two, and those that found no room */
  int32_t tid;
  uint32_t kind;       /* enum opgap_stream_kind */
  char name[16];       /* of the thread, NUL-padded */
  uint32_t interrupts; /* of `lost`: calls of signal handlers that interrupted the making of a record */
  uint32_t too_deep;   /* of `lost`: ops inside more ops than are kept */
  uint32_t reserved;
  uint32_t header_crc; /* CRC-32 of the bytes before */
};
static_assert(sizeof(struct opgap_chunk_header) == 104, "chunk header");

#define OPGAP_CHUNK_MAX (4u << 20)
#define OPGAP_CHUNK_RECORDS_MAX 65536u

/* Columns of event 0 hold what all records have; `field` selects which.  EVENT: of version 1, which had no patterns.
 * DEPTH, END: of records of a loose pattern; LEAD, TAIL: of those of a fixed one. */
enum opgap_common_column {
  OPGAP_COLUMN_EVENT = 0,
  OPGAP_COLUMN_DEPTH = 1,
  OPGAP_COLUMN_END = 2,
  OPGAP_COLUMN_PATTERN = 3,
  OPGAP_COLUMN_LEAD = 4,
  OPGAP_COLUMN_TAIL = 5,
  OPGAP_COLUMN_PATTERNS = 6,
  OPGAP_COMMON_COLUMNS
};
/* What a row of PATTERNS gives.  LOOSE: the event.  FIXED: a span's depth, status and fields as well. */
enum opgap_pattern_form { OPGAP_PATTERN_LOOSE = 0, OPGAP_PATTERN_FIXED = 1 };
#define OPGAP_PATTERNS_MAX 4096u /* of a chunk */
/* Columns of an event: its duration (spans), its status, then its fields from 2 on. */
enum opgap_event_column { OPGAP_COLUMN_DURATION = 0, OPGAP_COLUMN_STATUS = 1, OPGAP_COLUMN_FIELD = 2 };

struct opgap_column_entry {
  uint16_t event, field;
  uint32_t bytes;
};

/* Where records lie among those before them.  A span's lead is the time from the end of the record before to its start,
 * its tail from there to its end; of one with records inside, the lead is the time from its start to that of the first
 * of them, the tail from the end of the record before to its own: no time counts twice, and what repeats is short. */
struct opgap_tree {
  uint64_t end;                      /* of the record before */
  uint32_t depth;                    /* likewise */
  uint64_t first[UINT8_MAX + 1 + 1]; /* start of the first record at each depth up to that one */
};
static inline bool opgap_tree_is_parent(const struct opgap_tree *tree, uint8_t depth)
{
  return tree->depth > depth;
}
static inline void opgap_tree_add(struct opgap_tree *tree, uint8_t depth, uint64_t start, uint64_t end)
{
  while (tree->depth < depth)
    tree->first[++tree->depth] = start;
  tree->depth = depth;
  tree->end = end;
}

/* What a lead is expected to be: that of the last record with this pattern behind one with the same pattern as now, as
 * a rule; pairs of patterns share slots. */
#define OPGAP_LEAD_SLOTS 2048u
struct opgap_leads {
  uint32_t pattern; /* of the record before */
  uint64_t of_pair[OPGAP_LEAD_SLOTS];
};
/* The slot of the next record, which has this pattern. */
static inline uint64_t *opgap_lead_next(struct opgap_leads *leads, uint32_t pattern)
{
  uint64_t *slot = &leads->of_pair[(leads->pattern * 37 + pattern) % OPGAP_LEAD_SLOTS];
  leads->pattern = pattern;
  return slot;
}

uint32_t opgap_crc32(uint32_t crc, const void *data, size_t size);
/* Fills in what says how to read a file, and the checksum; the rest of the header is there. */
void opgap_seal_file_header(struct opgap_file_header *header);

static inline uint64_t opgap_zigzag(uint64_t difference)
{
  return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}
static inline uint64_t opgap_unzigzag(uint64_t value)
{
  return value >> 1 ^ (0 - (value & 1));
}
#define OPGAP_VARINT_MOST 10u /* bytes of one */

static inline uint8_t *opgap_put_varint(uint8_t *at, uint64_t value)
{
  while (value >= 128) {
    *at++ = (uint8_t)(value | 128);
    value >>= 7;
  }
  *at++ = (uint8_t)value;
  return at;
}

#endif
