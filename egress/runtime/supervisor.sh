# Runs a command in a sandbox, and ends it with all its descendants. Needs only a POSIX shell and /proc.
# `proc.sh` stands in front of this script.
#
#   sh supervisor.sh run TOKEN SECONDS TURNS FOLDER WORD...    SECONDS 0: no timeout
#   egress_report=1 sh supervisor.sh run ...                   write `TOKEN: ended STATUS` behind both outputs
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
# Some engines do not tell the end of `run` before every process has closed its output, also one that was left behind.
# Such an engine's runtime asks for the report. The command does not see the variable that asks for it.
#
# `end` finds its `run` by the token in the arguments of all processes, so no file is needed. Its exit status is 1 if it
# found none, because the command has ended or not started.

enter() {
  if ! cd -- "$1" 2>/dev/null; then
    echo "$egress_token: no such folder" >&2
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

# Whether a program exists, looked up as `exec` does it: the message of `exec` names a line of this script. The status is
# 127 for a program that is missing, and 126 for one that the user may not run.
has_program() {
  egress_missing=127
  case $1 in
    */*) is_program "$1" && return ;;
    *)
      egress_places=${PATH-/usr/local/bin:/usr/bin:/bin}:
      while [ -n "$egress_places" ]; do
        egress_place=${egress_places%%:*} egress_places=${egress_places#*:}
        is_program "${egress_place:-.}/$1" && return
      done
      ;;
  esac
  case $egress_missing in
    127) printf 'command not found: %s\n' "$1" ;;
    *) printf 'command cannot be run: %s\n' "$1" ;;
  esac
  return "$egress_missing"
}

is_program() {
  [ -e "$1" ] || return
  egress_missing=126
  [ -f "$1" ] && [ -x "$1" ]
}

# Before the command, only variables that begin with `egress_` are set: another one would replace a variable that the
# command was given.
run() {
  egress_token=$1 egress_seconds=$2 egress_turns=$3
  enter "$4"
  shift 4
  egress_watch= egress_why= egress_setsid= egress_reports=${egress_report-}
  unset egress_report
  # The command does not inherit these traps. The shell runs them after the command's end.
  trap 'egress_why=124' USR1
  trap 'egress_why=${egress_why:-143}' TERM
  exec 3>&2 2>/dev/null
  if [ "$egress_seconds" != 0 ]; then
    command -v setsid >/dev/null && egress_setsid=setsid
    # The timer must hold no output stream: the caller reads until all copies are closed.
    $egress_setsid /bin/sh "$0" watch "$egress_seconds" "$egress_turns" $$ </dev/null >/dev/null 3>&- &
    egress_watch=$!
  fi
  trap 'echo "$egress_token: no room" >&3' EXIT
  # In a subshell with the streams of its own: the shell's message about the end is dropped.
  has_program "$1" >&3 && (exec "$@" 2>&3 3>&-)
  status=$?
  trap - EXIT
  [ -n "$egress_reports" ] && exec 4>&1 5>&3
  exec >/dev/null 3>&-
  if [ -n "$egress_why" ]; then
    # A shell that cannot fork any more, for a sleep for example, exits at this point.
    trap 'kill -KILL -$$' EXIT
    await_end $$ "$egress_turns" "$egress_watch"
    trap - EXIT
    status=$egress_why
  fi
  [ -n "$egress_watch" ] && end_watch
  # In one write each, so that nothing comes between its parts.
  [ -n "$egress_reports" ] && printf '%s: ended %s\n' "$egress_token" "$status" >&4 &&
    printf '%s: ended %s\n' "$egress_token" "$status" >&5
  exit "$status"
}

# SIGKILL only: a shell that has just started could miss another signal. With a group its sleep is killed as well;
# otherwise the sleep is searched for, while the stopped timer can start no other.
end_watch() {
  if [ -z "$egress_setsid" ]; then
    kill -STOP "$egress_watch"
    found() { [ "$parent" = "$egress_watch" ] && kill -KILL "$1"; return 1; }
    each_process
  fi
  # Both the group and the process, which may not have a group yet.
  kill -KILL "-$egress_watch" "$egress_watch"
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
  egress_token=$1
  # An engine sets the terminal's size only after the command has started, which may have read it by then.
  command -v stty >/dev/null && stty rows "$2" cols "$3" 2>/dev/null
  enter "$4"
  shift 4
  # Not `exec` of this process: the token has to stay in its arguments.
  has_program "$1" && (exec "$@")
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

egress_verb=$1
shift
"$egress_verb" "$@"
