/* See torch_api.h.  The mangled names are the whole of what is known about the library's symbols. */
#include "frameworks/torch_api.h"

struct wanted {
  const char *symbol;
  size_t member;       /* offset in struct opgap_torch_api */
  const char *missing; /* what to say without it; NULL: optional */
};

#define MEMBER(name) offsetof(struct opgap_torch_api, name)
static const struct wanted wanted_symbols[] = {
    {"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE", MEMBER(add_global_callback), "at::addGlobalCallback"},
    {"_ZN2at22addThreadLocalCallbackENS_22RecordFunctionCallbackE", MEMBER(add_thread_local_callback),
     "at::addThreadLocalCallback"},
    {"_ZN2at14removeCallbackEm", MEMBER(remove_callback), "at::removeCallback"},
    {"_ZNK2at14RecordFunction4nameEv", MEMBER(name), "at::RecordFunction::name"},
    {"_ZNK2at14RecordFunction7isAsyncEv", MEMBER(is_async), "at::RecordFunction::isAsync"},
    {"_ZN2at16getStepCallbacksENS_11RecordScopeE", MEMBER(step_callbacks), "at::getStepCallbacks"},
    {"_ZN2at14RecordFunctionC1ENS_11RecordScopeE", MEMBER(construct), "at::RecordFunction's constructor"},
    {"_ZN2at14RecordFunctionD1Ev", MEMBER(destruct), "at::RecordFunction's destructor"},
    {"_ZN2at14RecordFunction6beforeEPKcl", MEMBER(before_string), NULL},
    {"_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_wrapper"
     "IKN3c1014FunctionSchemaEEEEl",
     MEMBER(before_view), NULL},
};

const char *opgap_torch_api_load(const struct opgap_loaded *library, struct opgap_torch_api *api)
{
  *api = (struct opgap_torch_api){0};
  for (size_t i = 0; i < sizeof wanted_symbols / sizeof wanted_symbols[0]; i++) {
    const struct wanted *wanted = &wanted_symbols[i];
    void *address = opgap_loaded_symbol(library, wanted->symbol);
    if (address == NULL && wanted->missing != NULL)
      return wanted->missing;
    *(void **)((char *)api + wanted->member) = address;
  }
  return api->before_string || api->before_view ? NULL : "at::RecordFunction::before";
}
