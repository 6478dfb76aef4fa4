/* The timeline and the call tree as bytes for the page.  decode.js reads them in the same order. */
#include "output/html/html.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/pool.h"
#include "analysis/text.h"

#define TEXT_LIMIT 1000u /* bytes of a name that are shown */

static unsigned char *room_for(struct opgap_html_bytes *bytes, size_t count)
{
  if (bytes->room - bytes->count < count) {
    bytes->room = (bytes->room + count) * 2;
    bytes->at = opgap_xrealloc(bytes->at, bytes->room, 1);
  }
  return bytes->at + bytes->count;
}

void opgap_html_number(struct opgap_html_bytes *bytes, uint64_t value)
{
  unsigned char *at = room_for(bytes, 10);
  for (; value >= 128; value >>= 7, bytes->count++)
    *at++ = (unsigned char)(value | 128);
  *at = (unsigned char)value;
  bytes->count++;
}

void opgap_html_append(struct opgap_html_bytes *bytes, const void *from, size_t count)
{
  if (count > 0)
    memcpy(room_for(bytes, count), from, count);
  bytes->count += count;
}

/* Cuts at a character's first byte. */
static size_t cut(const char *text)
{
  size_t length = strlen(text);
  if (length <= TEXT_LIMIT)
    return length;
  for (length = TEXT_LIMIT; ((unsigned char)text[length] & 0xc0) == 0x80; length--)
    ;
  return length;
}

void opgap_html_text(struct opgap_html_bytes *bytes, const char *text)
{
  char *clean = text_clean(text);
  size_t length = cut(clean);
  opgap_html_number(bytes, length);
  opgap_html_append(bytes, clean, length);
  free(clean);
}

/* ---- texts that are used, each once ---- */

struct texts {
  struct opgap_pool *pool;
  struct opgap_strings strings;
};

static uint32_t text_id(struct texts *texts, const char *text)
{
  return text == NULL ? 0 : opgap_strings_id(&texts->strings, text, strlen(text));
}

/* ---- levels ---- */

static uint32_t largest_entry(const struct opgap_level_bin *bin)
{
  unsigned best = 0;
  for (unsigned i = 1; i < OPGAP_BIN_ENTRIES; i++)
    if (bin->weight[i] > bin->weight[best])
      best = i;
  return bin->entry[best];
}

/* Shares of 255, then the entry of each bin that has any time: 0 as the one before, else entry + 1. */
static void encode_bins(struct opgap_html_bytes *out, const struct opgap_level_bin *bins, uint32_t count,
                        uint64_t bin_ns)
{
  uint32_t last = UINT32_MAX;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t share = bins[i].ns >= bin_ns ? 255 : bins[i].ns * 255 / bin_ns;
    unsigned char byte = (unsigned char)(bins[i].ns > 0 && share == 0 ? 1 : share);
    opgap_html_append(out, &byte, 1);
  }
  for (uint32_t i = 0; i < count; i++)
    if (bins[i].ns > 0) {
      uint32_t entry = largest_entry(&bins[i]);
      opgap_html_number(out, entry == last ? 0 : (uint64_t)entry + 1);
      last = entry;
    }
}

static void encode_lane(const struct opgap_levels *levels, struct opgap_html_bytes *out,
                        const struct opgap_level_bin *finest)
{
  uint32_t count = levels->bin_count;
  uint64_t bin_ns = levels->duration_ns / count + 1;
  struct opgap_level_bin *bins = opgap_xcalloc(count, sizeof *bins);
  memcpy(bins, finest, count * sizeof *bins);
  for (unsigned level = 0; level < OPGAP_LEVELS; level++) {
    encode_bins(out, bins, count, bin_ns);
    count /= 4;
    bin_ns *= 4;
    for (uint32_t i = 0; i < count; i++) {
      struct opgap_level_bin sum = {0};
      for (uint32_t k = 0; k < 4; k++)
        opgap_level_bin_merge(&sum, &bins[4 * i + k]);
      bins[i] = sum;
    }
  }
  free(bins);
}

static size_t process_row(const struct opgap_summary *summary, uint32_t process)
{
  for (size_t i = 0; i < summary->process_count; i++)
    if (summary->processes[i].index == process)
      return i;
  return 0;
}

static void encode_tracks(const struct opgap_html *html, struct opgap_html_bytes *out)
{
  const struct opgap_levels *levels = html->levels;
  opgap_html_number(out, levels->track_count);
  for (size_t i = 0; i < levels->track_count; i++) {
    const struct opgap_level_track *t = &levels->tracks[i];
    unsigned lanes = 0;
    opgap_html_number(out, t->kind);
    opgap_html_number(out, process_row(html->summary, t->process));
    opgap_html_number(out, (uint32_t)t->tid);
    opgap_html_number(out, t->device);
    opgap_html_number(out, t->context);
    opgap_html_number(out, t->gpu_stream);
    opgap_html_number(out, t->lanes);
    opgap_html_number(out, t->ns);
    opgap_html_number(out, t->spans);
    opgap_html_text(out, t->name);
    for (unsigned l = 0; l < OPGAP_BIN_LANES; l++)
      lanes |= (unsigned)(t->bins[l] != NULL) << l;
    opgap_html_number(out, lanes);
    for (unsigned l = 0; l < OPGAP_BIN_LANES; l++)
      if (t->bins[l] != NULL)
        encode_lane(levels, out, t->bins[l]);
  }
}

/* ---- sets ---- */

/* Spans of one lane, in columns; a start counts from the end of the span before. */
static void encode_run(struct opgap_html_bytes *out, struct texts *texts, const struct opgap_level_span *spans,
                       size_t count)
{
  uint64_t end = 0;
  opgap_html_number(out, spans->track);
  opgap_html_number(out, spans->lane);
  opgap_html_number(out, count);
  for (size_t i = 0; i < count; i++) {
    opgap_html_number(out, spans[i].start_ns - end);
    opgap_html_number(out, spans[i].end_ns - spans[i].start_ns);
    end = spans[i].end_ns;
  }
  for (size_t i = 0; i < count; i++)
    opgap_html_number(out, spans[i].entry);
  for (size_t i = 0; i < count; i++)
    opgap_html_number(out, text_id(texts, spans[i].path));
  for (size_t i = 0; i < count; i++)
    opgap_html_number(out, spans[i].bytes + 1); /* OPGAP_UNKNOWN becomes 0 */
  for (size_t i = 0; i < count; i++)
    opgap_html_number(out, spans[i].unfinished);
}

static bool same_lane(const struct opgap_level_span *left, const struct opgap_level_span *right)
{
  return left->track == right->track && left->lane == right->lane;
}

static void encode_set(struct opgap_html_bytes *out, struct texts *texts, const struct opgap_level_set *set)
{
  size_t runs = 0;
  for (size_t i = 0; i < set->count; i++)
    runs += i == 0 || !same_lane(&set->spans[i], &set->spans[i - 1]);
  opgap_html_number(out, set->from_ns);
  opgap_html_number(out, set->to_ns);
  opgap_html_number(out, set->min_ns);
  opgap_html_number(out, set->left_out);
  opgap_html_text(out, set->label);
  opgap_html_number(out, runs);
  for (size_t i = 0, end; i < set->count; i = end) {
    for (end = i + 1; end < set->count && same_lane(&set->spans[end], &set->spans[i]); end++)
      ;
    encode_run(out, texts, &set->spans[i], end - i);
  }
}

/* ---- call tree ---- */

static void encode_flame(struct opgap_html_bytes *out, struct texts *texts, const struct opgap_sum_flame *flame)
{
  opgap_html_number(out, flame->left_out);
  opgap_html_number(out, flame->count);
  for (size_t i = 0; i < flame->count; i++) {
    const struct opgap_sum_flame_node *node = &flame->nodes[i];
    opgap_html_number(out, node->parent == UINT32_MAX ? 0 : i - node->parent);
    opgap_html_number(out, text_id(texts, node->name));
    opgap_html_number(out, node->kind);
    opgap_html_number(out, node->role);
    opgap_html_number(out, node->calls);
    opgap_html_number(out, node->self_cpu_ns);
    opgap_html_number(out, node->total_cpu_ns);
    opgap_html_number(out, node->self_gpu_ns);
    opgap_html_number(out, node->total_gpu_ns);
  }
}

void opgap_html_encode(const struct opgap_html *html, struct opgap_html_bytes *bytes)
{
  const struct opgap_levels *levels = html->levels;
  struct opgap_html_bytes body = {0};
  struct texts texts = {.pool = opgap_pool_new()};
  opgap_strings_init(&texts.strings, texts.pool);

  opgap_html_number(&body, levels->duration_ns);
  opgap_html_number(&body, levels->spans);
  opgap_html_number(&body, levels->too_deep);
  opgap_html_number(&body, levels->tracks_left_out);
  opgap_html_number(&body, levels->bin_count);
  opgap_html_number(&body, OPGAP_LEVELS);
  opgap_html_number(&body, levels->entry_count);
  for (size_t i = 0; i < levels->entry_count; i++) {
    opgap_html_number(&body, levels->entries[i].kind);
    opgap_html_number(&body, text_id(&texts, levels->entries[i].text));
  }
  encode_tracks(html, &body);
  opgap_html_number(&body, levels->set_count);
  for (size_t i = 0; i < levels->set_count; i++)
    encode_set(&body, &texts, &levels->sets[i]);
  encode_flame(&body, &texts, &html->summary->flame);

  opgap_html_number(bytes, texts.strings.text.count);
  for (size_t i = 0; i < texts.strings.text.count; i++)
    opgap_html_text(bytes, texts.strings.text.at[i]);
  opgap_html_append(bytes, body.at, body.count);
  free(body.at);
  opgap_strings_free(&texts.strings);
  opgap_pool_free(texts.pool);
}
