/* A program that uses device nodes and sysfs the way any program would: only libc, no header of
 * ours. One sub-command per scenario; prints what it saw. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  SWAP = 0x4e08,
  BULK_INVERT = 0x4e09,
  BLOCK = 0x4e0e,
  WAKE = 0x4e0f,
  FAIL = 0x4e10,
  SPEND = 0x4e11,
  POKE = 0x4e12,
  WHO = 0x4e13,
  ATTACHED = 0x4e14,
};
#define PLAIN 0x100000
#define WINDOW 0x200000
#define READ_ONLY 0x300000
#define MAP_LEN 0x2000

static int64_t now_ns(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static int device(int flags) {
  int fd = open("/dev/neuron0", flags);
  if (fd < 0) {
    printf("open failed: %s\n", strerror(errno));
    exit(2);
  }
  return fd;
}

static int cmd_ioctl(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  uint64_t words[2] = {11, 22};
  errno = 77;
  int failed = ioctl(fd, SWAP, words);
  printf("swap %d -> %llu %llu errno %d\n", failed, (unsigned long long)words[0],
         (unsigned long long)words[1], errno);
  failed = ioctl(fd, FAIL, 0);
  printf("fail %d %s\n", failed, strerror(errno));
  failed = ioctl(fd, SWAP, (void*)8);
  printf("bad address %d %s\n", failed, strerror(errno));
  failed = ioctl(fd, 0x4eff, 0);
  printf("unknown %d %s\n", failed, strerror(errno));
  size_t size = 5 * 1024 * 1024 + 3;
  unsigned char* bytes = malloc(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = (unsigned char)(i * 7);
  uint64_t range[2] = {(uint64_t)(uintptr_t)bytes, size};
  failed = ioctl(fd, BULK_INVERT, range);
  size_t wrong = 0;
  for (size_t i = 0; i < size; ++i) wrong += bytes[i] != (unsigned char)~(i * 7);
  printf("bulk %d wrong %zu\n", failed, wrong);
  printf("who %d\n", ioctl(fd, WHO, 0) == getpid());
  char byte;
  failed = (int)read(fd, &byte, 1);
  printf("read %d %s\n", failed, strerror(errno));
  printf("close %d\n", close(fd));
  failed = ioctl(fd, SWAP, words);
  printf("closed %d %s\n", failed, strerror(errno));
  failed = open("/dev/neuron7", O_RDWR);
  printf("absent %d %s\n", failed, strerror(errno));
  return 0;
}

static int cmd_list(void) {
  struct stat st;
  int result = stat("/dev/neuron3", &st);
  printf("stat %d char %d mode %o minor %u major>0 %d\n", result, S_ISCHR(st.st_mode) != 0,
         st.st_mode & 0777, minor(st.st_rdev), major(st.st_rdev) > 0);
  int fd = device(O_WRONLY);
  fstat(fd, &st);
  printf("fstat char %d\n", S_ISCHR(st.st_mode) != 0);
  printf("access %d %d\n", access("/dev/neuron0", R_OK | W_OK), access("/dev/neuron1", F_OK));
  DIR* dir = opendir("/dev");
  int null_seen = 0;
  for (struct dirent* entry; (entry = readdir(dir)) != NULL;) {
    if (strcmp(entry->d_name, "null") == 0) null_seen = 1;
    if (strncmp(entry->d_name, "neuron", 6) == 0) printf("entry %s\n", entry->d_name);
  }
  closedir(dir);
  printf("null %d\n", null_seen);
  glob_t found;
  if (glob("/dev/neuron*", 0, NULL, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) printf("glob %s\n", found.gl_pathv[i]);
    globfree(&found);
  }
  struct dirent** names;
  int count = scandir("/sys/class/neuron_device", &names, NULL, alphasort);
  for (int i = 0; i < count; ++i) {
    if (names[i]->d_name[0] != '.') printf("class %s\n", names[i]->d_name);
  }
  char resolved[4096] = "";
  printf("realpath %s\n", realpath("/sys/class/neuron_device/neuron0", resolved));
  return 0;
}

static int attached(int fd) {
  return ioctl(fd, ATTACHED, 0) == 0;
}

static int cmd_fork(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  int copy = dup(fd);
  printf("parent %d copy %d\n", attached(fd), attached(copy));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    int inherited = attached(fd);
    int code = errno;
    int own = device(O_RDWR);
    printf("child inherited %d %s own %d\n", inherited, strerror(code), attached(own));
    fflush(stdout);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("still %d\n", attached(fd));
  /* Attach counts opens, flush counts closes: closing the copy ends the attachment. */
  close(copy);
  printf("after copy closed %d\n", attached(fd));
  return 0;
}

static int cmd_inherit(char* self) {
  int fd = device(O_RDWR);
  int moved = dup2(fd, 100);
  close(fd);
  char number[16];
  snprintf(number, sizeof number, "%d", moved);
  execl(self, self, "inherited", number, (char*)NULL);
  return 1;
}

static int cmd_inherited(const char* number) {
  int fd = atoi(number);
  uint64_t words[2] = {1, 2};
  int result = ioctl(fd, SWAP, words);
  printf("swap %d -> %llu %llu\n", result, (unsigned long long)words[0],
         (unsigned long long)words[1]);
  return 0;
}

static int cmd_map(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  uint32_t* plain = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PLAIN);
  uint32_t* again = mmap(NULL, MAP_LEN, PROT_READ, MAP_SHARED, fd, PLAIN);
  if (plain == MAP_FAILED || again == MAP_FAILED) return 1;
  plain[3] = 0x1234;
  printf("shared %x\n", again[3]);
  void* none = mmap(NULL, MAP_LEN, PROT_READ, MAP_SHARED, fd, 0x1000);
  printf("no such offset %s\n", none == MAP_FAILED ? strerror(errno) : "mapped");
  int control = device(O_WRONLY);
  none = mmap(NULL, MAP_LEN, PROT_READ, MAP_SHARED, control, PLAIN);
  printf("write-only %s\n", none == MAP_FAILED ? strerror(errno) : "mapped");
  int reader = device(O_RDONLY);
  none = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, reader, PLAIN);
  printf("read-only fd %s\n", none == MAP_FAILED ? strerror(errno) : "mapped");
  /* Not the owner: the mapping succeeds, read-only, and cannot be made writable. */
  void* guarded = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, READ_ONLY);
  printf("guarded %d mprotect %d\n", guarded != MAP_FAILED,
         mprotect(guarded, MAP_LEN, PROT_READ | PROT_WRITE));
  pid_t child = fork();
  if (child == 0) {
    volatile uint32_t* gone = plain;
    _exit((int)gone[3]); /* not inherited: faults */
  }
  int status;
  waitpid(child, &status, 0);
  printf("child killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  printf("munmap %d %d\n", munmap(plain, MAP_LEN), munmap(again, MAP_LEN));
  return 0;
}

static sigjmp_buf escape;
static void on_segv(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  siglongjmp(escape, info->si_addr == NULL ? 1 : 2);
}

static int cmd_mmio(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  struct sigaction mine = {0}, old = {0};
  mine.sa_sigaction = on_segv;
  mine.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &mine, NULL);
  volatile uint32_t* window = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, WINDOW);
  if (window == MAP_FAILED) return 1;
  window[0] = 0xabcd0001;
  uint32_t value = (uint32_t)getpid();
  window[value % 2 + 1] = 0x55aa; /* from a register, computed address */
  __asm__ volatile("movnti %0, %1" : : "r"(0x77u), "m"(window[8]) : "memory");
  register uint32_t high __asm__("r13") = 0x99u;
  __asm__ volatile("mov %0, %1" : : "r"(high), "m"(window[9]) : "memory");
  uint32_t before = atomic_exchange((_Atomic uint32_t*)&window[8], 0x78u);
  float real = 1.0f;
  __asm__ volatile("movss %0, %1" : : "x"(real), "m"(window[10]) : "memory");
  printf("loads %x %x %x %x exchanged %x float %x\n", window[0], window[value % 2 + 1], window[8],
         window[9], before, window[10]);
  sigaction(SIGSEGV, NULL, &old);
  printf("handler kept %d\n", old.sa_sigaction == on_segv);
  int how = sigsetjmp(escape, 1);
  if (how == 0) {
    *(volatile int*)NULL = 1;
  }
  printf("null store caught %d\n", how);
  how = sigsetjmp(escape, 1);
  if (how == 0) {
    *(volatile uint8_t*)&window[4] = 1; /* registers take 32-bit accesses only */
  }
  printf("byte store caught %d\n", how);
  signal(SIGSEGV, SIG_DFL);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    *(volatile int*)NULL = 1;
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("default kills %d\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  return 0;
}

/* Loading a library takes long here, so that threads catch up with the one that does it. */
static int slow_loading;
__attribute__((visibility("default"))) void* dlopen(const char* name, int flags) {
  void* (*load)(const char*, int) = (void* (*)(const char*, int))dlsym(RTLD_NEXT, "dlopen");
  if (slow_loading) usleep(50000);
  return load(name, flags);
}

/* The store goes out the moment the window is there, while other threads map theirs. */
static pthread_barrier_t all_ready;
static void* map_and_store(void* fd) {
  pthread_barrier_wait(&all_ready);
  volatile uint32_t* window =
      mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, *(int*)fd, WINDOW);
  if (window == MAP_FAILED) _exit(1);
  window[3] = 7;
  return NULL;
}

/* Each child is a process that maps its first register windows in several threads at once. */
static int cmd_first_windows(void) {
  enum { CHILDREN = 3, THREADS = 4 };
  slow_loading = 1;
  int ended_well = 0;
  for (int i = 0; i < CHILDREN; ++i) {
    pid_t child = fork();
    if (child == 0) {
      int fd = device(O_RDWR | O_CLOEXEC);
      pthread_t threads[THREADS];
      pthread_barrier_init(&all_ready, NULL, THREADS);
      for (int k = 0; k < THREADS; ++k) pthread_create(&threads[k], NULL, map_and_store, &fd);
      for (int k = 0; k < THREADS; ++k) pthread_join(threads[k], NULL);
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    ended_well += status == 0;
  }
  printf("ended well %d of %d\n", ended_well, CHILDREN);
  return 0;
}

static int cmd_map_window(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  void* window = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, WINDOW);
  printf("to write %s\n", window == MAP_FAILED ? strerror(errno) : "mapped");
  window = mmap(NULL, MAP_LEN, PROT_READ, MAP_SHARED, fd, WINDOW);
  printf("to read %s\n", window == MAP_FAILED ? strerror(errno) : "mapped");
  return 0;
}

/* 30 ms of wall time in the machine count as `us` simulated microseconds. */
static int cmd_clock(const char* us) {
  int fd = device(O_RDWR | O_CLOEXEC);
  clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
  for (int i = 0; i < 2; ++i) {
    int64_t before = now_ns(clocks[i]);
    ioctl(fd, SPEND, strtoul(us, NULL, 10));
    int64_t passed = now_ns(clocks[i]) - before;
    printf("%lld\n", (long long)passed / 1000);
  }
  int64_t start = now_ns(CLOCK_MONOTONIC);
  struct timespec pause = {0, 20000000};
  nanosleep(&pause, NULL);
  printf("%lld\n", (long long)(now_ns(CLOCK_MONOTONIC) - start) / 1000);
  return 0;
}

/* Every way to ask for the time of day says what clock_gettime says before and after it. */
static void show_clock(const char* name, int64_t before, int64_t ns, int64_t unit) {
  int64_t after = now_ns(CLOCK_REALTIME);
  printf("%s %d\n", name, before / unit * unit <= ns && ns <= after);
}

/* The clock stands still while the machine is busy, also for a moment after it has answered. */
static void wait_until_at_rest(void) {
  int64_t first = now_ns(CLOCK_MONOTONIC);
  while (now_ns(CLOCK_MONOTONIC) == first) sched_yield();
}

/* Both clocks go alike: one difference fits all readings. */
static int same_rate(clockid_t clock) {
  int64_t least = INT64_MIN, most = INT64_MAX;
  for (int i = 0; i < 20000; ++i) {
    int64_t before = now_ns(CLOCK_MONOTONIC);
    int64_t other = now_ns(clock);
    int64_t after = now_ns(CLOCK_MONOTONIC);
    if (other - after > least) least = other - after;
    if (other - before < most) most = other - before;
  }
  return least <= most;
}

static int cmd_clocks(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  ioctl(fd, SPEND, 1000000000ul); /* 1000 s ahead of the host, which no delay makes up for */
  wait_until_at_rest();
  const int64_t second = 1000000000;
  int64_t before = now_ns(CLOCK_REALTIME);
  struct timeval day;
  gettimeofday(&day, NULL);
  show_clock("gettimeofday", before, day.tv_sec * second + day.tv_usec * 1000, 1000);
  before = now_ns(CLOCK_REALTIME);
  time_t stored = 0;
  time_t seconds = time(&stored);
  show_clock("time", before, seconds * second, second);
  show_clock("stored", before, stored * second, second);
  before = now_ns(CLOCK_REALTIME);
  struct timespec spec;
  int base = timespec_get(&spec, TIME_UTC);
  show_clock("timespec_get", before, spec.tv_sec * second + spec.tv_nsec, 1);
  printf("base %d\n", base == TIME_UTC);
  before = now_ns(CLOCK_MONOTONIC);
  struct timespec raw;
  clock_gettime(CLOCK_MONOTONIC_RAW, &raw);
  ioctl(fd, SPEND, 1000000000ul);
  int64_t passed = now_ns(CLOCK_MONOTONIC) - before;
  int64_t passed_raw = now_ns(CLOCK_MONOTONIC_RAW) - (raw.tv_sec * second + raw.tv_nsec);
  printf("jumped %d raw %d\n", passed >= 1000 * second, passed_raw >= 1000 * second);
  before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
  ioctl(fd, SPEND, 1000000000ul);
  printf("cpu time %d\n", now_ns(CLOCK_PROCESS_CPUTIME_ID) - before < 1000 * second);
  printf("realtime alike %d raw alike %d\n", same_rate(CLOCK_REALTIME),
         same_rate(CLOCK_MONOTONIC_RAW));
  return 0;
}

/* A wait of 20 ms: that it timed out as `result` says, not before the deadline, and not as long
 * after it as a deadline of the host's clock would be. */
enum { WAIT_NS = 20000000 };
static struct timespec deadline_of(clockid_t clock) {
  int64_t ns = now_ns(clock) + WAIT_NS;
  return (struct timespec){ns / 1000000000, ns % 1000000000};
}
static void show_wait(const char* name, int timed_out, clockid_t clock, struct timespec deadline) {
  int64_t late = now_ns(clock) - (deadline.tv_sec * 1000000000ll + deadline.tv_nsec);
  printf("%s %d %d %d\n", name, timed_out, late >= 0, late < 500 * 1000000000ll);
}

static void wait_for_locks(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex); /* waited for below, in the thread that holds it */
  struct timespec deadline = deadline_of(CLOCK_REALTIME);
  int result = pthread_mutex_timedlock(&mutex, &deadline);
  show_wait("mutex_timedlock", result == ETIMEDOUT, CLOCK_REALTIME, deadline);
  deadline = deadline_of(CLOCK_MONOTONIC);
  result = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline);
  show_wait("mutex_clocklock", result == ETIMEDOUT, CLOCK_MONOTONIC, deadline);
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  deadline = deadline_of(CLOCK_REALTIME);
  result = pthread_cond_timedwait(&condition, &mutex, &deadline);
  show_wait("cond_timedwait", result == ETIMEDOUT, CLOCK_REALTIME, deadline);
  deadline = deadline_of(CLOCK_MONOTONIC);
  result = pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &deadline);
  show_wait("cond_clockwait", result == ETIMEDOUT, CLOCK_MONOTONIC, deadline);
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  deadline = deadline_of(CLOCK_REALTIME);
  result = sem_timedwait(&semaphore, &deadline);
  show_wait("sem_timedwait", result != 0 && errno == ETIMEDOUT, CLOCK_REALTIME, deadline);
  deadline = deadline_of(CLOCK_MONOTONIC);
  result = sem_clockwait(&semaphore, CLOCK_MONOTONIC, &deadline);
  show_wait("sem_clockwait", result != 0 && errno == ETIMEDOUT, CLOCK_MONOTONIC, deadline);
}

static void ignore(int number) {
  (void)number;
}
static atomic_int interrupting = 1;
static void* interrupter(void* sleeper) {
  while (atomic_load(&interrupting)) {
    pthread_kill(*(pthread_t*)sleeper, SIGUSR1);
    usleep(5000);
  }
  return NULL;
}

/* Every wait, `us` simulated microseconds (in 90 ms of the host's) after the start. */
static int cmd_waits(const char* us) {
  int fd = device(O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; ++i) ioctl(fd, SPEND, strtoul(us, NULL, 10) / 3);
  alarm(30); /* of the host: a wait that never ends ends the program */
  wait_for_locks();
  struct timespec deadline = deadline_of(CLOCK_MONOTONIC);
  int result = usleep(WAIT_NS / 1000);
  show_wait("usleep", result == 0, CLOCK_MONOTONIC, deadline);
  deadline = deadline_of(CLOCK_REALTIME);
  result = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &deadline, NULL);
  show_wait("clock_nanosleep", result == 0, CLOCK_REALTIME, deadline);
  int64_t before = now_ns(CLOCK_MONOTONIC);
  unsigned left = sleep(1);
  printf("sleep %u %d\n", left, now_ns(CLOCK_MONOTONIC) - before >= 1000000000);
  signal(SIGUSR1, ignore);
  pthread_t self = pthread_self(), thread;
  pthread_create(&thread, NULL, interrupter, &self);
  left = sleep(1000);
  printf("interrupted %d\n", left > 500 && left <= 1000);
  struct timespec day = {100000, 0}, rest = {0, 0};
  result = nanosleep(&day, &rest);
  printf("interrupted %d %d %d\n", result, errno == EINTR, rest.tv_sec > 99000);
  atomic_store(&interrupting, 0);
  pthread_join(thread, NULL);
  return 0;
}

static int cmd_monotonic(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 20; ++i) ioctl(fd, SPEND, 1);
    _exit(0);
  }
  int64_t last = now_ns(CLOCK_MONOTONIC);
  int backwards = 0;
  int status;
  while (waitpid(child, &status, WNOHANG) == 0) {
    int64_t now = now_ns(CLOCK_MONOTONIC);
    if (now < last) ++backwards;
    last = now;
  }
  printf("backwards %d\n", backwards);
  return 0;
}

static void* blocked_wait(void* unused) {
  (void)unused;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  int64_t start = now_ns(CLOCK_REALTIME);
  deadline.tv_nsec += 40000000;
  deadline.tv_sec += deadline.tv_nsec / 1000000000;
  deadline.tv_nsec %= 1000000000;
  pthread_mutex_lock(&mutex);
  int result = pthread_cond_timedwait(&condition, &mutex, &deadline);
  printf("timedwait %s after>=40ms %d\n", result == ETIMEDOUT ? "timed out" : "other",
         now_ns(CLOCK_REALTIME) - start >= 40000000);
  return NULL;
}

/* Deadlines hold in virtual time although the machine eats wall time meanwhile. */
static int cmd_deadline(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; ++i) ioctl(fd, SPEND, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, blocked_wait, NULL);
  for (int i = 0; i < 3; ++i) ioctl(fd, SPEND, 0);
  pthread_join(thread, NULL);
  return 0;
}

static void* poker(void* fd) {
  ioctl(*(int*)fd, POKE, 42);
  return NULL;
}

/* Polls a word of device memory with long short sleeps: progress of the machine ends them. */
static int cmd_poll(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  volatile uint32_t* plain = mmap(NULL, MAP_LEN, PROT_READ, MAP_SHARED, fd, PLAIN);
  pthread_t thread;
  pthread_create(&thread, NULL, poker, &fd);
  int rounds = 0;
  while (plain[0] != 42) {
    struct timespec pause = {0, 1000000};
    if (++rounds % 2)
      nanosleep(&pause, NULL);
    else
      sched_yield();
  }
  pthread_join(thread, NULL);
  printf("seen 42 in few rounds %d\n", rounds < 500);
  return 0;
}

static void* waker(void* fd) {
  struct timespec pause = {0, 20000000};
  nanosleep(&pause, NULL);
  ioctl(*(int*)fd, WAKE, 0);
  return NULL;
}

static int cmd_block(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  pthread_t thread;
  pthread_create(&thread, NULL, waker, &fd);
  printf("block %d\n", ioctl(fd, BLOCK, 0));
  pthread_join(thread, NULL);
  return 0;
}

/* The machine goes away under an open file. */
static int cmd_outlive(void) {
  int fd = device(O_RDWR | O_CLOEXEC);
  printf("ready\n");
  fflush(stdout);
  while (ioctl(fd, WHO, 0) > 0) usleep(500);
  printf("ioctl %s\n", strerror(errno));
  printf("close %d\n", close(fd));
  fd = open("/dev/neuron0", O_RDWR);
  printf("open %s\n", fd < 0 ? strerror(errno) : "worked");
  return 0;
}

/* Everything at once, for ever: the test kills it. */
static int cmd_hammer(void) {
  unsigned char bytes[100000];
  for (;;) {
    int fd = device(O_RDWR | O_CLOEXEC);
    uint64_t words[2] = {1, 2};
    ioctl(fd, SWAP, words);
    uint64_t range[2] = {(uint64_t)(uintptr_t)bytes, sizeof bytes};
    ioctl(fd, BULK_INVERT, range);
    volatile uint32_t* window = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, WINDOW);
    if (window != MAP_FAILED) {
      window[5] = 5;
      munmap((void*)window, MAP_LEN);
    }
    FILE* file = fopen("/sys/class/neuron_device/neuron0/core_count", "r");
    if (file != NULL) fclose(file);
    close(fd);
  }
}

static int cmd_sysfs_write(void) {
  int fd = open("/sys/class/neuron_device/neuron0/reset", O_WRONLY | O_TRUNC);
  printf("write %zd\n", write(fd, "1\n", 2));
  close(fd);
  fd = open("/sys/class/neuron_device/neuron0/core_count", O_WRONLY);
  printf("read-only attribute %s\n", fd < 0 ? strerror(errno) : "opened");
  return 0;
}

static int cmd_close_all(void) {
  int fd = device(O_RDWR);
  for (int i = 3; i < 1100; ++i) {
    if (i != fd) close(i);
  }
  /* Our numbers are gone; they may even be somebody else's now. */
  int files[40];
  for (int i = 0; i < 40; ++i) files[i] = open("/dev/null", O_WRONLY);
  uint64_t words[2] = {3, 4};
  printf("swap %d\n", ioctl(fd, SWAP, words));
  for (int i = 0; i < 40; ++i) close(files[i]);
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "ioctl")) return cmd_ioctl();
  if (!strcmp(what, "list")) return cmd_list();
  if (!strcmp(what, "fork")) return cmd_fork();
  if (!strcmp(what, "inherit")) return cmd_inherit(argv[0]);
  if (!strcmp(what, "inherited")) return cmd_inherited(argv[2]);
  if (!strcmp(what, "map")) return cmd_map();
  if (!strcmp(what, "mmio")) return cmd_mmio();
  if (!strcmp(what, "first-windows")) return cmd_first_windows();
  if (!strcmp(what, "map-window")) return cmd_map_window();
  if (!strcmp(what, "clock")) return cmd_clock(argv[2]);
  if (!strcmp(what, "clocks")) return cmd_clocks();
  if (!strcmp(what, "waits")) return cmd_waits(argv[2]);
  if (!strcmp(what, "monotonic")) return cmd_monotonic();
  if (!strcmp(what, "deadline")) return cmd_deadline();
  if (!strcmp(what, "poll")) return cmd_poll();
  if (!strcmp(what, "block")) return cmd_block();
  if (!strcmp(what, "outlive")) return cmd_outlive();
  if (!strcmp(what, "hammer")) return cmd_hammer();
  if (!strcmp(what, "sysfs-write")) return cmd_sysfs_write();
  if (!strcmp(what, "close-all")) return cmd_close_all();
  fprintf(stderr, "unknown scenario '%s'\n", what);
  return 2;
}
