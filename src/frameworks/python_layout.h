/* Layout of CPython's frames and code objects.
 *
 * 3.9 to 3.12: a table for each.  From 3.13 on the interpreter describes itself (_Py_DebugOffsets at the start of
 * _PyRuntime).  Other versions, and builds without the GIL, are refused.  Whatever the source, the layout is tried on
 * the calling thread's frames, through /proc/self/mem, which cannot crash, before a plain load uses it.
 */
#ifndef OPGAP_FRAMEWORKS_PYTHON_LAYOUT_H
#define OPGAP_FRAMEWORKS_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum opgap_python_lines {
  OPGAP_PYTHON_LOCATIONS, /* 3.11 and later: entries of several bytes */
  OPGAP_PYTHON_LINETABLE, /* 3.10: pairs of the length of a range and how many lines it is on */
  OPGAP_PYTHON_LNOTAB,    /* 3.9: pairs of how far and how many lines on the next range begins */
};

struct opgap_python_layout {
  const void *(*thread_state)(void); /* PyGILState_GetThisThreadState */
  const void *code_type;             /* &PyCode_Type: what a code object's type pointer must be */
  const void *string_type, *bytes_type;
  uint32_t state_frame; /* thread state -> where the frame pointer is, or the C frame */
  bool has_c_frame;     /* 3.11 and 3.12: one more step */
  uint32_t c_frame_frame;
  uint32_t frame_code, frame_previous, frame_instruction, frame_owner;
  uint32_t frame_entry; /* 3.11: whether the frame began a run of the interpreter's loop; 0: the loop has frames of its
                           own */
  uint32_t code_file, code_qualified_name, code_first_line, code_line_table, code_instructions;
  uint32_t string_ascii_data, string_data;
  uint32_t owner_limit; /* frames with an owner of at least this are the interpreter's own */
  uint32_t index_unit; /* 3.9, 3.10: frame_instruction is an int, an index into the code in units of so many bytes; 0: a
                          pointer */
  enum opgap_python_lines lines;
  uintptr_t code_tag; /* low bits of a code pointer that are not part of it */
};

/* Fixed by every CPython 3.9 to 3.14, 64 bit: PyObject, PyVarObject, PyBytesObject, PyASCIIObject. */
#define OPGAP_PY_TYPE 8
#define OPGAP_PY_LENGTH 16
#define OPGAP_PY_BYTES_DATA 32
#define OPGAP_PY_STRING_STATE 32

/* Fills the layout for the interpreter of this process and checks it on the calling thread's frames.  Returns NULL, or
 * why there is none; "" when the process has no Python, or the thread has no frame yet (*again is true). */
const char *opgap_python_layout_find(struct opgap_python_layout *layout, bool *again);

#endif
