# Plants files in a sandbox, as its user and before anything else runs there. A POSIX shell and mkdir are needed.
#
#   sh -c '...' sh first|again PLACE...    PLACE: where something of the host is mounted, and nothing is planted
#
# Standard input has for each file a line with its path, a line with how many lines it has, and those. A path is whole,
# or begins with ~/. `again`: what is there by now stays as it is.
#
# Nothing goes through a link to where something of the host is, and nothing is written over. Where one cannot be
# planted its number is told, counted from 1, and why: 41 there is no home, 42 it would be in a mount, 43 something is
# in its place, 44 its folder cannot be made, 45 it cannot be written, 46 there is no mkdir.

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
    # It is made here, or not at all: whoever was quicker would have it written through his own.
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
