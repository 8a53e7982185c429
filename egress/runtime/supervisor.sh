# Runs a command in a sandbox, and ends it with all its descendants. Needs only a POSIX shell and /proc.
# `proc.sh` stands in front of this script.
#
#   sh supervisor.sh run TOKEN SECONDS TURNS FOLDER WORD...    SECONDS 0: no timeout
#   sh supervisor.sh terminal TOKEN ROWS COLUMNS FOLDER WORD...     in the foreground of a terminal
#   TOKEN=... TURNS=... sh supervisor.sh end                   end the command that was started with that token
#
# The caller gives `run` its own session, as engines do: `run` leads its process group, and the command is in that group.
# At the timeout, or on `end`, the group gets SIGTERM, and the processes that are left after TURNS twentieths of a second
# get SIGKILL. The exit status is the command's; 124 after a timeout, 143 after `end`, 137 if the command had to be killed
# together with `run`: the caller knows why. A line on standard error reports that FOLDER is missing (125), or that no
# process can be started.
#
# The command runs in the foreground, because a shell ignores SIGINT for background commands. Signals are written
# `kill -TERM -GROUP`: the only spelling that the shells of Debian and Alpine, and bash, all accept.
#
# `end` finds its `run` by the token in the arguments of all processes, so no file is needed. Its exit status is 1 if it
# found none, because the command has ended or not started.

enter() {
  if ! cd -- "$1" 2>/dev/null; then
    echo "$token: no such folder" >&2
    exit 125
  fi
  # A user that the image does not know has no home, and many programs need a writable one.
  case ${HOME:-/} in /) export HOME=/tmp ;; esac
}

# Whether a group has processes besides its leader. A timer in the same group, and its sleep, do not count.
is_left() {
  first=$1 clock=${2:-none}
  found() {
    [ "$group" = "$first" ] && [ "$1" != "$first" ] && [ "$1" != "$clock" ] && [ "$parent" != "$clock" ]
  }
  each_process
}

# Waits until only the leader of a group is left, and kills the group after TURNS. It looks often, so that a fast end is
# noticed at once. One look without a process is enough: two of these can wait for one group, and a later look could see
# the sleep of the other.
await_end() {
  left=$2
  while is_left "$1" "$3"; do
    if [ "$left" -le 0 ]; then
      kill -KILL "-$1"
      return
    fi
    sleep 0.05 || { sleep 1; left=$((left - 19)); }
    left=$((left - 1))
  done
}

run() {
  token=$1 seconds=$2 turns=$3
  enter "$4"
  shift 4
  watch= why= setsid=
  # The command does not inherit these traps. The shell runs them after the command's end.
  trap 'why=124' USR1
  trap 'why=${why:-143}' TERM
  exec 3>&2 2>/dev/null
  if [ "$seconds" != 0 ]; then
    command -v setsid >/dev/null && setsid=setsid
    # The timer must hold no output stream: the caller reads until all copies are closed.
    $setsid /bin/sh "$0" watch "$seconds" "$turns" $$ </dev/null >/dev/null 3>&- &
    watch=$!
  fi
  trap 'echo "$token: no room" >&3' EXIT
  # In a subshell with the streams of its own: the shell's message about the end is dropped.
  (exec "$@" 2>&3 3>&-)
  status=$?
  trap - EXIT
  exec >/dev/null 3>&-
  if [ -n "$why" ]; then
    # A shell that cannot fork any more, for a sleep for example, exits at this point.
    trap 'kill -KILL -$$' EXIT
    await_end $$ "$turns" "$watch"
    trap - EXIT
    status=$why
  fi
  [ -n "$watch" ] && end_watch
  exit "$status"
}

# SIGKILL only: a shell that has just started could miss another signal. With a group its sleep is killed as well;
# otherwise the sleep is searched for, while the stopped timer can start no other.
end_watch() {
  if [ -z "$setsid" ]; then
    kill -STOP "$watch"
    found() { [ "$parent" = "$watch" ] && kill -KILL "$1"; return 1; }
    each_process
  fi
  # Both the group and the process, which may not have a group yet.
  kill -KILL "-$watch" "$watch"
}

# Signals `run` and its group at the timeout. A sleep without fractions sleeps the next whole number of seconds.
watch() {
  trap '' TERM
  sleep "$1" || sleep $((${1%.*} + 1))
  kill -USR1 "$3"
  end_group "$3" "$2"
}

end_group() {
  ended=$1
  trap 'kill -KILL "-$ended"' EXIT
  kill -TERM "-$1"
  # Without further processes the leader exits by itself.
  await_end "$1" "$2" $$
  trap - EXIT
}

terminal() {
  token=$1
  # An engine sets the terminal's size only after the command has started, which may have read it by then.
  command -v stty >/dev/null && stty rows "$2" cols "$3" 2>/dev/null
  enter "$4"
  shift 4
  # Not `exec`: the token has to stay in the arguments.
  "$@"
  exit $?
}

end() {
  status=1
  for one in /proc/[0-9]*; do
    number=${one#/proc/}
    words_of "$number"
    case $words in
      *"supervisor.shrun$TOKEN"*) ;;
      # Interactive shells ignore SIGTERM.
      *"supervisor.shterminal$TOKEN"*) kill -HUP "-$number" ;;
      *) continue ;;
    esac
    status=0
    end_group "$number" "$TURNS"
  done 2>/dev/null
  exit "$status"
}

verb=$1
shift
"$verb" "$@"
