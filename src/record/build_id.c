#include "record/build_id.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

static size_t write_digits(char *text, const uint8_t *bytes, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
    text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
  }
  text[2 * count] = 0;
  return 2 * count;
}

size_t opgap_build_id(ElfW(Addr) bias, const ElfW(Phdr) * headers, unsigned count, char text[OPGAP_BUILD_ID_TEXT])
{
  for (unsigned i = 0; i < count; i++) {
    if (headers[i].p_type != PT_NOTE)
      continue;
    const char *at = (const char *)(bias + headers[i].p_vaddr), *end = at + headers[i].p_memsz;
    while (end - at > (ptrdiff_t)sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
      const char *owner = at + sizeof *note;
      const uint8_t *id = (const uint8_t *)owner + ((note->n_namesz + 3) & ~3u);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(owner, "GNU", 4) == 0 &&
          note->n_descsz <= OPGAP_BUILD_ID_BYTES && (const char *)id + note->n_descsz <= end)
        return write_digits(text, id, note->n_descsz);
      at = (const char *)id + ((note->n_descsz + 3) & ~3u);
    }
  }
  text[0] = 0;
  return 0;
}
