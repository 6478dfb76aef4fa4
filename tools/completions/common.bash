# Words that begin with $2.
_opgap_words()
{
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

# Paths that begin with $1; trace folders are whole words, other folders go on.
_opgap_paths()
{
  local path
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
  compopt -o filenames 2>/dev/null
  for path in "${COMPREPLY[@]}"; do
    [[ -d $path && $path != *.opgap ]] && compopt -o nospace 2>/dev/null
  done
}

_opgap_traces()
{
  local path all
  _opgap_paths "$1"
  all=("${COMPREPLY[@]}")
  COMPREPLY=()
  for path in "${all[@]}"; do
    [[ -d $path || $path == *.opgt || $path == *.json ]] && COMPREPLY+=("$path")
  done
}

_opgap_value()
{
  case $1 in
  '<files>') _opgap_paths "$2" ;;
  '<list> '*)
    local before=
    [[ $2 == *,* ]] && before=${2%,*},
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "${1#<list> }" -- "${2##*,}")
    compopt -o nospace 2>/dev/null
    ;;
  *) _opgap_words "$1" "$2" ;;
  esac
}

_opgap()
{
  local current=$2 previous=$3 command=${COMP_WORDS[1]} values i
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 ]]; then
    _opgap_words "$_opgap_commands" "$current"
    return
  fi
  if [[ $command == help ]]; then
    [[ $COMP_CWORD -eq 2 ]] && _opgap_words "${_opgap_commands%% help*}" "$current"
    return
  fi
  # --option=value comes as three words
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = && $COMP_CWORD -ge 3 ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  # behind the traced program everything is its own
  if [[ $(_opgap_operand "$command") == program ]]; then
    for ((i = 2; i < COMP_CWORD; i++)); do
      if [[ ${COMP_WORDS[i]} == -- ]]; then
        ((i++))
        break
      fi
      if [[ ${COMP_WORDS[i]} != -* ]]; then
        break
      fi
      if _opgap_values "$command/${COMP_WORDS[i]}" >/dev/null; then
        [[ ${COMP_WORDS[i + 1]} == = ]] && ((i++))
        ((i++))
      fi
    done
    if ((i < COMP_CWORD)); then
      if declare -F _command_offset >/dev/null; then
        _command_offset "$i"
      else
        _opgap_paths "$current"
      fi
      return
    fi
  fi
  if [[ $previous == -* ]] && values=$(_opgap_values "$command/$previous"); then
    _opgap_value "$values" "$current"
  elif [[ $current == -* && ! " ${COMP_WORDS[*]:1:COMP_CWORD-1} " == *" -- "* ]]; then
    _opgap_words "$(_opgap_options "$command")" "$current"
  else
    case $(_opgap_operand "$command") in
    program) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    trace) _opgap_traces "$current" ;;
    esac
  fi
}
complete -F _opgap opgap
