# The completions, in real shells: fish is asked, bash's function is called, and bash and zsh complete lines that are
# typed on a terminal.  Every option of every command's --help is offered.
build=$1
. "$(dirname "$0")/common.sh"

cmake --install "$build" --prefix "$PWD/usr" >log || fail "$(cat log)"
mkdir -p work/run.opgap work/folder
touch work/train.py work/perf.json
PATH="$PWD/usr/bin:$PATH"
commands=$(opgap --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  .*/\1/p')
cd work
ran=""

# complete WORD...: what bash offers for the last word, sorted, in one line
complete_bash()
{
  bash -c '. ../usr/share/bash-completion/completions/opgap
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _opgap opgap "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf "%s\n" "${COMPREPLY[@]}"' bash "$@" | LC_ALL=C sort | paste -sd ' '
}

# the same of fish, for the line
complete_fish()
{
  HOME=$PWD fish --no-config -c 'source ../usr/share/fish/vendor_completions.d/opgap.fish; complete -C $argv[1]' "$1" |
    sed 's/\t.*//' | LC_ALL=C sort | paste -sd ' '
}

offered() # what, of fish or bash
{
  echo "$1" | LC_ALL=C sort | paste -sd ' '
}

options_of()
{
  opgap "$1" --help | sed -n 's/^  *\(-[a-zA-Z], \)*\(--[a-z-]*\).*/\2/p' | LC_ALL=C sort -u | paste -sd ' '
}

all=$(printf '%s\n' $commands help | LC_ALL=C sort | paste -sd ' ')
if command -v bash >/dev/null; then
  ran="$ran bash"
  same "bash: commands" "--help --version $all" "$(complete_bash opgap '')"
  same "bash: a command" "report" "$(complete_bash opgap rep)"
  for command in $commands; do
    same "bash: options of $command" "$(options_of "$command")" "$(complete_bash opgap "$command" --)"
  done
  same "bash: values" "csv json markdown text" "$(complete_bash opgap report --format '')"
  same "bash: formats of export" "chrome collapsed csv kineto perfetto speedscope sqlite" \
    "$(complete_bash opgap export --to '')"
  same "bash: a reader" "hta tensorboard" "$(complete_bash opgap export --for '')"
  same "bash: folders" "folder perf.json run.opgap train.py" "$(complete_bash opgap snapshot --out '')"
  same "bash: values behind =" "csv json markdown text" "$(complete_bash opgap report --format =)"
  same "bash: a value behind =" "json" "$(complete_bash opgap report --format = j)"
  same "bash: a setting" "both native off python" "$(complete_bash opgap record --stacks '')"
  same "bash: a list" "io,alloc io,all" "$(complete_bash opgap record --hooks io,al | tr ' ' '\n' | sort -r | paste -sd ' ')"
  same "bash: traces" "folder perf.json run.opgap" "$(complete_bash opgap report '')"
  same "bash: files" "folder perf.json run.opgap train.py" "$(complete_bash opgap record --out '')"
  same "bash: no operand" "" "$(complete_bash opgap doctor '')"
  same "bash: a program" "opgap" "$(complete_bash opgap record opga | tr ' ' '\n' | sort -u)"
  same "bash: arguments of the program" "train.py" "$(complete_bash opgap record --log quiet -- python3 tr)"
  same "bash: help" "report" "$(complete_bash opgap help rep)"
else
  echo "left out: bash (not installed)"
fi

if command -v fish >/dev/null; then
  ran="$ran fish"
  same "fish: commands" "$all" "$(complete_fish 'opgap ')"
  for command in $commands; do
    same "fish: options of $command" "$(options_of "$command")" "$(complete_fish "opgap $command --")"
  done
  same "fish: values" "csv json markdown text" "$(complete_fish 'opgap report --format ')"
  same "fish: a value behind =" "--format=json" "$(complete_fish 'opgap report --format=j')"
  same "fish: a setting" "both native off python" "$(complete_fish 'opgap record --stacks ')"
  same "fish: a list" "io,alloc" "$(complete_fish 'opgap record --hooks io,allo')"
  same "fish: traces" "folder/ perf.json run.opgap" "$(complete_fish 'opgap report ')"
  same "fish: arguments of the program" "train.py" "$(complete_fish 'opgap record -- python3 tr')"
else
  echo "left out: fish (not installed)"
fi

python3 "$(dirname "$0")/complete.py" || fail "a typed line was not completed as expected"
[ -n "$ran" ] || skip "neither bash nor fish is installed"
