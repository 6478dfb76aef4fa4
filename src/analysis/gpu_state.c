#include "analysis/gpu_state.h"

/* NVML's clocks event reasons (nvml.h); idle and clocks set by the user are no brakes. */
static const struct {
  uint64_t reason;
  const char *name;
} brakes[OPGAP_BRAKE_COUNT] = {
    [OPGAP_BRAKE_POWER_CAP] = {0x4, "power cap"},
    [OPGAP_BRAKE_HW_SLOWDOWN] = {0x8, "hardware slowdown"},
    [OPGAP_BRAKE_SYNC_BOOST] = {0x10, "sync boost"},
    [OPGAP_BRAKE_SW_THERMAL] = {0x20, "temperature (by the driver)"},
    [OPGAP_BRAKE_HW_THERMAL] = {0x40, "temperature (by the hardware)"},
    [OPGAP_BRAKE_POWER_BRAKE] = {0x80, "external power brake"},
    [OPGAP_BRAKE_BOARD_LIMIT] = {0x200, "board limit"},
    [OPGAP_BRAKE_RELIABILITY] = {0x400, "reliability"},
};

const char *opgap_gpu_brake_name(enum opgap_gpu_brake brake)
{
  return brakes[brake].name;
}

static uint64_t larger(uint64_t left, uint64_t right)
{
  return left > right ? left : right;
}

static bool keep_largest(uint64_t *largest, uint64_t value)
{
  if (value == OPGAP_GPU_UNKNOWN)
    return false;
  *largest = larger(*largest, value);
  return true;
}

static void add_brakes(struct gpu_state_sum *sum, uint64_t reasons)
{
  bool any = false;
  if (reasons == OPGAP_GPU_UNKNOWN)
    return;
  sum->knows_brakes = true;
  for (int b = 0; b < OPGAP_BRAKE_COUNT; b++) {
    bool on = (reasons & brakes[b].reason) != 0;
    sum->brakes[b] += on;
    any = any || on;
  }
  sum->braked += any;
}

void gpu_state_add(struct gpu_state_sum *sum, const struct opgap_record *r)
{
  const uint64_t averaged[3] = {r->field[0], r->field[2], r->field[3]};
  sum->samples++;
  for (int i = 0; i < 3; i++)
    if (averaged[i] != OPGAP_GPU_UNKNOWN) {
      sum->sum[i] += averaged[i];
      sum->count[i]++;
    }
  keep_largest(&sum->sm_mhz_most, r->field[1]);
  keep_largest(&sum->milliwatts_most, r->field[4]);
  sum->knows_celsius = keep_largest(&sum->celsius, r->field[5]) || sum->knows_celsius;
  add_brakes(sum, r->field[6]);
  sum->knows_used = keep_largest(&sum->used_bytes, r->field[7]) || sum->knows_used;
  keep_largest(&sum->total_bytes, r->field[8]);
}

static uint64_t mean(const struct gpu_state_sum *sum, int i)
{
  return sum->count[i] ? sum->sum[i] / sum->count[i] : OPGAP_UNKNOWN;
}

static uint64_t known(uint64_t value)
{
  return value ? value : OPGAP_UNKNOWN;
}

struct opgap_sum_gpu_state gpu_state_of(const struct gpu_state_sum *sum)
{
  struct opgap_sum_gpu_state state = {.samples = sum->samples,
                                      .sm_mhz = mean(sum, 0),
                                      .sm_mhz_most = known(sum->sm_mhz_most),
                                      .memory_mhz = mean(sum, 1),
                                      .milliwatts = mean(sum, 2),
                                      .milliwatts_most = known(sum->milliwatts_most),
                                      .celsius = sum->knows_celsius ? sum->celsius : OPGAP_UNKNOWN,
                                      .used_bytes = sum->knows_used ? sum->used_bytes : OPGAP_UNKNOWN,
                                      .total_bytes = known(sum->total_bytes),
                                      .braked = sum->knows_brakes ? sum->braked : OPGAP_UNKNOWN,
                                      .driver = ""};
  for (int b = 0; b < OPGAP_BRAKE_COUNT; b++)
    state.brakes[b] = sum->knows_brakes ? sum->brakes[b] : OPGAP_UNKNOWN;
  return state;
}

void gpu_use_add(struct gpu_state_sum *sum, const struct opgap_record *r)
{
  if (r->field[1] == OPGAP_GPU_UNKNOWN)
    return;
  sum->use_samples++;
  sum->use_percent += r->field[1];
}

double gpu_use_of(const struct gpu_state_sum *sum)
{
  return sum->use_samples ? (double)sum->use_percent / (double)sum->use_samples / 100 : -1;
}
