# Lists a folder or a file repeatedly, and prints the list whenever it differs from the last one.
#
#   sh -c TEXT sh PATH SECONDS MARK
#
# A list has MARK once for each entry, with its changing facts and its name; and finally MARK with `end`.
last=none
trap 'exit 0' HUP INT TERM
list() {
  cd -P "$1" 2>/dev/null || { [ -e "$1" ] || return; stat -c "$3%i %f %s %y %z 0
./." "$1" 2>/dev/null; return; }
  find . -exec stat -c "$3%i %f %s %y %z
%n" {} + 2>/dev/null
}
while :; do
  now=$(list "$@")
  if [ "$now" != "$last" ]; then
    printf '%s\n%send\n' "$now" "$3"
    last=$now
  fi
  sleep "$2" || exit 0
done
