# File operations in a sandbox, as its user. Needs a POSIX shell with its usual programs; `stat -c`, `head -c` and
# `readlink` have to be those of GNU, busybox or toybox.
#
#   sh -c TEXT sh VERB ROOT PATH WORD...
#
# A relative PATH starts in the working directory, and has to end below ROOT, wherever links lead; an absolute PATH has /
# as its ROOT. The script walks it part by part, entering each folder, so the checked folder is the used one: no process
# can replace it meanwhile. A path never becomes part of the text that a shell
# parses.
#
# Exit statuses: 40 program missing, 41 too many links, 42 outside, 43 exists already, 44 not found, 45 not a folder,
# 46 a folder, 47 not allowed or disk full, 48 not empty, 49 incomplete.

refuse() { exit "$1"; }

# Prints the working directory and a dot: command substitution strips newlines at the end.
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

# Enters all folders of a path but its last part, and puts that into `last`: a name, or nothing for the folder that was
# entered.
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

# Follows links at the end of the path.
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

# Requires an existing name that is no folder.
file() {
  [ -z "$last" ] && refuse 46
  [ -d "./$last" ] && refuse 46
  exists && return
  [ -x . ] || refuse 47
  refuse 44
}

# WORD: the maximum of bytes.
verb_read() {
  reach_through
  file
  # Regular files only: a device might never end, and a pipe might block.
  [ -f "./$last" ] || refuse 46
  [ -r "./$last" ] || refuse 47
  exec head -c "$1" "./$last"
}

# Prints the size of a file in a line, reads a line with an offset and a count, and prints these bytes.
verb_open() {
  reach_through
  file
  [ -f "./$last" ] || refuse 46
  [ -r "./$last" ] || refuse 47
  # All that follows is of this one open file, whatever is renamed over its name meanwhile.
  exec 3<"./$last"
  stat -L -c %s /proc/self/fd/3 2>/dev/null || refuse 40
  IFS=' ' read -r offset count || exit 0
  # Reads nothing, but moves the position that `head` goes on from.
  [ "$offset" = 0 ] || dd bs=1 skip="$offset" count=0 <&3 2>/dev/null || refuse 47
  exec head -c "$count" <&3
}

# WORDS: an unused temporary name, permissions or nothing, and a mark that stands after the content, or nothing. The end of
# the input alone may be that of a sender that was killed, and half of a file must not become the file.
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
  if [ -n "${3-}" ]; then
    size=$(stat -c %s "$new" 2>/dev/null) || refuse 40
    size=$((size - ${#3}))
    [ "$size" -ge 0 ] && [ "$(dd if="$new" bs=1 skip="$size" 2>/dev/null)" = "$3" ] || refuse 49
    dd if=/dev/null of="$new" bs=1 seek="$size" 2>/dev/null || refuse 47
  fi
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

# Prints each entry of a folder: its facts, `./` and its name, a slash and a line end. A link is listed as itself. WORD: the
# maximum of bytes.
verb_entries() {
  reach_through
  [ -n "$last" ] && step "$last"
  inside
  [ -r . ] && [ -x . ] || refuse 47
  stat -c %f . >/dev/null 2>&1 || refuse 40
  # Names hold no slash, so a slash and a line end are the end of an entry only.
  find . ! -name . -prune -exec stat -c '%f %s %Y %n/' {} + 2>/dev/null | head -c "$1"
}

# WORD: not empty to create folders above, and to accept an existing folder.
verb_mkdir() {
  make=$1
  reach
  [ -z "$last" ] && { [ -n "$1" ] && return; refuse 43; }
  if [ -n "$1" ] && [ -d "./$last" ]; then return; fi
  exists && refuse 43
  mkdir "./$last" 2>/dev/null || refuse 47
}

# WORD: not empty to remove a folder with its content.
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

# WORDS: root and path of the new name.
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
  # mv would move into an existing folder, and must not replace anything by a folder.
  [ -d "./$last" ] && refuse 43
  if exists && [ -d "$from" ] && ! [ -L "$from" ]; then refuse 43; fi
  mv -f "$from" "./$last" 2>/dev/null </dev/null || refuse 47
}

# Prints the resolved path with a slash at the end. WORD: `above` or `all`, the folders to create if they are
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
# A relative path must stay below the workspace, the initial working directory.
if [ -z "$root" ]; then root=$(here) && root=${root%??}; fi
"verb_$verb" "$@"
