/* Puts the page together: the parts in assets.S, and the data as one block of compressed base64. */
#include "output/html/html.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analysis/pool.h"
#include "output/output.h"

/* Files of this folder, embedded as they are (assets.S). */
#define ASSET(name) extern const char opgap_asset_##name[], opgap_asset_##name##_end[]
ASSET(page);
ASSET(style);
ASSET(d3);
ASSET(licence);
ASSET(decode);
ASSET(format);
ASSET(charts);
ASSET(tables);
ASSET(timeline);
ASSET(flame);
ASSET(main);

static void put(const char *from, const char *to, FILE *file)
{
  fwrite(from, 1, (size_t)(to - from), file);
}
#define PUT_ASSET(name, file) put(opgap_asset_##name, opgap_asset_##name##_end, file)

static void put_base64(const unsigned char *bytes, size_t count, FILE *file)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < count; i += 3) {
    uint32_t group = (uint32_t)bytes[i] << 16 | (i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (i + 2 < count ? (uint32_t)bytes[i + 2] : 0);
    fputc(digits[group >> 18], file);
    fputc(digits[group >> 12 & 63], file);
    fputc(i + 1 < count ? digits[group >> 6 & 63] : '=', file);
    fputc(i + 2 < count ? digits[group & 63] : '=', file);
  }
}

static void put_data(const struct opgap_html_bytes *data, FILE *file)
{
  uLongf size = compressBound(data->count);
  unsigned char *packed = opgap_xcalloc(size, 1);
  compress2(packed, &size, data->at, data->count, Z_BEST_COMPRESSION); /* the room is enough for any data */
  put_base64(packed, size, file);
  free(packed);
}

/* Of very many steps the slowest of each few, so that the page stays small.  Returns how many one stands for. */
static size_t thin_steps(struct opgap_summary *summary)
{
  struct opgap_sum_steps *steps = &summary->steps;
  size_t each = (steps->count + OPGAP_HTML_STEPS_LIMIT - 1) / OPGAP_HTML_STEPS_LIMIT, kept = 0;
  if (each <= 1)
    return 1;
  for (size_t i = 0; i < steps->count; i += each) {
    size_t slowest = i;
    for (size_t k = i + 1; k < i + each && k < steps->count; k++)
      if (steps->durations_ns[k] > steps->durations_ns[slowest])
        slowest = k;
    steps->start_ns[kept] = steps->start_ns[slowest];
    steps->durations_ns[kept++] = steps->durations_ns[slowest];
  }
  steps->count = kept;
  return each;
}

static void encode(const struct opgap_html *html, struct opgap_html_bytes *data)
{
  struct opgap_output_options options = {.limit = html->limit};
  struct opgap_summary *summary = html->summary;
  opgap_html_text(data, OPGAP_VERSION);
  opgap_html_number(data, summary->steps.count);
  opgap_html_number(data, thin_steps(summary));
  opgap_html_number(data, summary->op_count);
  opgap_html_number(data, summary->call_count);
  opgap_html_number(data, summary->file_count);
  opgap_html_number(data, summary->lock_count);
  char *json = opgap_output_json(summary, &options);
  if (json == NULL)
    opgap_out_of_memory();
  opgap_html_number(data, strlen(json));
  opgap_html_append(data, json, strlen(json));
  free(json);
  opgap_html_encode(html, data);
}

static void put_scripts(FILE *file)
{
  PUT_ASSET(d3, file);
  PUT_ASSET(decode, file);
  PUT_ASSET(format, file);
  PUT_ASSET(charts, file);
  PUT_ASSET(tables, file);
  PUT_ASSET(timeline, file);
  PUT_ASSET(flame, file);
  PUT_ASSET(main, file);
}

/* Puts what stands before a mark of page.html; returns what follows it. */
static const char *put_until(const char *page, const char *mark, FILE *file)
{
  const char *at = memmem(page, (size_t)(opgap_asset_page_end - page), mark, strlen(mark));
  put(page, at, file);
  return at + strlen(mark);
}

void opgap_output_html(const struct opgap_html *html, FILE *file)
{
  struct opgap_html_bytes data = {0};
  encode(html, &data);
  const char *page = put_until(opgap_asset_page, "/*STYLE*/", file);
  PUT_ASSET(style, file);
  page = put_until(page, "DATA", file);
  put_data(&data, file);
  page = put_until(page, "LICENCE", file);
  PUT_ASSET(licence, file);
  page = put_until(page, "/*SCRIPT*/", file);
  put_scripts(file);
  put(page, opgap_asset_page_end, file);
  free(data.at);
}
