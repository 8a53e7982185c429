# Asks a session's shell to leave its command, and signals what it has begun since a moment. What is older is left alone.
#
#   sh -c TEXT sh SHELL SINCE SIGNAL TURNS        TURNS: twentieths of a second in which that should have ended

# Numbers of all that descends from the shell and is young enough.
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
      # Behind the name, which can hold anything: state, parent, and as the twentieth when it began.
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
# It leaves as soon as what it waits for has ended.
kill -USR1 "$shell" 2>/dev/null
young
[ -n "$found" ] && kill "-$signal" $found 2>/dev/null
while [ -n "$found" ] && [ "$turns" -gt 0 ]; do
  sleep 0.05 2>/dev/null || { sleep 1; turns=$((turns - 19)); }
  turns=$((turns - 1))
  young
done
exit 0
