#include "analysis/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPGAP_HAVE_LIBDW

#include <dwarf.h>
#include <inttypes.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <libiberty/demangle.h>
#include <sys/stat.h>
#include <unistd.h>

struct module {
  const char *path, *build_id;
  Dwfl *dwfl;
  Dwfl_Module *module; /* NULL: no usable file */
  Dwarf_Addr bias;     /* from addresses of the file to libdwfl's */
};

struct opgap_symbols {
  struct opgap_pool *pool;
  const char *folder; /* of the trace, absolute */
  char *debug_path;
  Dwfl_Callbacks callbacks;
  VEC(struct module) modules;
  unsigned changed;
};

static const char *folder_of(struct opgap_pool *pool, const char *trace)
{
  struct stat status;
  char *path = realpath(trace, NULL), *slash = path != NULL ? strrchr(path, '/') : NULL;
  if (slash != NULL && stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
    *slash = '\0';
  const char *folder = opgap_pool_string(pool, path != NULL ? path : "");
  free(path);
  return folder;
}

struct opgap_symbols *opgap_symbols_new(struct opgap_pool *pool, const char *trace)
{
  struct opgap_symbols *symbols = opgap_xcalloc(1, sizeof *symbols);
  symbols->pool = pool;
  symbols->folder = folder_of(pool, trace);
  /* beside the file, where .gnu_debuglink says, and by build-id below these folders */
  symbols->debug_path = strchr(symbols->folder, ':') == NULL
                            ? (char *)opgap_pool_printf(pool, ":.debug:%s:/usr/lib/debug", symbols->folder)
                            : NULL;
  symbols->callbacks = (Dwfl_Callbacks){.find_elf = dwfl_build_id_find_elf,
                                        .find_debuginfo = dwfl_standard_find_debuginfo,
                                        .section_address = dwfl_offline_section_address,
                                        .debuginfo_path = &symbols->debug_path};
  return symbols;
}

void opgap_symbols_free(struct opgap_symbols *symbols)
{
  for (size_t i = 0; i < symbols->modules.count; i++)
    if (symbols->modules.at[i].dwfl != NULL)
      dwfl_end(symbols->modules.at[i].dwfl);
  VEC_FREE(&symbols->modules);
  free(symbols);
}

unsigned opgap_symbols_changed(const struct opgap_symbols *symbols)
{
  return symbols->changed;
}

static bool same_build(Dwfl_Module *module, const char *build_id)
{
  const unsigned char *bits;
  GElf_Addr where;
  int length = dwfl_module_build_id(module, &bits, &where);
  if (build_id[0] == '\0' || length <= 0)
    return build_id[0] == '\0';
  if (strlen(build_id) != (size_t)length * 2)
    return false;
  for (int i = 0; i < length; i++) {
    char text[3];
    snprintf(text, sizeof text, "%02x", bits[i]);
    if (memcmp(text, build_id + 2 * (size_t)i, 2) != 0)
      return false;
  }
  return true;
}

/* Opens a file as a module; false: there is no such file, or it is another build. */
static bool open_file(const struct opgap_symbols *symbols, struct module *m, const char *path)
{
  GElf_Addr bias;
  m->dwfl = dwfl_begin(&symbols->callbacks);
  if (m->dwfl == NULL)
    return false;
  Dwfl_Module *module = dwfl_report_offline(m->dwfl, path, path, -1);
  dwfl_report_end(m->dwfl, NULL, NULL);
  if (module != NULL && same_build(module, m->build_id) && dwfl_module_getelf(module, &bias) != NULL) {
    m->module = module;
    m->bias = bias;
    return true;
  }
  dwfl_end(m->dwfl);
  m->dwfl = NULL;
  return false;
}

static void open_module(struct opgap_symbols *symbols, struct module *m)
{
  const char *id = m->build_id;
  if (open_file(symbols, m, m->path))
    return;
  if (strlen(id) > 2 &&
      open_file(symbols, m,
                opgap_pool_printf(symbols->pool, "%s/" OPGAP_ARCHIVE_FOLDER "/%.2s/%s", symbols->folder, id, id + 2)))
    return;
  symbols->changed += access(m->path, F_OK) == 0 && id[0] != '\0';
  if (strlen(id) > 2)
    open_file(symbols, m, opgap_pool_printf(symbols->pool, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2));
}

static struct module *module_of(struct opgap_symbols *symbols, const char *path, const char *build_id)
{
  for (size_t i = 0; i < symbols->modules.count; i++)
    if (strcmp(symbols->modules.at[i].path, path) == 0 && strcmp(symbols->modules.at[i].build_id, build_id) == 0)
      return &symbols->modules.at[i];
  struct module *m = VEC_PUSH(&symbols->modules);
  m->path = opgap_pool_string(symbols->pool, path);
  m->build_id = opgap_pool_string(symbols->pool, build_id);
  open_module(symbols, m);
  return m;
}

/* C++, Rust, D; other names are as they are. */
static const char *readable(struct opgap_pool *pool, const char *name)
{
  char *plain = cplus_demangle(name, DMGL_AUTO | DMGL_ANSI);
  const char *kept = opgap_pool_string(pool, plain ? plain : name);
  free(plain);
  return kept;
}

static const char *function_of(struct opgap_pool *pool, Dwarf_Die *die)
{
  Dwarf_Attribute attribute;
  const char *name = NULL;
  if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
      dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
    name = dwarf_formstring(&attribute);
  if (name == NULL)
    name = dwarf_diename(die);
  return name ? readable(pool, name) : NULL;
}

/* Where an inlined function was called. */
static void call_site(struct opgap_pool *pool, Dwarf_Die *unit, Dwarf_Die *inlined, struct opgap_symbol *caller)
{
  Dwarf_Attribute attribute;
  Dwarf_Word file = 0, line = 0;
  Dwarf_Files *files;
  caller->file = "";
  caller->line = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) == 0 &&
      dwarf_getsrcfiles(unit, &files, NULL) == 0) {
    const char *name = dwarf_filesrc(files, file, NULL, NULL);
    if (name != NULL)
      caller->file = opgap_pool_string(pool, name);
  }
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line) == 0)
    caller->line = (unsigned)line;
}

/* By DWARF; scopes of the code itself, which dwarf_getscopes leaves at the first inlined function. */
static unsigned find_scopes(struct opgap_symbols *symbols, Dwfl_Module *module, Dwarf_Addr address,
                            struct opgap_symbol *found, unsigned room)
{
  Dwarf_Addr bias;
  Dwarf_Die *unit = dwfl_module_addrdie(module, address, &bias), *scopes = NULL, *tree = NULL;
  unsigned count = 0;
  if (unit == NULL || dwarf_getscopes(unit, address - bias, &scopes) <= 0) {
    free(scopes);
    return 0;
  }
  int depth = dwarf_getscopes_die(&scopes[0], &tree);
  for (int i = 0; i < depth && count < room; i++) {
    int tag = dwarf_tag(&tree[i]);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
      continue;
    found[count].function = function_of(symbols->pool, &tree[i]);
    if (found[count].function == NULL)
      break;
    count++;
    if (tag == DW_TAG_subprogram)
      break;
    if (count < room)
      call_site(symbols->pool, unit, &tree[i], &found[count]);
  }
  free(scopes);
  free(tree);
  return count;
}

const char *opgap_symbols_data(struct opgap_symbols *symbols, const char *module, const char *build_id,
                               uint64_t address)
{
  struct module *m = module_of(symbols, module, build_id);
  Dwarf_Addr start, end, at = address + m->bias;
  GElf_Off offset;
  GElf_Sym symbol;
  const char *slash = strrchr(module, '/'), *file = slash ? slash + 1 : module;
  if (m->module == NULL || dwfl_module_info(m->module, NULL, &start, &end, NULL, NULL, NULL, NULL) == NULL ||
      at < start || at >= end)
    return NULL;
  const char *name = dwfl_module_addrinfo(m->module, at, &offset, &symbol, NULL, NULL, NULL);
  if (name == NULL || GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || offset >= symbol.st_size)
    return opgap_pool_printf(symbols->pool, "%s+0x%" PRIx64, file, address);
  name = readable(symbols->pool, name);
  return offset == 0 ? opgap_pool_printf(symbols->pool, "%s in %s", name, file)
                     : opgap_pool_printf(symbols->pool, "%s+%" PRIu64 " in %s", name, (uint64_t)offset, file);
}

bool opgap_symbols_files(struct opgap_symbols *symbols, const char *module, const char *build_id, const char **file,
                         const char **debug)
{
  struct module *m = module_of(symbols, module, build_id);
  const char *main = NULL, *apart = NULL;
  Dwarf_Addr bias;
  if (m->module == NULL)
    return false;
  dwfl_module_getdwarf(m->module, &bias); /* which looks for it */
  dwfl_module_info(m->module, NULL, NULL, NULL, NULL, NULL, &main, &apart);
  *file = main != NULL ? main : m->path;
  *debug = apart != NULL && strcmp(apart, *file) != 0 ? apart : "";
  return true;
}

/* As .cfi_signal_frame says of it. */
bool opgap_symbols_is_signal(struct opgap_symbols *symbols, const char *module, const char *build_id, uint64_t address)
{
  struct module *m = module_of(symbols, module, build_id);
  Dwarf_Addr bias;
  Dwarf_Frame *frame;
  bool is_signal = false;
  Dwarf_CFI *cfi = m->module != NULL ? dwfl_module_eh_cfi(m->module, &bias) : NULL;
  if (cfi == NULL || dwarf_cfi_addrframe(cfi, address + m->bias - bias, &frame) != 0)
    return false;
  dwarf_frame_info(frame, NULL, NULL, &is_signal);
  free(frame);
  return is_signal;
}

unsigned opgap_symbols_find(struct opgap_symbols *symbols, const char *module, const char *build_id, uint64_t address,
                            struct opgap_symbol *found, unsigned room)
{
  struct module *m = module_of(symbols, module, build_id);
  if (m->module == NULL || room == 0)
    return 0;
  Dwarf_Addr at = address + m->bias;
  found[0] = (struct opgap_symbol){.file = ""};
  Dwfl_Line *line = dwfl_module_getsrc(m->module, at);
  int number = 0;
  const char *file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
  unsigned count = find_scopes(symbols, m->module, at, found, room);
  if (count == 0) {
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name = dwfl_module_addrinfo(m->module, at, &offset, &symbol, NULL, NULL, NULL);
    if (name == NULL)
      return 0;
    found[0].function = readable(symbols->pool, name);
    count = 1;
  }
  if (file != NULL)
    found[0].file = opgap_pool_string(symbols->pool, file);
  found[0].line = file && number > 0 ? (unsigned)number : 0;
  return count;
}

#else

struct opgap_symbols {
  char unused;
};

struct opgap_symbols *opgap_symbols_new(struct opgap_pool *pool, const char *trace)
{
  (void)pool, (void)trace;
  return opgap_xcalloc(1, sizeof(struct opgap_symbols));
}

void opgap_symbols_free(struct opgap_symbols *symbols)
{
  free(symbols);
}

unsigned opgap_symbols_find(struct opgap_symbols *symbols, const char *module, const char *build_id, uint64_t address,
                            struct opgap_symbol *found, unsigned room)
{
  (void)symbols, (void)module, (void)build_id, (void)address, (void)found, (void)room;
  return 0;
}

const char *opgap_symbols_data(struct opgap_symbols *symbols, const char *module, const char *build_id,
                               uint64_t address)
{
  (void)symbols, (void)module, (void)build_id, (void)address;
  return NULL;
}

bool opgap_symbols_files(struct opgap_symbols *symbols, const char *module, const char *build_id, const char **file,
                         const char **debug)
{
  (void)symbols, (void)module, (void)build_id, (void)file, (void)debug;
  return false;
}

bool opgap_symbols_is_signal(struct opgap_symbols *symbols, const char *module, const char *build_id, uint64_t address)
{
  (void)symbols, (void)module, (void)build_id, (void)address;
  return false;
}

unsigned opgap_symbols_changed(const struct opgap_symbols *symbols)
{
  (void)symbols;
  return 0;
}

#endif
