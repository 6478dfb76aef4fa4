/* opgap markers: tell the tracer about steps and ranges of a C or C++ program.
 *
 *     opgap_range_push("load batch");
 *     ...
 *     opgap_range_pop();
 *     opgap_step();                    // one iteration of the training or serving loop is done
 *
 * Header only, no library to link with: the calls reach the tracer through weak symbols, and do nothing in a program
 * that runs without it (one load, one test).  Any thread; ranges nest per thread, and a pop without a push does
 * nothing.  Names are copied; equal names are one row of the report.  errno is kept.
 *
 * In a statically linked program, and with compilers other than gcc and clang, the markers do nothing.
 */
#ifndef OPGAP_OPGAP_H
#define OPGAP_OPGAP_H

#ifdef __cplusplus
extern "C" {
#endif

/* Provided by libopgap.so when it is preloaded.  Call the functions below instead. */
void opgap_marker_step(void);
void opgap_marker_push(const char *name);
void opgap_marker_pop(void);

/* OPGAP_MARKER_LOAD(pointer, symbol): the symbol's address, 0 when nobody defines it.  Read from the global offset
 * table by hand, because in a program that is not position-independent the linker would settle a weak symbol at 0. */
#if defined(__GNUC__) && defined(__x86_64__) && !defined(__ILP32__)
#define OPGAP_MARKER_LOAD(pointer, symbol)                                                                             \
  __asm__(".weak " #symbol "\n\tmovq " #symbol "@GOTPCREL(%%rip), %0" : "=r"(pointer))
#elif defined(__GNUC__) && defined(__aarch64__)
#define OPGAP_MARKER_LOAD(pointer, symbol)                                                                             \
  __asm__(".weak " #symbol "\n\tadrp %0, :got:" #symbol "\n\tldr %0, [%0, :got_lo12:" #symbol "]" : "=r"(pointer))
#else
#define OPGAP_MARKER_LOAD(pointer, symbol) ((pointer) = 0)
#endif

/* One step of the program's main loop ends here. */
static inline void opgap_step(void)
{
  void (*step)(void);
  OPGAP_MARKER_LOAD(step, opgap_marker_step);
  if (step)
    step();
}

/* Begins a range on this thread.  name: any bytes, NUL-terminated. */
static inline void opgap_range_push(const char *name)
{
  void (*push)(const char *);
  OPGAP_MARKER_LOAD(push, opgap_marker_push);
  if (push)
    push(name);
}

/* Ends the innermost range of this thread. */
static inline void opgap_range_pop(void)
{
  void (*pop)(void);
  OPGAP_MARKER_LOAD(pop, opgap_marker_pop);
  if (pop)
    pop();
}

#undef OPGAP_MARKER_LOAD

#ifdef __cplusplus
}
#endif

#endif
