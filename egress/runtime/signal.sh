# Sends a signal to all processes of a command. They are known by a variable in their environment: a process that cleared
# its environment is not reached. The supervisor of the command has the variable too, and is skipped.
# `proc.sh` stands in front of this script.
#
#   sh -c TEXT sh SIGNAL NAME=VALUE        exits with 44 if no process was found
found=44
for file in $(grep -l -F -e "$2" /proc/[0-9]*/environ 2>/dev/null); do
  number=${file#/proc/}
  number=${number%/environ}
  words_of "$number"
  case $words in *supervisor.sh[rtw]*) continue ;; esac
  stat_of "$number" || continue
  # A clock's sleep.
  words_of "$parent"
  case $words in *supervisor.shwatch*) continue ;; esac
  kill -"$1" "$number" 2>/dev/null && found=0
done
exit "$found"
