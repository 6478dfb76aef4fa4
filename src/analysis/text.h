/* Names and figures as text for people; names of traced programs may hold any bytes.
 *
 * Threads: pure.  Ownership: the result is the caller's to free.
 */
#ifndef OPGAP_ANALYSIS_TEXT_H
#define OPGAP_ANALYSIS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes a figure into text[size] with its unit: 1.500us, 2.000ms, 1.50 MB. */
void text_time(char *text, size_t size, uint64_t ns);
void text_bytes(char *text, size_t size, uint64_t bytes);
/* Any bytes as printable UTF-8 (broken sequences, controls and other characters that show nothing of themselves as
 * \xNN), allocated. */
char *text_clean(const char *bytes);
/* The same in place; what has no room in text[size] is cut off. */
void text_clean_line(char *text, size_t size);
/* The program of a command (arguments joined by blanks): the file name of its first word. */
void text_program(char *text, size_t size, const char *command);
/* What a command runs: the file name of the script of an interpreter ("train.py"), "-m MODULE", "-c", else the
 * program's file name. */
void text_script(char *text, size_t size, const char *command);
/* A process that Python's multiprocessing began by spawn or forkserver: its command is the same for every program, but
 * for numbers of descriptors, which differ from run to run. */
bool text_is_spawned(const char *command);
/* Do two commands run the same?  Those of spawned processes tell nothing, so any two of them do; TEXT_SPAWNED behind
 * the parent's command stands for one whose parent is known. */
#define TEXT_SPAWNED " (spawned worker)"
bool text_same_command(const char *one, const char *other);

#endif
