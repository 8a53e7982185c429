# Begins a command in a pod. The API server takes words alone, which stand in its log, and no variables: so both come
# over the standard input, in front of the input of the command. Needs only a POSIX shell.
#
#   sh begin.sh input               variables and words come first on standard input
#   sh begin.sh words [NAME=VALUE...] -- WORD...      for a terminal, whose input cannot be split
#
# On standard input, a text is a line with its number of lines, and those lines. First comes the number of variables,
# then each as NAME=VALUE, then the number of words, then each word.

egress_nl='
'
# Sets egress_text to the next text. `read` takes one byte at a time, so nothing of the command's own input is lost.
next_text() {
  IFS= read -r egress_lines || exit 125
  IFS= read -r egress_text || exit 125
  while [ "$egress_lines" -gt 1 ]; do
    IFS= read -r egress_line || exit 125
    egress_text=$egress_text$egress_nl$egress_line
    egress_lines=$((egress_lines - 1))
  done
}

case $1 in
  input)
    shift
    IFS= read -r egress_count || exit 125
    while [ "$egress_count" -gt 0 ]; do
      next_text
      export "$egress_text"
      egress_count=$((egress_count - 1))
    done
    IFS= read -r egress_count || exit 125
    while [ "$egress_count" -gt 0 ]; do
      next_text
      set -- "$@" "$egress_text"
      egress_count=$((egress_count - 1))
    done
    ;;
  words)
    shift
    while [ "$1" != -- ]; do
      export "$1"
      shift
    done
    shift
    ;;
esac
unset egress_nl egress_lines egress_text egress_line egress_count
exec "$@"
