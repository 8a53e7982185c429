# What is done with the files of a sandbox, as its user. Nothing is needed but a POSIX shell and the programs that
# come with one; `stat -c`, `head -c` and `readlink` are those of GNU, busybox or toybox.
#
#   sh -c TEXT sh VERB ROOT PATH WORD...
#
# A relative PATH begins in the folder that this is run in, and has to end below ROOT, wherever links lead; an absolute
# one is given with / as its ROOT. It is walked part by part, each by entering the folder, so what is found inside is
# what is worked on: nobody can put another folder in its place meanwhile. A path is never part of the text that a shell
# reads.
#
# Statuses: 40 no such program, 41 too many links, 42 outside, 43 there is something, 44 nothing there, 45 no folder,
# 46 a folder, 47 not allowed, or no room, 48 not empty.

refuse() { exit "$1"; }

# Where we are, with a dot behind it: a substitution takes line ends away.
here() { pwd -P && printf .; }

inside() {
  at=$(here) || refuse 47
  at=${at%??}
  case ${at%/}/ in "${root%/}"/*) ;; *) refuse 42 ;; esac
}

# Enters one folder of the path.
step() {
  if cd -P "./$1" 2>/dev/null; then return; fi
  if [ -d "./$1" ]; then refuse 47; fi
  if [ -e "./$1" ]; then refuse 45; fi
  if [ -n "$make" ]; then
    [ -L "./$1" ] && refuse 44
    inside
    mkdir "./$1" 2>/dev/null || [ -d "./$1" ] || refuse 47
    cd -P "./$1" 2>/dev/null || refuse 47
    return
  fi
  [ -x . ] || refuse 47
  refuse 44
}

# Enters all folders of a path but the last part of it, which is then in `last`: a name, or nothing for the folder that
# was entered.
walk() {
  rest=$1 last=
  case $rest in /*) cd / || refuse 47 ;; esac
  while [ -n "$rest" ]; do
    part=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    case $part in '' | .) continue ;; esac
    [ -n "$last" ] && step "$last"
    last=$part
  done
  if [ "$last" = .. ]; then step .. && last=; fi
}

# Goes where a link leads, and on.
follow() {
  turns=40
  while [ -n "$last" ] && [ -L "./$last" ]; do
    turns=$((turns - 1))
    [ "$turns" -gt 0 ] || refuse 41
    to=$(readlink "./$last" 2>/dev/null && printf .) || refuse 40
    walk "${to%??}"
  done
}

reach() { walk "$path" && inside; }
reach_through() { walk "$path" && follow && inside; }

exists() { [ -e "./$last" ] || [ -L "./$last" ]; }

# A name that is no folder, and there.
file() {
  [ -z "$last" ] && refuse 46
  [ -d "./$last" ] && refuse 46
  exists && return
  [ -x . ] || refuse 47
  refuse 44
}

# WORD: bytes at most.
verb_read() {
  reach_through
  file
  # Nothing that never ends, or waits for somebody.
  [ -f "./$last" ] || refuse 46
  [ -r "./$last" ] || refuse 47
  exec head -c "$1" "./$last"
}

# WORDS: a name that nobody has, and permissions or nothing.
verb_write() {
  make=1
  reach_through
  [ -z "$last" ] && refuse 46
  [ -d "./$last" ] && refuse 46
  new=./$1
  trap 'rm -f "$new"' EXIT
  trap 'exit 47' HUP INT TERM
  set -C
  (umask 077 && cat >"$new") 2>/dev/null || refuse 47
  set +C
  mode=$2
  [ -z "$mode" ] && [ -f "./$last" ] && mode=$(stat -c %a "./$last" 2>/dev/null)
  [ -z "$mode" ] && mode=$(printf %o $((0666 & ~$(umask))))
  chmod "$mode" "$new" 2>/dev/null || refuse 47
  mv -f "$new" "./$last" 2>/dev/null </dev/null || refuse 47
}

verb_stat() {
  reach
  if [ -z "$last" ]; then last=.; fi
  exists || { [ -x . ] || refuse 47; refuse 44; }
  link=
  if [ -L "./$last" ]; then
    link=l
    follow
    inside
    if [ -z "$last" ]; then last=.; fi
    [ -e "./$last" ] || refuse 44
  fi
  said=$(stat -L -c '%f %s %Y' "./$last" 2>/dev/null) || refuse 40
  echo "$said $link"
}

verb_exists() {
  reach_through
  [ -z "$last" ] || [ -e "./$last" ] || refuse 44
}

verb_list() {
  reach_through
  [ -n "$last" ] && step "$last"
  inside
  [ -r . ] || refuse 47
  for name in * .[!.]* ..?*; do
    if [ -e "./$name" ] || [ -L "./$name" ]; then printf '%s/' "$name"; fi
  done
}

# WORD: something, where the folders above are made and one that is there is all right.
verb_mkdir() {
  make=$1
  reach
  [ -z "$last" ] && { [ -n "$1" ] && return; refuse 43; }
  if [ -n "$1" ] && [ -d "./$last" ]; then return; fi
  exists && refuse 43
  mkdir "./$last" 2>/dev/null || refuse 47
}

# WORD: something, where a folder goes with all it holds.
verb_remove() {
  reach
  [ -z "$last" ] && refuse 46
  exists || { [ -x . ] || refuse 47; refuse 44; }
  if [ -d "./$last" ] && ! [ -L "./$last" ]; then
    if [ -n "$1" ]; then rm -rf "./$last" 2>/dev/null || refuse 47; return; fi
    rmdir "./$last" 2>/dev/null && return
    [ -n "$(ls -A "./$last" 2>/dev/null)" ] && refuse 48
    refuse 47
  fi
  rm -f "./$last" 2>/dev/null || refuse 47
}

# WORDS: root and path of the other name.
verb_rename() {
  start=$(here) || refuse 47
  reach
  [ -z "$last" ] && refuse 46
  exists || { [ -x . ] || refuse 47; refuse 44; }
  from=$(here) || refuse 47
  from=${from%??}/$last
  cd -P "${start%??}" 2>/dev/null || refuse 47
  root=${1:-${start%??}} path=$2
  reach
  [ -z "$last" ] && refuse 43
  # Into a folder it would be moved, and a folder goes over nothing.
  [ -d "./$last" ] && refuse 43
  if exists && [ -d "$from" ] && ! [ -L "$from" ]; then refuse 43; fi
  mv -f "$from" "./$last" 2>/dev/null </dev/null || refuse 47
}

# Says where a path leads, with a slash behind it. WORD: `above` or `all`, the folders that are made where they are
# missing.
verb_resolve() {
  make=$1
  reach_through
  if [ -n "$last" ] && [ "$make" = all ]; then step "$last"; last=; inside; fi
  at=$(here) || refuse 47
  at=${at%??}
  printf '%s/' "${at%/}${last:+/$last}"
}

verb=$1 root=$2 path=$3
shift 3
make=
unset CDPATH
# Where it is relative to the workspace, that is where this was begun.
if [ -z "$root" ]; then root=$(here) && root=${root%??}; fi
"verb_$verb" "$@"
