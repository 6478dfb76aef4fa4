# Runs the demo's script as a user does: it must succeed and print the training's last line and each part of the report.
set -e
output=$(mktemp)
trap 'rm -f "$output"' EXIT
"$1" --minimal >"$output" 2>&1 || {
  cat "$output"
  exit 1
}
for part in '^epoch 40: ' '1 process traced to ' '^Verdict' '^Idle gaps' '^Files' '^Hooked calls' '^Processes' '^Host memory'; do
  grep -q "$part" "$output" || {
    cat "$output"
    echo "missing: $part"
    exit 1
  }
done
