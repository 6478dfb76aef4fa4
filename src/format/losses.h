/* Why records are lost, in words: one table for the report, the comparison of runs, and opgap info.  Offline. */
#ifndef OPGAP_FORMAT_LOSSES_H
#define OPGAP_FORMAT_LOSSES_H

#include "format/reader.h"

struct opgap_loss_words {
  const char *key;    /* "no_room", ...: of JSON */
  const char *what;   /* what of a number of records: "found no room in the rings" */
  const char *remedy; /* what prevents it */
};
const struct opgap_loss_words *opgap_loss_words(enum opgap_loss loss);
/* The same of a process: what is unwritten may be so because the size was reached that was set. */
const struct opgap_loss_words *opgap_loss_words_of(const struct opgap_process_info *process, enum opgap_loss loss);

#endif
