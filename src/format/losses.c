#include "format/losses.h"

static const struct opgap_loss_words words[OPGAP_LOSS_COUNT] = {
    [OPGAP_LOSS_NO_ROOM] = {"no_room", "found no room in the rings", "record with a larger --buffer"},
    [OPGAP_LOSS_INTERRUPT] = {"interrupt", "calls of signal handlers that interrupted the making of a record",
                              "do less in the handlers (set a flag, or signalfd); a larger --buffer does not help"},
    [OPGAP_LOSS_TOO_DEEP] = {"too_deep", "ops inside too many others",
                             "mark fewer ranges inside one another; a larger --buffer does not help"},
    [OPGAP_LOSS_UNWRITTEN] = {"unwritten", "not in the file when it could not be written any more",
                              "make room on the disk, or raise the limit of file sizes, ulimit -f"},
    [OPGAP_LOSS_GPU] = {"gpu", "GPU activities that CUPTI had no buffer for",
                        "start fewer kernels at a time, or leave CPUs free for the tracer; --buffer is of the rings "
                        "only"},
    [OPGAP_LOSS_UNKNOWN] = {"unknown", "lost for a reason that the trace does not tell",
                            "record it with this version of opgap, which tells"},
};

static const struct opgap_loss_words beyond_size = {"unwritten", "not in the file when it had the size that was set",
                                                    "record with a larger --max-size, or the end alone with --keep"};

const struct opgap_loss_words *opgap_loss_words(enum opgap_loss loss)
{
  return &words[loss];
}

const struct opgap_loss_words *opgap_loss_words_of(const struct opgap_process_info *process, enum opgap_loss loss)
{
  return loss == OPGAP_LOSS_UNWRITTEN && process->size_reached ? &beyond_size : opgap_loss_words(loss);
}
