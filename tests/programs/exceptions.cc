// C++ on top of the hooks: exceptions through callbacks of libc, out of new, out of threads; destructors during
// cancellation; thread-local objects whose destructors allocate and write.  Prints what it did.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

static int null = open("/dev/null", O_WRONLY);
static int destroyed;
static std::mutex mutex;

struct Guard {
  ~Guard()
  {
    std::vector<char> bytes(1000);
    std::lock_guard<std::mutex> lock(mutex);
    destroyed += pwrite(null, bytes.data(), 1, 0) == 1;
  }
};

struct ThreadLocal {
  std::vector<int> numbers{1, 2, 3};
  ~ThreadLocal()
  {
    Guard guard;
    numbers.resize(100000);
  }
};
static thread_local ThreadLocal local;

static int compare(const void *, const void *)
{
  Guard guard;
  throw std::runtime_error("compare");
}

static int out_of_libc()
{
  int numbers[] = {2, 1};
  try {
    qsort(numbers, 2, sizeof *numbers, compare);
  } catch (const std::runtime_error &) {
    return 1;
  }
  return 0;
}

static int out_of_new()
{
  volatile size_t size = static_cast<size_t>(-1) / 2;
  try {
    char *volatile block = new char[size]; // volatile: else the pair may be left out
    delete[] block;
  } catch (const std::bad_alloc &) {
    return 1;
  }
  return 0;
}

static int out_of_threads()
{
  int caught = 0;
  for (int i = 0; i < 50; i++) {
    std::future<int> result = std::async(std::launch::async, [i]() -> int {
      Guard guard;
      local.numbers.push_back(i);
      if (i % 2)
        throw i;
      return i;
    });
    try {
      result.get();
    } catch (int) {
      caught++;
    }
  }
  return caught;
}

static void *blocks(void *fd)
{
  Guard guard;
  local.numbers.push_back(1);
  char byte;
  try {
    return reinterpret_cast<void *>(read(*static_cast<int *>(fd), &byte, 1));
  } catch (...) { // the cancellation itself
    destroyed += 1000;
    throw;
  }
}

static int cancelled()
{
  int ends[2], count = 0;
  if (pipe(ends) != 0)
    return -1;
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    void *result = nullptr;
    if (pthread_create(&thread, nullptr, blocks, &ends[0]) != 0)
      return -1;
    usleep(1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    count += result == PTHREAD_CANCELED;
  }
  return count;
}

int main()
{
  int results[] = {out_of_libc(), out_of_new(), out_of_threads(), cancelled()};
  std::printf("%d %d %d %d\n", results[0], results[1], results[2], results[3]);
  std::printf("%d\n", destroyed % 1000 >= 100);
  return 0;
}
