# Lists a folder or a file, and prints the list whenever it differs from the last one.
#
#   sh -c TEXT sh PATH SECONDS MARK PROGRAM
#
# A list has MARK once for each entry, with its changing facts and its name; and finally MARK with `end`. PROGRAM is
# the text of watch_inside.py, which is told of changes by the kernel. Where no Python runs it, the loop below lists
# again and again.
trap 'exit 0' HUP INT TERM
if command -v python3 >/dev/null 2>&1; then
  python3 -I -S -c "$4" "$1" "$2" "$3" 2>/dev/null
  # Only where it could not begin: 3 without ctypes, 1 in a version that is too old.
  [ $? -eq 3 ] || [ $? -eq 1 ] || exit 0
fi
last=none
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
