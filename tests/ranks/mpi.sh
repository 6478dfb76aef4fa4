#!/bin/sh
# mpi.sh OPGAP LIBOPGAP PROGRAM: four ranks under OpenMPI, each with a trace of its own and a summary of it; the merge of
# the summaries is the report of the traces.
set -eu
opgap=$1 tracer=$2 program=$3
if ! command -v mpirun >/dev/null; then
  echo "skipped: no mpirun here (Debian: openmpi-bin)"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
head -c 4096 /dev/zero >data.bin
export GATE_STEPS=20 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >rank.sh <<'END'
OPGAP_OUT=rank$OMPI_COMM_WORLD_RANK.opgap LD_PRELOAD=$1 "$2" data.bin
"$3" report --summary-out "rank$OMPI_COMM_WORLD_RANK.json" "rank$OMPI_COMM_WORLD_RANK.opgap"
END
mpirun --oversubscribe -np 4 sh rank.sh "$tracer" "$program" "$opgap"
"$opgap" report --format json rank?.opgap >traces.json
"$opgap" report --format json rank3.json rank0.json rank2.json rank1.json >summaries.json
cmp traces.json summaries.json
python3 - <<'END'
import json
report = json.load(open("summaries.json"))
ranks = [process["rank"] for process in report["processes"]]
assert sorted(ranks) == [0, 1, 2, 3], ranks
ops = {row["name"]: row["calls"] for row in report["hot_ops"]}
assert ops["load"] == ops["forward"] == ops["backward"] == 80, ops
files = {(row["path"].split("/")[-1], row["operation"]): row for row in report["files"]}
assert files["data.bin", "read"]["calls"] == 160 and files["data.bin", "read"]["processes"] == 4, files
assert report["steps"]["count"] == 20, report["steps"]
END
"$opgap" report rank?.json | grep -q 'ranks *0 to 3'
echo "four ranks are one report"
