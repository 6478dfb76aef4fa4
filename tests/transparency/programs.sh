# shellcheck shell=bash disable=SC2034,SC2154 # variables that run.sh uses and sets
# The programs of run.sh, which sources this.  For each NAME:
#   run_NAME [ARGUMENT]   runs it in the current folder, which is empty
#   needs_NAME            commands that must be there
#   prepare_NAME          optional, once before the runs: fetches what it needs; its last line says why it cannot
#   results_NAME          optional, in the folder of a finished run: prints a line a result, compared instead of all
#                         output and files; the output is in ../stdout and ../stderr
# An entry NAME:ARGUMENT of a list runs one of several parts.

: "${PYTHON:=/usr/bin/python3}"
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/opgap/transparency

QUICK=(git sqlite perl python node gcc make java busybox redis archive shell)

# ---- quick ones ----

needs_git=git
run_git()
{
  export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z' HOME=$PWD
  git config --global user.name a && git config --global user.email a@example.org
  git config --global init.defaultBranch main && git config --global pack.threads 2
  git init -q repository && cd repository || return
  for i in $(seq 20); do
    seq $((i * 100)) >"file$i" && git add . && git commit -q -m "commit $i" || return
  done
  git checkout -q -b side HEAD~5 && echo side >side && git add side && git commit -q -m side
  git checkout -q main && git merge -q -m merge side && git gc -q && git fsck --strict --no-progress
  git clone -q . ../clone && git -C ../clone log --stat | cat
  git -C ../clone archive HEAD | tar -tf - && git grep -c 99 | sort
  git cat-file --batch-check --batch-all-objects
  cd .. && rm -rf repository clone # their files hold inode numbers and times
}

needs_sqlite=sqlite3
run_sqlite()
{
  sqlite3 data.db <<'SQL'
PRAGMA journal_mode=wal;
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 30000)
INSERT INTO t SELECT x, hex(x * 7919 % 10007), x / 3.0 FROM n;
CREATE INDEX i ON t(b);
SELECT count(*), sum(length(b)), total(c) FROM t WHERE b > '5';
DELETE FROM t WHERE a % 3 = 0;
BEGIN; UPDATE t SET c = c * 2 WHERE a % 5 = 0; ROLLBACK;
VACUUM;
PRAGMA integrity_check;
.dump
SQL
}

needs_perl=perl
run_perl()
{
  perl -e '
    use strict; use Digest::SHA qw(sha256_hex); use Socket; use POSIX qw(:sys_wait_h);
    my %h; $h{$_ % 101} .= chr(65 + $_ % 26) for 1 .. 50000;
    print sha256_hex(join ",", map { "$_=$h{$_}" } sort keys %h), "\n";
    for my $n (1 .. 5) { my $pid = fork; if (!$pid) { exit $n * 3 } waitpid $pid, 0; print $? >> 8, "\n" }
    socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die;
    if (!fork) { close $a; while (<$b>) { syswrite $b, uc } exit 0 }
    close $b; syswrite $a, "hello $_\n" for 1 .. 3; shutdown $a, 1; print while <$a>; wait;
    $SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 1; sleep 5 }; print $@;
    open my $f, "|-", "sort -r" or die; print $f "$_\n" for 1 .. 20; close $f; print `echo back`;
    kill "TERM", $$'
}

needs_python=$PYTHON
run_python()
{
  "$PYTHON" "$here/programs.py"
}

needs_node=node
run_node()
{
  node -e '
    const { Worker } = require("worker_threads"), { execFileSync, spawn } = require("child_process");
    const fs = require("fs"), crypto = require("crypto"), zlib = require("zlib"), net = require("net");
    const sum = crypto.createHash("sha256"); for (let i = 0; i < 20000; i++) sum.update("line " + i);
    console.log(sum.digest("hex"), zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(100000, "ab"))).length);
    console.log(execFileSync("echo", ["from a child"]).toString().trim());
    fs.writeFileSync("a", "text"); console.log(fs.readFileSync("a", "utf8"), fs.readdirSync(".").join());
    const worker = (n) => new Promise((done) => new Worker(
      "require(\"worker_threads\").parentPort.postMessage(Array.from({ length: 1000 }, (_, i) => i * " + n + "))",
      { eval: true }).on("message", (m) => done(m.reduce((a, b) => a + b))));
    Promise.all([1, 2, 3, 4].map(worker)).then((sums) => {
      console.log(sums.join());
      const server = net.createServer((c) => c.end("bye")).listen("socket", () =>
        net.connect("socket").on("data", (d) => console.log(d.toString())).on("close", () => {
          server.close(); spawn("sh", ["-c", "exit 3"]).on("exit", (code) => process.exit(code + 4)); }));
    });'
}

needs_gcc=gcc
run_gcc()
{
  cat >a.c <<'C'
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
  int numbers[1000];
  for (int i = 0; i < 1000; i++) numbers[i] = i * 7919 % 1009;
  qsort(numbers, 1000, sizeof *numbers, compare);
  printf("%d %d\n", numbers[0], numbers[999]);
  return 17;
}
C
  gcc -O2 -g -flto -frandom-seed=1 -c a.c && gcc -O2 -g -flto a.o -o a && gcc -S -O3 a.c -o a.s
  gcc -Wall -c nothing.c
  ./a
}

# Two parts of this project by a plain makefile.
needs_make="make gcc ar pkg-config"
run_make()
{
  cp -r "$root/src" "$root/include" . || return
  cat >Makefile <<'MAKE'
objects := $(patsubst %.c,%.o,$(wildcard src/format/*.c src/output/*.c)) src/hooks/hook_table.o
CFLAGS := -O1 -g -Iinclude -Isrc -D_GNU_SOURCE -DOPGAP_VERSION='"0"' $(shell pkg-config --cflags libzstd jansson)
offline.a: $(objects)
	ar rcsD $@ $(sort $^)
MAKE
  make -s -j2
}

needs_java="java javac"
run_java()
{
  cat >A.java <<'JAVA'
import java.util.concurrent.*;
import java.util.stream.*;
public class A {
  public static void main(String[] arguments) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    Future<?>[] sums = new Future<?>[100];
    for (int i = 0; i < sums.length; i++) {
      final int n = i;
      sums[i] = pool.submit(() -> LongStream.range(0, 10000).map(x -> x * n % 97).sum());
    }
    for (Future<?> sum : sums) System.out.println(sum.get());
    pool.shutdown();
    System.gc();
    try { ((Object) null).hashCode(); } catch (NullPointerException e) { System.out.println("null"); }
    System.out.println(new ProcessBuilder("sh", "-c", "exit 5").start().waitFor());
    System.exit(IntStream.range(0, 1000).parallel().sum() % 256);
  }
}
JAVA
  java -version && javac A.java && java -Xmx64m A
}

needs_busybox=busybox
run_busybox()
{
  busybox sh -c '
    for i in 1 2 3 4 5; do busybox seq $((i * 50)) >f$i; done
    busybox tar -cf - f1 f2 f3 | busybox gzip -9 >a.gz; busybox gunzip -c a.gz | busybox tar -tf -
    busybox awk "{ s += \$1 } END { print s }" f5; busybox sort -rn f4 | busybox head -n 3
    busybox find . -name "f*" | busybox sort | busybox xargs busybox md5sum
    (exit 4) & wait $!; echo $?; trap "echo usr1" USR1; kill -USR1 $$; exit 9'
  local status=$?
  rm -f a.gz # holds times
  return $status
}

needs_redis="redis-server redis-cli"
run_redis()
{
  redis-server --port 0 --unixsocket "$PWD/socket" --appendonly yes --appendfsync always --save '' --logfile log \
    --daemonize no &
  local server=$! i
  for i in $(seq 100); do
    [ ! -S socket ] || break
    sleep 0.1
  done
  seq 2000 | awk '{ print "SET key" $1 " value" $1; print "LPUSH list " $1; print "ZADD set " $1 " m" $1 % 37 }' |
    redis-cli -s socket | sort | uniq -c
  redis-cli -s socket <<'REDIS'
EVAL "local s = 0; for i = 1, 2000 do s = s + #redis.call('GET', 'key' .. i) end; return s" 0
LRANGE list 0 3
SORT list LIMIT 0 3 DESC
ZRANGE set 0 5 WITHSCORES
MULTI
INCR counter
APPEND key1 more
EXEC
GET key1
BGREWRITEAOF
DBSIZE
REDIS
  redis-cli -s socket shutdown nosave
  wait "$server"
  local status=$?
  rm -rf log appendonlydir # times and process ids
  return $status
}

needs_archive="tar xz gzip zstd"
run_archive()
{
  cp -r "$root/src" tree || return
  tar --sort=name --mtime=@0 --owner=0 --group=0 -cf a.tar tree
  xz -k -T2 --block-size=65536 -3 a.tar && gzip -nk a.tar && zstd -q -T2 a.tar && mkdir back || return
  tar -C back -xf a.tar.xz && diff -r tree back/tree && find tree -name '*.c' -print0 | xargs -0 -P 3 -n 10 wc -c | sort
}

needs_shell=bash
run_shell()
{
  # shellcheck disable=SC2016
  bash -c '
    coproc cat; echo through >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line"
    exec {COPROC[1]}>&-; wait "$COPROC_PID"; echo $?
    diff <(seq 10) <(seq 2 11); trap "echo term" TERM; kill $$; (ulimit -n 20; exec 15>/dev/null; echo $?)
    pids=(); for i in $(seq 60); do (exit $((i % 7))) & pids+=($!); done
    n=0; for pid in "${pids[@]}"; do wait "$pid"; n=$((n + $?)); done; echo $n
    mkfifo pipe; (echo fifo >pipe) & cat pipe; wait; sh -c "kill -SEGV \$\$" 2>/dev/null; exec 3<&- 4>&-; sleep 0.01
    seq 100000 | sort -R --random-source=<(seq 100000) | sort -n --parallel=2 | md5sum; exec sh -c "kill -KILL \$\$"' \
    2>&1 | sed 's/line [0-9]*: *[0-9]*/line/' # process ids
  return "${PIPESTATUS[0]}"
}

# ---- long ones ----

LONG=()
for module in test_subprocess test_multiprocessing_fork test_multiprocessing_spawn test_multiprocessing_forkserver \
  test_threading test_signal test_threadsignals test_io test_fileio test_mmap test_socket test_asyncio test_posix \
  test_os test_fork1 test_pty test_select test_resource test_faulthandler test_ctypes test_concurrent_futures; do
  LONG+=("cpython:$module")
done

# A module of CPython's own test suite (Debian: libpython3.11-testsuite), compared test by test.
needs_cpython=$PYTHON
prepare_cpython()
{
  "$PYTHON" -c 'import test.regrtest, test.test_subprocess' ||
    { echo "$PYTHON has no test suite (Debian: libpython3-testsuite)"; false; }
}
run_cpython()
{
  # in a virtual machine, VSOCK sockets wait for a host that never answers
  HOME=$PWD timeout 1500 "$PYTHON" -m test --timeout 400 --ignore '*VSOCK*' --junit-xml results.xml "$1"
}
results_cpython()
{
  "$PYTHON" "$here/junit.py" results.xml
}

# A stress program, with a number of operations that takes a second or two.
for stressor in malloc:100000 pthread:3000 fork:2000 vfork:2000 signal:200000 mmap:40 sigsegv:20000 sigchld:3000 \
  signest:20000 sigsuspend:5000 sigpipe:5000 sigfd:20000 sigtrap:50000 clone:2000 mmapfork:20 daemon:500; do
  LONG+=("stress:$stressor")
done
needs_stress=stress-ng
run_stress()
{
  stress-ng "--${1%:*}" 2 "--${1%:*}-ops" "${1#*:}" --verify --timeout 300 --temp-path "$PWD"
}
results_stress()
{
  # what each stressor came to, without process ids and times
  sed -n 's/^stress-ng: \(info\|fail\|error\|warn\): *\[[0-9]*\] *//p' ../stdout ../stderr |
    sed 's/ in [0-9.]* *s.*//;s/ ([0-9.]* secs)//;s/process \[[0-9]*\]/process/'
}

# Fetches the source package $1 into the cache; the lists of source packages are kept there, too.
fetch_source()
{
  local lists=$CACHE/lists folder
  mkdir -p "$lists/partial" "$CACHE/archives/partial"
  folder=$(find "$CACHE" -maxdepth 1 -type d -name "$1-*" | head -n 1)
  [ -z "$folder" ] || return 0
  local codename mirror
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mirror=$(. "$root/tools/packages.sh" && debian_mirror)
  echo "deb-src $mirror $codename main" >"$CACHE/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$CACHE/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$lists" -o "Dir::Cache::archives=$CACHE/archives" -o APT::Sandbox::User=root)
  if ! apt-get "${options[@]}" update -q || ! (cd "$CACHE" && apt-get "${options[@]}" source -q "$1"); then
    echo "the source of $1 cannot be fetched by apt-get"
    return 1
  fi
}

# Redis: its build with two jobs gives the same bytes.
LONG+=(redis_build redis_suite)
needs_redis_build="make gcc apt-get dpkg-source"
prepare_redis_build()
{
  fetch_source redis
}
build_redis()
{
  make -s -j2 MALLOC=libc OPTIMIZATION=-O1 SOURCE_DATE_EPOCH=1 >/dev/null
}
run_redis_build()
{
  cp -r "$CACHE"/redis-*/. . && build_redis
}
results_redis_build()
{
  sha256sum src/redis-server src/redis-cli src/redis-benchmark
}

# Redis: parts of its own test suite, compared test by test.
needs_redis_suite="make gcc apt-get dpkg-source tclsh"
prepare_redis_suite()
{
  fetch_source redis && cd "$CACHE"/redis-*/ && { [ -x src/redis-server ] || build_redis; }
}
run_redis_suite()
{
  local test tests=()
  for test in unit/{protocol,keyspace,scan,expire,other,multi,pubsub,scripting,aofrw,dump,auth,introspection,slowlog} \
    unit/type/{string,incr,list,hash,set,zset,stream} integration/{aof,rdb,convert-zipmap-hash-on-load}; do
    tests+=(--single "$test")
  done
  cp -r "$CACHE"/redis-*/. . && timeout 1500 ./runtest --clients 2 --timeout 300 "${tests[@]}"
}
results_redis_suite()
{
  sed -n 's/\x1b\[[0-9;]*m//g;s/^\[\(ok\|err\|exception\|skip\|ignore\)\]: \(.*\)$/\1: \2/p' ../stdout | sed 's/ ([0-9]* ms)$//'
}

LONG+=(chromium)
needs_chromium=chromium
run_chromium()
{
  cat >page.html <<'HTML'
<html><body><script>
  let s = 0; for (let i = 0; i < 1e6; i++) s += i % 7;
  const c = document.createElement("canvas").getContext("2d"); c.fillRect(0, 0, 10, 10);
  fetch("data:text/plain,hello").then((r) => r.text()).then((t) => { document.body.append(t + s); });
</script></body></html>
HTML
  HOME=$PWD chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=2000 --dump-dom "file://$PWD/page.html"
}
results_chromium()
{
  cat ../stdout
}
