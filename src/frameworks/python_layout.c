/* See python_layout.h. */
#include "frameworks/python_layout.h"

#include <string.h>

#include "frameworks/loaded.h"
#include "record/raw.h"

#define CHECKED_FRAMES 8u
#define MAX_INSTRUCTION_OFFSET (1u << 24)

/* Before 3.11 a frame is an object, each runs in a loop of its own, and code has no qualified name. */
static const struct opgap_python_layout python_3_9 = {
    .state_frame = 24,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instruction = 104,
    .index_unit = 1,
    .lines = OPGAP_PYTHON_LNOTAB,
    .code_first_line = 40,
    .code_file = 104,
    .code_qualified_name = 112,
    .code_line_table = 120,
    .string_ascii_data = 48,
    .string_data = 72,
    .owner_limit = 256,
};
static const struct opgap_python_layout python_3_10 = {
    .state_frame = 24,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instruction = 96,
    .index_unit = 2,
    .lines = OPGAP_PYTHON_LINETABLE,
    .code_first_line = 40,
    .code_file = 104,
    .code_qualified_name = 112,
    .code_line_table = 120,
    .string_ascii_data = 48,
    .string_data = 72,
    .owner_limit = 256,
};
static const struct opgap_python_layout python_3_11 = {
    .state_frame = 56,
    .has_c_frame = true,
    .c_frame_frame = 8,
    .frame_code = 32,
    .frame_previous = 48,
    .frame_instruction = 56,
    .frame_owner = 69,
    .frame_entry = 68,
    .code_file = 112,
    .code_qualified_name = 128,
    .code_first_line = 72,
    .code_line_table = 136,
    .code_instructions = 184,
    .string_ascii_data = 48,
    .string_data = 72,
    .owner_limit = 255,
};
static const struct opgap_python_layout python_3_12 = {
    .state_frame = 56,
    .has_c_frame = true,
    .c_frame_frame = 0,
    .frame_code = 0,
    .frame_previous = 8,
    .frame_instruction = 56,
    .frame_owner = 70,
    .code_file = 112,
    .code_qualified_name = 128,
    .code_first_line = 68,
    .code_line_table = 136,
    .code_instructions = 192,
    .string_ascii_data = 40,
    .string_data = 56,
    .owner_limit = 3,
};

/* _Py_DebugOffsets: a cookie, the version, a flag, then blocks of 64-bit words; each block begins with a size. */
static bool read_self_description(struct opgap_python_layout *layout, const uint64_t *words, unsigned minor,
                                  unsigned long version)
{
  if (memcmp(words, "xdebugpy", 8) != 0 || words[1] >> 16 != version >> 16 || words[2] != 0 /* without the GIL */)
    return false;
  const uint64_t *interpreter = words + 6, *state = interpreter + (minor == 13 ? 13 : 16);
  const uint64_t *frame = state + 9, *code = frame + (minor == 13 ? 6 : 8);
  if (state[0] > 4096 || frame[0] > 256 || code[0] > 512 || code[0] < 128)
    return false;
  layout->state_frame = (uint32_t)state[4];
  layout->frame_previous = (uint32_t)frame[1];
  layout->frame_code = (uint32_t)frame[2];
  layout->frame_instruction = (uint32_t)frame[3];
  layout->frame_owner = (uint32_t)frame[5];
  layout->code_file = (uint32_t)code[1];
  layout->code_qualified_name = (uint32_t)code[3];
  layout->code_line_table = (uint32_t)code[4];
  layout->code_first_line = (uint32_t)code[5];
  layout->code_instructions = (uint32_t)code[9];
  layout->string_ascii_data = 40;
  layout->string_data = 56;
  layout->owner_limit = 3;
  layout->code_tag = minor == 13 ? 0 : 3;
  return true;
}

/* Interpreters before 3.11 have no Py_Version, only a function that returns "3.10.1 (...". */
static unsigned older_minor(const struct opgap_loaded *python)
{
  const char *(*get_version)(void);
  unsigned minor = 0;
  *(void **)&get_version = opgap_loaded_symbol(python, "Py_GetVersion");
  const char *text = get_version ? get_version() : "";
  if (text[0] != '3' || text[1] != '.')
    return 0;
  for (text += 2; *text >= '0' && *text <= '9'; text++)
    minor = minor * 10 + (unsigned)(*text - '0');
  return minor < 11 ? minor : 0;
}

static bool choose(struct opgap_python_layout *layout, const struct opgap_loaded *python)
{
  const unsigned long *version = opgap_loaded_symbol(python, "Py_Version");
  const uint64_t *runtime = opgap_loaded_symbol(python, "_PyRuntime");
  unsigned minor = version ? *version >> 16 & 0xff : older_minor(python);
  if (runtime == NULL || (version != NULL && *version >> 24 != 3))
    return false;
  if (minor == 9)
    *layout = python_3_9;
  else if (minor == 10)
    *layout = python_3_10;
  else if (minor == 11)
    *layout = python_3_11;
  else if (minor == 12)
    *layout = python_3_12;
  else if ((minor != 13 && minor != 14) || !read_self_description(layout, runtime, minor, *version))
    return false;
  *(void **)&layout->thread_state = opgap_loaded_symbol(python, "PyGILState_GetThisThreadState");
  layout->code_type = opgap_loaded_symbol(python, "PyCode_Type");
  layout->string_type = opgap_loaded_symbol(python, "PyUnicode_Type");
  layout->bytes_type = opgap_loaded_symbol(python, "PyBytes_Type");
  return layout->thread_state && layout->code_type && layout->string_type && layout->bytes_type;
}

/* ---- the check: loads that fail instead of crashing ---- */

static bool load(int memory, uintptr_t address, void *value, size_t size)
{
  return opgap_raw6(SYS_pread64, memory, (long)value, (long)size, (long)address, 0, 0) == (long)size;
}
static bool load_pointer(int memory, uintptr_t address, uintptr_t *pointer)
{
  return load(memory, address, pointer, sizeof *pointer);
}
static bool member_has_type(int memory, uintptr_t object, uint32_t member, const void *type)
{
  uintptr_t value, found;
  return load_pointer(memory, object + member, &value) && load_pointer(memory, value + OPGAP_PY_TYPE, &found) &&
         found == (uintptr_t)type;
}

static bool check_code(const struct opgap_python_layout *layout, int memory, uintptr_t code)
{
  uintptr_t type;
  int32_t first_line;
  return load_pointer(memory, code + OPGAP_PY_TYPE, &type) && type == (uintptr_t)layout->code_type &&
         member_has_type(memory, code, layout->code_file, layout->string_type) &&
         member_has_type(memory, code, layout->code_qualified_name, layout->string_type) &&
         member_has_type(memory, code, layout->code_line_table, layout->bytes_type) &&
         load(memory, code + layout->code_first_line, &first_line, sizeof first_line) && first_line >= 0;
}

static bool check_instruction(const struct opgap_python_layout *layout, int memory, uintptr_t frame, uintptr_t code)
{
  uintptr_t instruction;
  int32_t index;
  if (layout->index_unit != 0)
    return load(memory, frame + layout->frame_instruction, &index, sizeof index) && index >= -1 &&
           (uint32_t)(index + 1) < MAX_INSTRUCTION_OFFSET; /* -1: not begun */
  return load_pointer(memory, frame + layout->frame_instruction, &instruction) &&
         instruction - (code + layout->code_instructions) + 2 < MAX_INSTRUCTION_OFFSET; /* -2: not begun */
}

/* Number of frames that look as they should; -1: one does not. */
static int check_frames(const struct opgap_python_layout *layout, int memory, uintptr_t frame)
{
  int good = 0;
  for (unsigned i = 0; frame != 0 && i < CHECKED_FRAMES; i++) {
    uint8_t owner;
    uintptr_t code;
    if (!load(memory, frame + layout->frame_owner, &owner, 1) ||
        !load_pointer(memory, frame + layout->frame_code, &code))
      return -1;
    code &= ~layout->code_tag;
    if (owner < layout->owner_limit) {
      if (!check_code(layout, memory, code) || !check_instruction(layout, memory, frame, code))
        return -1;
      good++;
    }
    if (!load_pointer(memory, frame + layout->frame_previous, &frame))
      return -1;
  }
  return good;
}

static int check_layout(const struct opgap_python_layout *layout, const void *state)
{
  uintptr_t frame;
  int memory = (int)opgap_raw_open("/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
  if (memory < 0)
    return -1;
  bool loaded = load_pointer(memory, (uintptr_t)state + layout->state_frame, &frame);
  if (loaded && layout->has_c_frame)
    loaded = load_pointer(memory, frame + layout->c_frame_frame, &frame);
  int good = loaded ? check_frames(layout, memory, frame) : -1;
  opgap_raw_close(memory);
  return good;
}

const char *opgap_python_layout_find(struct opgap_python_layout *layout, bool *again)
{
  struct opgap_loaded python;
  *again = false;
  if (!opgap_loaded_with("PyGILState_GetThisThreadState", &python))
    return "";
  if (!choose(layout, &python))
    return "its version is not known";
  const void *state = layout->thread_state();
  int good = state ? check_layout(layout, state) : 0;
  if (good < 0)
    return "its frames are not as expected";
  *again = good == 0;
  return good == 0 ? "" : NULL;
}
