/* opgap markers: tell the tracer about steps and ranges of a C or C++ program.
 *
 *     opgap_range_push("load batch");
 *     ...
 *     opgap_range_pop();
 *     opgap_step();                    // one iteration of the training or serving loop is done
 *
 * Header only, no library to link with: the calls reach the tracer through weak symbols, and do nothing in a program
 * that runs without it (one test).  Any thread; ranges nest per thread, and a pop without a push does nothing.
 * Names are copied; equal names are one row of the report.  errno is kept.
 */
#ifndef OPGAP_OPGAP_H
#define OPGAP_OPGAP_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
/* Provided by libopgap.so when it is preloaded.  Call the functions below instead. */
extern void opgap_marker_step(void) __attribute__((weak));
extern void opgap_marker_push(const char *name) __attribute__((weak));
extern void opgap_marker_pop(void) __attribute__((weak));
#define OPGAP_MARKER(function, arguments)                                                                              \
  do {                                                                                                                 \
    if (function)                                                                                                      \
      function arguments;                                                                                              \
  } while (0)
#else
#define OPGAP_MARKER(function, arguments) ((void)0)
#endif

/* One step of the program's main loop ends here. */
static inline void opgap_step(void)
{
  OPGAP_MARKER(opgap_marker_step, ());
}

/* Begins a range on this thread.  name: any bytes, NUL-terminated. */
static inline void opgap_range_push(const char *name)
{
  (void)name;
  OPGAP_MARKER(opgap_marker_push, (name));
}

/* Ends the innermost range of this thread. */
static inline void opgap_range_pop(void)
{
  OPGAP_MARKER(opgap_marker_pop, ());
}

#undef OPGAP_MARKER

#ifdef __cplusplus
}
#endif

#endif
