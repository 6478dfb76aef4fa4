/* The files that the page is made of, as they are. */
  .section .rodata
#define ASSET(name, file) \
  .globl opgap_asset_##name; \
  .globl opgap_asset_##name##_end; \
  .balign 16; \
  opgap_asset_##name: .incbin file; \
  opgap_asset_##name##_end: .byte 0

ASSET(page, "src/output/html/page.html")
ASSET(style, "src/output/html/style.css")
ASSET(d3, "third_party/d3/d3.min.js")
ASSET(licence, "third_party/d3/LICENSE")
ASSET(decode, "src/output/html/decode.js")
ASSET(format, "src/output/html/format.js")
ASSET(charts, "src/output/html/charts.js")
ASSET(tables, "src/output/html/tables.js")
ASSET(timeline, "src/output/html/timeline.js")
ASSET(flame, "src/output/html/flame.js")
ASSET(main, "src/output/html/main.js")
  .section .note.GNU-stack, "", %progbits
