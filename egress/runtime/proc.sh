# What scripts in a sandbox ask /proc. This stands in front of each of them; a POSIX shell is needed, and no program.

# Sets `state`, `parent`, `group`, and `began`, in hundredths of a second since the machine began, for the process $1.
# The status is 1 where there is none, or only a zombie.
stat_of() {
  stat= part=
  # The name of a process can hold anything, line ends too: what counts stands behind the last bracket.
  { while IFS= read -r part; do stat="$stat$part "; done <"/proc/$1/stat"; } 2>/dev/null
  set -- ${stat##*) }
  [ $# -ge 20 ] || return 1
  state=$1 parent=$2 group=$3
  shift 19
  began=$1
  [ "$state" != Z ]
}

# Calls `found NUMBER` for each process, with what `stat_of` sets, until it returns 0.
each_process() {
  for file in /proc/[0-9]*; do
    stat_of "${file#/proc/}" && found "${file#/proc/}" && return 0
  done
  return 1
}

# Sets `words` to the arguments of the process $1, with nothing between them.
words_of() {
  words=
  { IFS= read -r words <"/proc/$1/cmdline"; } 2>/dev/null
}
