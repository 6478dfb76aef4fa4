/* A program with NVTX ranges of every sort.  With the toolkit's headers it uses the real NVTX 3 header library; without
 * them a small module of its own that initialises itself as that one does (nvtx3/nvtxDetail/nvtxInit.h). */
#include "nvtx_module.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static nvtxRangeId_t crossing;

static void *end_elsewhere(void *unused)
{
  nvtxRangeEnd(crossing);
  return unused;
}

int main(void)
{
  nvtxDomainHandle_t domain = nvtxDomainCreateA("loader");
  nvtxStringHandle_t registered = nvtxDomainRegisterStringA(domain, "fetch");
  nvtxEventAttributes_t attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  int levels[4];
  levels[0] = nvtxRangePushA("outer");
  levels[1] = nvtxRangePushW(L"in\u00e9r \U0001f600");
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = registered;
  levels[2] = nvtxDomainRangePushEx(domain, &attributes);
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "plain";
  levels[3] = nvtxDomainRangePushEx(domain, &attributes);
  printf("levels %d %d %d %d\n", levels[0], levels[1], levels[2], levels[3]);
  printf("pops %d", nvtxDomainRangePop(domain));
  printf(" %d", nvtxDomainRangePop(domain));
  printf(" %d", nvtxRangePop());
  printf(" %d", nvtxRangePop());
  printf(" %d\n", nvtxRangePop());
  nvtxNameCategoryA(7, "batches");
  memset(&attributes.message, 0, sizeof attributes.message);
  attributes.messageType = NVTX_MESSAGE_UNKNOWN;
  attributes.category = 7;
  nvtxRangePushEx(&attributes);
  nvtxMarkA("here");
  nvtxRangePop();
  nvtxRangeId_t first = nvtxRangeStartA("first"), second = nvtxRangeStartA("second");
  nvtxRangeEnd(first); /* they overlap */
  nvtxRangeEnd(second);
  nvtxRangeEnd(second); /* ended already */
  crossing = nvtxRangeStartA("crossing");
  pthread_t thread;
  pthread_create(&thread, NULL, end_elsewhere, NULL);
  pthread_join(thread, NULL);
  for (int i = 0; i < 1000; i++) {
    nvtxRangePushA("loop");
    nvtxRangePop();
  }
  return 0;
}
