# Runs a command in a sandbox, and ends it with all that it began. Nothing but a POSIX shell and /proc is needed.
# `proc.sh` stands in front of this.
#
#   sh supervisor.sh run TOKEN SECONDS TURNS FOLDER WORD...    SECONDS 0: as long as it takes
#   sh supervisor.sh terminal TOKEN ROWS COLUMNS FOLDER WORD...     in the foreground of a terminal
#   TOKEN=... TURNS=... sh supervisor.sh end                   end what was begun with that token
#
# Whoever calls `run` gives it a session of its own, as engines do: it is the first of its process group, and the
# command is in that group with it. When time is over, or `end` asks for it, the group gets TERM, and those that are
# left after TURNS twentieths of a second get KILL. The status is that of the command; 124 when time was over, 143 when
# it was ended, 137 where the command had to be killed and `run` went with it: whoever asked knows why. One line on
# standard error says that FOLDER is none (125), or that no process can be begun.
#
# The command is in the foreground, for a shell takes SIGINT from those in the background. Signals are written
# `kill -TERM -GROUP`: the one spelling that the shells of Debian, Alpine and bash all read.
#
# `end` finds its `run` by the token among the arguments of all processes: nothing has to be written down for it. Its
# status is 1 where it found none, because it has ended, or has not begun.

enter() {
  if ! cd -- "$1" 2>/dev/null; then
    echo "$token: no such folder" >&2
    exit 125
  fi
  # Whom the image does not know has no home, and many programs want to write there.
  case ${HOME:-/} in /) export HOME=/tmp ;; esac
}

# Whether others of a group are left than its first. A clock in the same group, and its sleep, do not count.
is_left() {
  first=$1 clock=${2:-none}
  found() {
    [ "$group" = "$first" ] && [ "$1" != "$first" ] && [ "$1" != "$clock" ] && [ "$parent" != "$clock" ]
  }
  each_process
}

# Waits until a group has only its first, and kills it where others are left when TURNS have passed. It looks often,
# so that what goes at once is not waited for. One look that finds nobody is enough: two of these can wait for one
# group, and a later look could see nothing but the sleep of the other.
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
  # The command does not inherit them. They are looked at when it has ended.
  trap 'why=124' USR1
  trap 'why=${why:-143}' TERM
  exec 3>&2 2>/dev/null
  if [ "$seconds" != 0 ]; then
    command -v setsid >/dev/null && setsid=setsid
    # It must hold none of the streams: they are read until nobody does.
    $setsid /bin/sh "$0" watch "$seconds" "$turns" $$ </dev/null >/dev/null 3>&- &
    watch=$!
  fi
  trap 'echo "$token: no room" >&3' EXIT
  # In its place, and with streams of its own: what the shell says of its end goes nowhere.
  (exec "$@" 2>&3 3>&-)
  status=$?
  trap - EXIT
  exec >/dev/null 3>&-
  if [ -n "$why" ]; then
    # A shell that can begin no process any more, a sleep for one, ends there and then.
    trap 'kill -KILL -$$' EXIT
    await_end $$ "$turns" "$watch"
    trap - EXIT
    status=$why
  fi
  [ -n "$watch" ] && end_watch
  exit "$status"
}

# No other signal than KILL: a shell that was just begun could miss it. Where it has a group its sleep goes with it,
# else that is looked for, while it can begin no other.
end_watch() {
  if [ -z "$setsid" ]; then
    kill -STOP "$watch"
    found() { [ "$parent" = "$watch" ] && kill -KILL "$1"; return 1; }
    each_process
  fi
  # Its group and itself, for it may have none yet.
  kill -KILL "-$watch" "$watch"
}

# Tells `run`, and its group, when time is over. A sleep that knows no fractions sleeps the next whole number.
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
  # With nobody left its first comes to its end by itself.
  await_end "$1" "$2" $$
  trap - EXIT
}

terminal() {
  token=$1
  # An engine tells the terminal its size when the command runs already, and that may have asked by then.
  command -v stty >/dev/null && stty rows "$2" cols "$3" 2>/dev/null
  enter "$4"
  shift 4
  # Not `exec`: the token has to stay among the arguments.
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
      # Shells at a terminal have no ear for TERM.
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
