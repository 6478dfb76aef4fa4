"""pytest: the training must not get slower than its baseline, perf.json beside this file."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_training_is_as_fast_as_its_baseline(tmp_path):
    runs = []
    for repeat in range(3):
        run = tmp_path / f"run{repeat}.opgap"
        subprocess.run(["opgap", "record", "--out", run, "--", sys.executable, "train.py"], cwd=HERE, check=True)
        runs.append(run)
    gate = subprocess.run(
        ["opgap", "gate", "--baseline", HERE / "perf.json", "--allow-other-machine", *runs],
        capture_output=True,
        text=True,
    )
    assert gate.returncode == 0, gate.stdout + gate.stderr
