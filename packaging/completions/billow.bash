# Completion of billow for bash. The program itself prints the words: billow __complete WORDS.

_billow() {
  local line=${COMP_LINE:0:COMP_POINT} words=() piece i

  # Bash splits words at ':' and '=', which names of models have. Words that no space separates in
  # the line are joined again.
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    piece=${COMP_WORDS[i]}
    if ((i == 0)) || [[ $line == [[:space:]]* ]]; then
      line=${line#"${line%%[![:space:]]*}"}
      words+=('')
    fi
    [[ $line == "$piece"* ]] || piece=$line # the cursor is inside the word
    words[${#words[@]} - 1]+=$piece
    line=${line#"$piece"}
  done

  local current=${words[${#words[@]} - 1]} option=()
  unset 'words[${#words[@]}-1]'
  if [[ $current == --*=* ]]; then
    option=("${current%%=*}")
    current=${current#*=}
  fi

  # Bash replaces only what follows the last ':' or '=', so the words are printed without the rest.
  local kept='' program=billow offer
  [[ $COMP_WORDBREAKS == *:* && $current == *:* ]] && kept=${current%"${current##*:}"}
  type -P -- "$1" >/dev/null && program=$1
  COMPREPLY=()
  while IFS=$'\t' read -r offer _; do
    COMPREPLY+=("${offer#"$kept"}")
  done < <(command "$program" __complete "${words[@]:1}" "${option[@]}" "$current" 2>/dev/null)
}

# Without offers, bash completes names of files.
complete -o default -o nosort -F _billow billow
