/* Where code and data stand that every process runs and writes when it starts and ends, also one that records nothing.
 *
 * A page that is touched for the first time costs a page fault, about 1 us, and the whole start of /bin/true has 52 of
 * them.  So the constructor's and the exit handler's functions stand together (the kernel maps 16 pages of code at a
 * time), and so do the variables that they write, on the page that the loader has to write anyway: hooks/early.ld puts
 * them there.  opgap_active has a page of its own (control.c).  tests/bench/start.py counts faults.
 */
#ifndef OPGAP_RECORD_EARLY_H
#define OPGAP_RECORD_EARLY_H

#define OPGAP_EARLY_CODE __attribute__((section(".text.startup.opgap")))
#define OPGAP_EARLY_DATA __attribute__((section(".data.opgap_early")))

/* Only read there. */
#define OPGAP_READ_EARLY __attribute__((section(".data.opgap_read_early")))

#endif
