# Writes the scripts of commands into a pod that no manifest of ours made. Needs a POSIX shell, and mkdir.
#
#   sh -c TEXT sh FOLDER WORKDIR      standard input: for each script its name, its number of lines, and those lines
umask 077
mkdir -p -- "$1" || exit 41
# The folder of a template may be there already, or may not be ours to make.
mkdir -p -- "$2" 2>/dev/null
while IFS= read -r name && IFS= read -r count; do
  line=0
  while [ "$line" -lt "$count" ]; do
    IFS= read -r text || exit 42
    printf '%s\n' "$text" || exit 42
    line=$((line + 1))
  done >"$1/$name"
done
exit 0
