# Plants files in a sandbox, as its user and before any other process. Needs a POSIX shell and mkdir.
#
#   sh -c '...' sh first|again PLACE...    PLACE: the target of a host mount, where no file is planted
#
# For each file standard input has a line with its path, a line with its number of lines, and those lines. A path is
# absolute, or begins with ~/. `again`: existing files stay unchanged.
#
# No write goes through a link into a host mount, and no file is overwritten. A failure prints the number of the file,
# counted from 1, and exits with the reason: 41 no home, 42 inside a mount, 43 the path is taken, 44 its folder cannot be
# created, 45 it cannot be written, 46 no mkdir.

umask 077
again=$1
shift
number=0
exec 3>&1

fail() {
  echo "$number" >&3
  exit "$1"
}

while IFS= read -r path && IFS= read -r count; do
  number=$((number + 1))
  case $path in
  '~/'*)
    case ${HOME-} in
    /*) path=${HOME%/}/${path#??} ;;
    *) fail 41 ;;
    esac
    ;;
  esac
  folder=${path%/*}
  above=$folder
  until [ -d "${above:-/}" ]; do
    { [ -e "$above" ] || [ -L "$above" ]; } && fail 43
    above=${above%/*}
  done
  real=$(cd -P -- "${above:-/}" 2>/dev/null && pwd -P) || fail 44
  real=${real%/}${folder#"$above"}/${path##*/}
  for place; do
    there=$(cd -P -- "$place" 2>/dev/null && pwd -P) || there=$place
    case $real in
    "${there%/}" | "${there%/}"/*) fail 42 ;;
    esac
  done
  into=$path
  if [ -e "$path" ] || [ -L "$path" ]; then
    [ "$again" = again ] || fail 43
    into=/dev/null
  else
    if [ ! -d "${folder:-/}" ]; then
      command -v mkdir >/dev/null || fail 46
      mkdir -p -- "$folder" 2>/dev/null || fail 44
    fi
    # Create the file exclusively: another process might have put a link to a file of its own there.
    (set -C && : >"$path") 2>/dev/null || fail 45
  fi
  line=0
  while [ "$line" -lt "$count" ]; do
    IFS= read -r text || fail 45
    printf '%s\n' "$text" || fail 45
    line=$((line + 1))
  done >>"$into" 2>/dev/null
done
exit 0
