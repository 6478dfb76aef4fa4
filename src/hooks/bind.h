/* Symbol binding: see bind.c.  Any context; never allocates; opgap_bind_slot (hooks.h) keeps errno. */
#ifndef OPGAP_HOOKS_BIND_H
#define OPGAP_HOOKS_BIND_H

#include "hooks/hooks.h"

/* Binds all real functions once.  False: this library is not relocated yet, or they are being bound: by another thread,
 * or by what this call interrupts. */
bool opgap_bind_all(void) OPGAP_HIDDEN;
/* A function of any loaded object but this library, which then stays loaded; NULL if there is none.  Takes the loader's
 * lock. */
void *opgap_find_symbol(const char *name) OPGAP_HIDDEN;
/* A version of a function that is kept for old programs: what the next object after this library defines, kept in
 * *slot; NULL if there is none.  May take the loader's lock once.  Keeps errno. */
void *opgap_find_version(void *_Atomic *slot, const char *name, const char *version) OPGAP_HIDDEN;
/* The slot of a hook's name, or -1. */
int opgap_slot_of(const char *name) OPGAP_HIDDEN;
/* A dlsym handle that searches the global scope, where our hooks stand first. */
bool opgap_is_global_handle(const void *handle) OPGAP_HIDDEN;
/* A dlsym handle that searches libc alone. */
void *opgap_libc_handle(void) OPGAP_HIDDEN;
/* A dlsym handle that searches this library first. */
void *opgap_own_handle(void) OPGAP_HIDDEN;
/* This library's file, as the loader knows it. */
const char *opgap_own_path(void) OPGAP_HIDDEN;

#endif
