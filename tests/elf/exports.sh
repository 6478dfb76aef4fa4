# The exported symbols are the hooks of hooks.def, opgap_*, and the entry points that NVTX and CUDA look for; all hooks
# are there.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nm -D --defined-only "$1" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort -u > "$folder/exported"
"$2" | sort -u > "$folder/hooks"
grep -vE '^(opgap_[a-z0-9_]+|InitializeInjection|InitializeInjectionNvtx|InitializeInjectionNvtx2)$' "$folder/exported" |
  diff - "$folder/hooks"
