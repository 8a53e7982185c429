# Asks a session's shell to return from its command, and signals processes that are younger than the command's start.
#
#   sh -c TEXT sh SHELL SINCE SIGNAL TURNS        TURNS: twentieths of a second to wait for their end

# Process ids of the shell's descendants that are young enough.
young() {
  family=" $shell " found= more=1
  while [ -n "$more" ]; do
    more=
    for file in /proc/[0-9]*/stat; do
      number=${file#/proc/}
      number=${number%/stat}
      case $family in *" $number "*) continue ;; esac
      line=
      { IFS= read -r line <"$file"; } 2>/dev/null
      # The fields after the name, which can hold any character: state, parent, and as twentieth the start time.
      set -- ${line##*) }
      [ "$1" = Z ] && continue
      case $family in *" $2 "*) ;; *) continue ;; esac
      family="$family$number "
      more=1
      shift 19 2>/dev/null || continue
      if [ "$1" -ge "$since" ]; then found="$found $number"; fi
    done
  done
}

shell=$1 since=${2:-0} signal=$3 turns=$4
# The shell returns as soon as the process it waits for has ended.
kill -USR1 "$shell" 2>/dev/null
young
[ -n "$found" ] && kill "-$signal" $found 2>/dev/null
while [ -n "$found" ] && [ "$turns" -gt 0 ]; do
  sleep 0.05 2>/dev/null || { sleep 1; turns=$((turns - 19)); }
  turns=$((turns - 1))
  young
done
exit 0
