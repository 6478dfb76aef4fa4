#include "output/export/sqlite_schema.h"

const char sqlite_tables[] =
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE names (id INTEGER PRIMARY KEY, text TEXT NOT NULL);"
    "CREATE TABLE kinds (id INTEGER PRIMARY KEY, kind TEXT NOT NULL);"
    "CREATE TABLE threads (id INTEGER PRIMARY KEY, process INTEGER NOT NULL, pid INTEGER NOT NULL, tid INTEGER, "
    "name TEXT NOT NULL, kind TEXT NOT NULL);"
    "CREATE TABLE span (id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, kind INTEGER NOT NULL, name INTEGER NOT NULL, "
    "start_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, depth INTEGER, bytes INTEGER, path INTEGER, "
    "address INTEGER, status INTEGER);"
    "CREATE TABLE unfinished (span INTEGER PRIMARY KEY);"
    "CREATE TABLE gpu_work (span INTEGER PRIMARY KEY, process INTEGER NOT NULL, device INTEGER, context INTEGER, "
    "stream INTEGER, correlation INTEGER);"
    "CREATE TABLE kernel_shapes (span INTEGER PRIMARY KEY, grid_x INTEGER, grid_y INTEGER, grid_z INTEGER, "
    "block_x INTEGER, block_y INTEGER, block_z INTEGER, registers INTEGER, shared_bytes INTEGER, graph INTEGER, "
    "graph_node INTEGER);"
    "CREATE TABLE samples (thread INTEGER NOT NULL, time_ns INTEGER NOT NULL, "
    "what TEXT NOT NULL, subject TEXT, field TEXT NOT NULL, value INTEGER NOT NULL);"
    "CREATE TABLE report (text TEXT NOT NULL);";

/* Rows (section, key, value) from an object. */
#define FIGURES(section)                                                                                               \
  "INSERT INTO figures SELECT '" section "', r.key, CASE WHEN r.type IN ('object', 'array') THEN r.value ELSE r.atom " \
  "END FROM report, json_each(report.text, '$." section "') AS r;"

const struct sqlite_filling sqlite_from_report[] = {
    {.sql = "CREATE TABLE figures (section TEXT NOT NULL, key TEXT NOT NULL, value, PRIMARY KEY (section, key)) "
            "WITHOUT ROWID;"},
    {.sql = FIGURES("trace")},
    {.sql = FIGURES("memory")},
    {.sql = FIGURES("step_breakdown")},
    {.sql = FIGURES("launches")},
    {.sql = FIGURES("verdict")},
    {.table = "processes",
     .path = "$.processes",
     .columns = "pid, ppid, host, rank, role, role_kind, worker, command, start_ns, end_ns, ended, exit_status, "
                "complete, kill_safe, records, lost_records, invalid_records, threads, op_ns, blocked_ns, file_ns, "
                "read_bytes, written_bytes, allocations, rss_bytes, open_op, open_call, open_ns"},
    {.table = "untraced", .path = "$.untraced", .columns = "pid, command, reason"},
    {.table = "hot_ops",
     .path = "$.hot_ops",
     .columns = "name, kind, role, calls, self_cpu_ns, total_cpu_ns, blocked_ns, self_gpu_ns, total_gpu_ns, "
                "alloc_count, alloc_bytes, minor_faults, major_faults, estimated, source_location"},
    {.table = "calls",
     .path = "$.calls",
     .columns = "name, category, waits_for_process, role, calls, bytes, failed, time_ns, estimated, "
                "measured_calls, measured_ns"},
    {.table = "files", .path = "$.files", .columns = "path, operation, calls, bytes, time_ns, failed, processes"},
    {.table = "locks",
     .path = "$.locks",
     .columns = "pid, call, object, symbol, waits, wait_ns, longest_ns, threads, held_by, block, source_location"},
    {.sql = "CREATE TABLE steps (step INTEGER PRIMARY KEY, start_ns, duration_ns, warm_up);"},
    /* two arrays side by side: by a key, for the join would read one of them for each element of the other */
    {.sql =
         "CREATE TEMP TABLE durations (step INTEGER PRIMARY KEY, ns);"
         "INSERT INTO durations SELECT d.key, d.value FROM report, json_each(report.text, '$.steps.durations_ns') AS d;"
         "INSERT INTO steps SELECT s.key, s.value, durations.ns, s.key < json_extract(report.text, '$.steps.skipped') "
         "FROM report, json_each(report.text, '$.steps.start_ns') AS s JOIN durations ON durations.step = s.key;"
         "DROP TABLE durations;"
         "INSERT INTO figures SELECT 'steps', r.key, r.atom FROM report, json_each(report.text, '$.steps') AS r WHERE "
         "r.type NOT IN ('array', 'object');"},
    {.table = "gpu",
     .path = "$.gpu",
     .columns = "device, name, host, busy_ns, utilisation, span_ns, kernel_ns, memcpy_ns, memset_ns, communication_ns, "
                "exposed_communication_ns, kernels, memcpys, memsets, h2d_bytes, d2h_bytes, d2d_bytes, memory_bytes, "
                "sm_count"},
    {.table = "kernels",
     .path = "$.kernels",
     .columns = "name, calls, total_ns, min_ns, max_ns, grid, block, one_shape, registers, shared_bytes"},
    {.table = "gpu_copies",
     .path = "$.gpu_copies",
     .columns = "direction, source, target, async, calls, bytes, total_ns"},
    {.sql = "CREATE TABLE gpu_use (device, chunk, start_ns, chunk_ns, share);"
            "INSERT INTO gpu_use SELECT json_extract(r.value, '$.device'), c.key, c.key * json_extract(r.value, "
            "'$.chunk_ns'), json_extract(r.value, '$.chunk_ns'), c.value FROM report, json_each(report.text, "
            "'$.gpu_use') AS r, json_each(r.value, '$.share') AS c;"},
    {.table = "gpu_findings", .path = "$.gpu_findings", .columns = "rule, op, count, time_ns, bytes"},
    {.table = "thread_gaps",
     .path = "$.idle_gaps.threads",
     .numbered = true,
     .columns = "pid, tid, thread, process, start_ns, duration_ns, call, op, cause, detail"},
    {.table = "gpu_gaps",
     .path = "$.idle_gaps.gpu",
     .numbered = true,
     .columns = "device, pid, start_ns, duration_ns, next"},
    {.sql = "CREATE TABLE gap_causes (gaps TEXT NOT NULL, gap INTEGER NOT NULL, cause, detail, ns);"
            "INSERT INTO gap_causes SELECT 'thread', r.key, json_extract(c.value, '$.cause'), json_extract(c.value, "
            "'$.detail'), json_extract(c.value, '$.ns') FROM report, json_each(report.text, '$.idle_gaps.threads') AS "
            "r, json_each(r.value, '$.causes') AS c;"
            "INSERT INTO gap_causes SELECT 'gpu', r.key, json_extract(c.value, '$.cause'), json_extract(c.value, "
            "'$.detail'), json_extract(c.value, '$.ns') FROM report, json_each(report.text, '$.idle_gaps.gpu') AS r, "
            "json_each(r.value, '$.causes') AS c;"},
    {.sql = "CREATE TABLE idle_by_cause (gaps TEXT NOT NULL, cause, detail, ns, count);"
            "INSERT INTO idle_by_cause SELECT 'thread', json_extract(r.value, '$.cause'),json_extract(r.value, "
            "'$.detail'),json_extract(r.value, '$.ns'),json_extract(r.value, '$.gaps') FROM report, "
            "json_each(report.text, '$.idle_gaps.by_cause') AS r;"
            "INSERT INTO idle_by_cause SELECT 'gpu', json_extract(r.value, '$.cause'),json_extract(r.value, "
            "'$.detail'),json_extract(r.value, '$.ns'),json_extract(r.value, '$.gaps') FROM report, "
            "json_each(report.text, '$.idle_gaps.gpu_by_cause') AS r;"
            "INSERT INTO figures SELECT 'idle_gaps', r.key, r.atom FROM report, json_each(report.text, '$.idle_gaps') "
            "AS r WHERE r.type NOT IN ('array', 'object');"},
    {0},
};

const char sqlite_views[] =
    "CREATE VIEW spans AS SELECT s.id, t.pid, t.tid, t.name AS thread_name, k.kind, n.text AS name, s.start_ns, "
    "s.start_ns + s.duration_ns AS end_ns, s.duration_ns, s.depth, g.device, g.context, g.stream, g.correlation, "
    "s.bytes, p.text AS path, s.address, s.status, u.span IS NOT NULL AS unfinished FROM span AS s "
    "JOIN kinds AS k ON k.id = s.kind JOIN names AS n ON n.id = s.name JOIN threads AS t ON t.id = s.thread "
    "LEFT JOIN names AS p ON p.id = s.path LEFT JOIN gpu_work AS g ON g.span = s.id "
    "LEFT JOIN unfinished AS u ON u.span = s.id;"
    /* GPU work with the call that launched it. */
    "CREATE VIEW launched AS SELECT g.span AS id, g.process, g.device, g.stream, gn.text AS name, gs.start_ns, "
    "gs.duration_ns, c.span AS call, cn.text AS call_name, cs.start_ns AS call_start_ns, cs.duration_ns AS call_ns, "
    "gs.start_ns - (cs.start_ns + cs.duration_ns) AS queue_ns FROM gpu_work AS g JOIN gpu_work AS c ON "
    "c.correlation = g.correlation AND c.process = g.process AND c.device IS NULL JOIN span AS gs ON gs.id = g.span "
    "JOIN span AS cs ON cs.id = c.span AND cs.kind = (SELECT id FROM kinds WHERE kind = 'cuda') "
    "JOIN names AS gn ON gn.id = gs.name JOIN names AS cn ON cn.id = cs.name WHERE g.device IS NOT NULL;"
    /* Calls on files, by path. */
    "CREATE VIEW file_time AS SELECT path, name AS call, count(*) AS calls, sum(bytes) AS bytes, sum(duration_ns) AS "
    "time_ns FROM spans WHERE path IS NOT NULL GROUP BY path, name;"
    /* How much longer than the median each step took. */
    "CREATE VIEW slow_steps AS SELECT step, start_ns, duration_ns, duration_ns * 1.0 / (SELECT value FROM figures "
    "WHERE "
    "section = 'steps' AND key = 'median_ns') AS times_median FROM steps WHERE NOT warm_up ORDER BY duration_ns DESC;";
