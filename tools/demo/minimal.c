/* A small training without Python: a perceptron with one hidden layer learns to tell ten shapes apart.
 *
 * Like a real training it reads its data from files on disk, in a loader thread, through a bounded queue:
 *
 *   loader thread:  open, read, decode, augment  ->  queue of batches  ->  main thread: forward, backward, update
 *
 * opgap's markers name the two halves of the work and tell where a step ends; without the tracer they do nothing.
 *
 * Usage: minimal [FOLDER [EPOCHS]].  The files (PGM images) are written to FOLDER first if they are not there.
 */
#include <opgap/opgap.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDE = 128, SMALL = 16, INPUTS = SMALL * SMALL, HIDDEN = 96, CLASSES = 10, FILES = 1280, BATCH = 32, QUEUE = 4 };

static _Noreturn void die(const char *what)
{
  fprintf(stderr, "minimal: %s: %s\n", what, strerror(errno));
  exit(1);
}

/* A generator of its own state, so that the run is the same every time. */
static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static float uniform(uint32_t *state)
{
  return (float)next_random(state) / (float)(1 << 24) * 2 - 1;
}

/* ---- the data set ---- */

struct batch {
  float inputs[BATCH][INPUTS];
  int labels[BATCH];
};

/* Is the point (x, y), within -1..1, inside shape `label`? */
static int in_shape(int label, float x, float y)
{
  float r = sqrtf(x * x + y * y), ax = fabsf(x), ay = fabsf(y);
  switch (label) {
  case 0:
    return r < 0.7f;
  case 1:
    return r > 0.45f && r < 0.75f;
  case 2:
    return ax < 0.2f;
  case 3:
    return ay < 0.2f;
  case 4:
    return ax < 0.15f || ay < 0.15f;
  case 5:
    return fabsf(x - y) < 0.25f;
  case 6:
    return fabsf(x + y) < 0.25f;
  case 7:
    return ax < 0.6f && ay < 0.6f;
  case 8:
    return ax + ay < 0.7f;
  default:
    return x > 0 && y > 0;
  }
}

static void file_name(char *path, size_t size, const char *folder, int number)
{
  snprintf(path, size, "%s/%04d.pgm", folder, number);
}

static void write_image(const char *path, int label, uint32_t *random)
{
  static uint8_t pixels[SIDE][SIDE];
  float dx = uniform(random) * 0.15f, dy = uniform(random) * 0.15f;
  for (int i = 0; i < SIDE; i++) {
    for (int j = 0; j < SIDE; j++) {
      float x = (float)(j * 2) / SIDE - 1 + dx, y = (float)(i * 2) / SIDE - 1 + dy;
      pixels[i][j] = (uint8_t)((in_shape(label, x, y) ? 160 : 40) + (int)(next_random(random) % 64));
    }
  }
  FILE *file = fopen(path, "wb");
  if (file == NULL)
    die(path);
  fprintf(file, "P5\n%d %d\n255\n", SIDE, SIDE);
  if (fwrite(pixels, sizeof pixels, 1, file) != 1 || fclose(file) != 0)
    die(path);
}

static void write_images(const char *folder)
{
  char path[4096];
  struct stat info;
  uint32_t random = 1;
  if (mkdir(folder, 0777) != 0 && errno != EEXIST)
    die(folder);
  file_name(path, sizeof path, folder, FILES - 1);
  if (stat(path, &info) == 0)
    return;
  for (int i = 0; i < FILES; i++) {
    file_name(path, sizeof path, folder, i);
    write_image(path, i % CLASSES, &random);
  }
}

/* Reads an image, shifts it a little, and shrinks it to the network's input by averages. */
static void load_image(const char *path, float *input, uint32_t *random)
{
  uint8_t *pixels = malloc(SIDE * SIDE);
  int width, height, depth, cell = SIDE / SMALL;
  FILE *file = fopen(path, "rb");
  if (file == NULL || pixels == NULL)
    die(path);
  if (fscanf(file, "P5 %d %d %d", &width, &height, &depth) != 3 || width != SIDE || height != SIDE ||
      fgetc(file) == EOF || fread(pixels, SIDE * SIDE, 1, file) != 1)
    die(path);
  fclose(file);
  int shift_x = (int)(next_random(random) % 9) - 4, shift_y = (int)(next_random(random) % 9) - 4;
  for (int i = 0; i < INPUTS; i++) {
    unsigned sum = 0;
    for (int y = 0; y < cell; y++) {
      for (int x = 0; x < cell; x++) {
        int row = (i / SMALL * cell + y + shift_y + SIDE) % SIDE,
            column = (i % SMALL * cell + x + shift_x + SIDE) % SIDE;
        sum += pixels[row * SIDE + column];
      }
    }
    input[i] = (float)sum / (float)(cell * cell) / 128 - 1;
  }
  free(pixels);
}

/* ---- the loader ---- */

static struct {
  pthread_mutex_t lock;
  pthread_cond_t filled, freed;
  struct batch *batches[QUEUE];
  unsigned written, read;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};

static void put_batch(struct batch *batch)
{
  pthread_mutex_lock(&queue.lock);
  while (queue.written - queue.read == QUEUE)
    pthread_cond_wait(&queue.freed, &queue.lock);
  queue.batches[queue.written++ % QUEUE] = batch;
  pthread_cond_signal(&queue.filled);
  pthread_mutex_unlock(&queue.lock);
}

static struct batch *take_batch(void)
{
  pthread_mutex_lock(&queue.lock);
  while (queue.written == queue.read)
    pthread_cond_wait(&queue.filled, &queue.lock);
  struct batch *batch = queue.batches[queue.read++ % QUEUE];
  pthread_cond_signal(&queue.freed);
  pthread_mutex_unlock(&queue.lock);
  return batch;
}

struct loader {
  const char *folder;
  int epochs;
};

static void *load(void *argument)
{
  const struct loader *loader = argument;
  char path[4096];
  uint32_t random = 2;
  pthread_setname_np(pthread_self(), "loader");
  for (int n = 0; n < loader->epochs * FILES; n += BATCH) {
    struct batch *batch = malloc(sizeof *batch);
    if (batch == NULL)
      die("malloc");
    opgap_range_push("load batch");
    for (int i = 0; i < BATCH; i++) {
      int number = (n + i) * 7 % FILES; /* every file once an epoch: 7 and FILES share no factor */
      file_name(path, sizeof path, loader->folder, number);
      load_image(path, batch->inputs[i], &random);
      batch->labels[i] = number % CLASSES;
    }
    opgap_range_pop();
    put_batch(batch);
  }
  return NULL;
}

/* ---- the network ---- */

static float hidden_weights[HIDDEN][INPUTS + 1], output_weights[CLASSES][HIDDEN + 1]; /* last column: bias */

static void initialise(void)
{
  uint32_t random = 3;
  for (int i = 0; i < HIDDEN; i++)
    for (int j = 0; j < INPUTS; j++)
      hidden_weights[i][j] = uniform(&random) / sqrtf(INPUTS);
  for (int i = 0; i < CLASSES; i++)
    for (int j = 0; j < HIDDEN; j++)
      output_weights[i][j] = uniform(&random) / sqrtf(HIDDEN);
}

static float dot(const float *weights, const float *values, int count)
{
  float sum = weights[count];
  for (int i = 0; i < count; i++)
    sum += weights[i] * values[i];
  return sum;
}

static void update(float *weights, const float *values, int count, float step)
{
  for (int i = 0; i < count; i++)
    weights[i] += step * values[i];
  weights[count] += step;
}

/* One example forward, backward and update.  Adds to the loss; returns whether the answer was right. */
static int train(const float *input, int label, float rate, float *loss)
{
  float hidden[HIDDEN], output[CLASSES], gradient[HIDDEN] = {0}, highest = -1e30f, sum = 0;
  int answer = 0;
  for (int i = 0; i < HIDDEN; i++)
    hidden[i] = fmaxf(dot(hidden_weights[i], input, INPUTS), 0);
  for (int i = 0; i < CLASSES; i++) {
    output[i] = dot(output_weights[i], hidden, HIDDEN);
    if (output[i] > highest) {
      highest = output[i];
      answer = i;
    }
  }
  for (int i = 0; i < CLASSES; i++)
    sum += output[i] = expf(output[i] - highest);
  *loss -= logf(output[label] / sum + 1e-9f);
  for (int i = 0; i < CLASSES; i++) {
    float error = (i == label) - output[i] / sum;
    for (int j = 0; j < HIDDEN; j++)
      gradient[j] += error * output_weights[i][j];
    update(output_weights[i], hidden, HIDDEN, rate * error);
  }
  for (int i = 0; i < HIDDEN; i++)
    if (hidden[i] > 0)
      update(hidden_weights[i], input, INPUTS, rate * gradient[i]);
  return answer == label;
}

int main(int argc, char **argv)
{
  struct loader loader = {argc > 1 ? argv[1] : "shapes", argc > 2 ? atoi(argv[2]) : 40};
  pthread_t thread;
  write_images(loader.folder);
  initialise();
  if (pthread_create(&thread, NULL, load, &loader) != 0)
    die("pthread_create");
  for (int epoch = 0; epoch < loader.epochs; epoch++) {
    float loss = 0;
    int right = 0;
    for (int n = 0; n < FILES; n += BATCH) {
      struct batch *batch = take_batch();
      opgap_range_push("train on batch");
      for (int i = 0; i < BATCH; i++)
        right += train(batch->inputs[i], batch->labels[i], 0.01f, &loss);
      opgap_range_pop();
      free(batch);
      opgap_step();
    }
    if ((epoch + 1) % 10 == 0 || epoch + 1 == loader.epochs)
      printf("epoch %d: loss %.3f, accuracy %.3f\n", epoch + 1, (double)(loss / FILES), (double)right / FILES);
  }
  pthread_join(thread, NULL);
  return 0;
}
