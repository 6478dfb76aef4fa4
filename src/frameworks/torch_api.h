/* The part of PyTorch's C++ interface that the tracer uses, declared for C.
 *
 * Purpose   at::RecordFunction (ATen/record_function.h) tells observers when an operator or user range begins and
 *           ends.  The functions are exported from libtorch_cpu.so; their names are mangled C++ names and their
 *           arguments follow the Itanium C++ ABI, which for these types can be spoken from C.
 * Versions  Struct and symbols as below from torch 1.12 on.  Nobody promises this layout: torch_check.c proves it on
 *           the library at hand before it is used.
 * Machines  x86-64.  On aarch64 the hidden result pointer of the start callback travels in a register that C does not
 *           name; the self-check then fails in its probe process and ops are off.
 * Threads   constant after opgap_torch_api_load.
 */
#ifndef OPGAP_FRAMEWORKS_TORCH_API_H
#define OPGAP_FRAMEWORKS_TORCH_API_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frameworks/loaded.h"

/* at::RecordScope */
enum opgap_torch_scope {
  OPGAP_SCOPE_FUNCTION = 0,
  OPGAP_SCOPE_BACKWARD = 1,
  OPGAP_SCOPE_TORCHSCRIPT = 2,
  OPGAP_SCOPE_USER = 7,
  OPGAP_SCOPE_COUNT = 10,
};

/* at::RecordFunction, seen through name() and the sequence number only. */
typedef const void opgap_torch_function;

/* at::ObserverContext: a polymorphic object that the start callback hands to torch and torch deletes after the end
 * callback.  Only its vtable pointer is known to torch. */
struct opgap_torch_context {
  const void *vtable; /* of struct opgap_torch_vtable: the address of its `destroy` */
};
struct opgap_torch_vtable {
  const void *offset_to_top, *type_info;
  void (*destroy)(void *context);          /* complete object destructor */
  void (*destroy_and_free)(void *context); /* deleting destructor: what `delete` calls */
};

/* std::unique_ptr<ObserverContext> is returned in memory that the caller names in a hidden first argument; the address
 * of that memory is the function's result. */
typedef void **opgap_torch_start(void **context, opgap_torch_function *function);
typedef void opgap_torch_end(opgap_torch_function *function, void *context);

/* at::RecordFunctionCallback: trivially copyable and larger than 16 bytes, so passed by value in memory, as C does it.
 * The padding covers fields that a newer torch may add at the end; they read as zero. */
struct opgap_torch_callback {
  opgap_torch_start *start;
  opgap_torch_end *end;
  double sampling_probability;
  uint8_t scopes[OPGAP_SCOPE_COUNT];
  uint8_t needs_inputs, needs_outputs, needs_ids;
  uint8_t padding[91];
};
static_assert(offsetof(struct opgap_torch_callback, scopes) == 24, "at::RecordFunctionCallback");
static_assert(offsetof(struct opgap_torch_callback, needs_inputs) == 34, "at::RecordFunctionCallback");
static_assert(sizeof(struct opgap_torch_callback) == 128, "at::RecordFunctionCallback");

/* std::variant<std::string_view, std::reference_wrapper<...>> holding the view; passed by value in memory. */
struct opgap_torch_descriptor {
  size_t length;
  const char *bytes;
  uint64_t alternative; /* 0: the view */
};

struct opgap_torch_api {
  uint64_t (*add_global_callback)(struct opgap_torch_callback);
  uint64_t (*add_thread_local_callback)(struct opgap_torch_callback);
  void (*remove_callback)(uint64_t handle);
  const char *(*name)(opgap_torch_function *);
  uint8_t (*is_async)(opgap_torch_function *);
  /* for the self-check only */
  void *step_callbacks; /* at::getStepCallbacks: its presence tells torch >= 1.12 */
  void (*construct)(void *function, uint8_t scope);
  void (*destruct)(void *function);
  void (*before_string)(void *function, const char *name, int64_t sequence); /* up to 2.0; may be NULL */
  void (*before_view)(void *function, struct opgap_torch_descriptor name, int64_t sequence); /* later; may be NULL */
};

/* Looks the functions up.  Returns NULL, or what is missing. */
const char *opgap_torch_api_load(const struct opgap_loaded *library, struct opgap_torch_api *api);

#endif
