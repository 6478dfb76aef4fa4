#!/bin/sh
# Writes the completions of bash, zsh and fish from what the program's --help says, so a new command or option has them
# by itself.
# usage: completions.sh OPGAP FOLDER      writes FOLDER/opgap.bash, FOLDER/_opgap, FOLDER/opgap.fish
#
# What is read of a help text: "  -s, --long VALUE  text" and the lines that continue it.  An option offers as values:
# the words of VALUE when it is a list a|b|c; files when VALUE is FILE, PATH or FOLDER; else the words of a list in its text
# ("json, csv or markdown").  VALUE = LIST takes several of them, separated by commas.  What else a command takes is
# told from its usage: PROGRAM, no operand, or traces.
set -eu

opgap=$1
folder=$2
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "name summary", one command a line
"$opgap" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  */\1 /p' >"$work/commands"

here=$(dirname "$0")/completions
while read -r name summary; do
  "$opgap" "$name" --help >"$work/help"
  awk -v name="$name" -v summary="$summary" -f "$here/table.awk" "$work/help"
done <"$work/commands" >"$work/table"
{
  awk -f "$here/bash.awk" "$work/table"
  cat "$here/common.bash"
} >"$folder/opgap.bash"
awk -f "$here/zsh.awk" "$work/table" >"$folder/_opgap"
awk -f "$here/fish.awk" "$work/table" >"$folder/opgap.fish"
