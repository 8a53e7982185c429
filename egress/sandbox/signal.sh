# Sends a signal to all processes of a command. They are known by a variable in their environment: a process that cleared
# its environment is not reached. The supervisor of the command has the variable too, and is skipped.
#
#   sh -c TEXT sh SIGNAL NAME=VALUE        exits with 44 if no process was found
found=44
for file in $(grep -l -F -e "$2" /proc/[0-9]*/environ 2>/dev/null); do
  number=${file#/proc/}
  number=${number%/environ}
  line= stat= above=
  { IFS= read -r line <"/proc/$number/cmdline"; } 2>/dev/null
  case $line in *supervisor.sh[rtw]*) continue ;; esac
  { IFS= read -r stat <"/proc/$number/stat"; } 2>/dev/null || continue
  # The fields after the name, which can hold any character: state and parent.
  set -- "$1" "$2" ${stat##*) }
  [ "$3" = Z ] && continue
  # The sleep of the supervisor's timer.
  { IFS= read -r above <"/proc/$4/cmdline"; } 2>/dev/null
  case $above in *supervisor.shwatch*) continue ;; esac
  kill -"$1" "$number" 2>/dev/null && found=0
done
exit "$found"
