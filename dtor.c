#include <pthread.h>
#include <time.h>
#include <stdlib.h>
static void *f(void*a){struct timespec t={0,2000000}; nanosleep(&t,0); return a;}
int main(int c,char**v){for(int i=0;i<atoi(v[1]);i++){pthread_t t;pthread_create(&t,0,f,0);pthread_join(t,0);}return 0;}
