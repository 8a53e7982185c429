# Asks a session's shell to return from its command, and signals processes that are younger than the command's start.
# `proc.sh` stands in front of this script.
#
#   sh -c TEXT sh SHELL SINCE SIGNAL TURNS        TURNS: twentieths of a second to wait for their end

# Sets `young` to the numbers of all that descends from the shell and is young enough.
look() {
  family=" $shell " young= more=1
  while [ -n "$more" ]; do
    more=
    each_process
  done
}

found() {
  case $family in *" $1 "*) return 1 ;; esac
  case $family in *" $parent "*) ;; *) return 1 ;; esac
  family="$family$1 " more=1
  if [ "$began" -ge "$since" ]; then young="$young $1"; fi
  return 1
}

shell=$1 since=${2:-0} signal=$3 turns=$4
# The shell returns as soon as the process it waits for has ended.
kill -USR1 "$shell" 2>/dev/null
look
[ -n "$young" ] && kill "-$signal" $young 2>/dev/null
while [ -n "$young" ] && [ "$turns" -gt 0 ]; do
  sleep 0.05 2>/dev/null || { sleep 1; turns=$((turns - 19)); }
  turns=$((turns - 1))
  look
done
exit 0
