# A shell that stays: reads what it is to do line by line, and says when it has done it.
#
# Two lines come for each command: a mark that nobody can guess, and the command, packed into one line for `printf %b`, with a dot in
# front, so that none is empty.
# When it has ended the mark is written to both outputs as they were in the beginning, with the status behind it. The
# command has neither those outputs nor what the lines come from: it reads nothing, and cannot write over them. It is
# run in this very shell, so whatever it sets, and wherever it goes, stays.
#
# USR1 asks it to leave the command it is in: to return from it. That is right only where no function of the command is
# under way, or what follows it would be run after all; its words tell, for they are those of the innermost function.
# Elsewhere the shell ends itself.
exec 9<&0 7>&1 8>&2 </dev/null >/dev/null 2>&1
_egress_busy= _egress_again=
_egress_leave='_egress_again=1; if [ -n "$_egress_busy" ]; then
  if [ "${1-}" = "$_egress_mark" ]; then return 143; else kill -KILL $$; fi
fi'
trap "$_egress_leave" USR1
_egress_do() { command eval "$_egress_line" >&7 2>&8 7>&- 8>&- 9<&-; }
_egress_next() {
  IFS= read -r _egress_mark <&9 && IFS= read -r _egress_line <&9 && return
  # A signal that came too late ends no session.
  [ -n "$_egress_again" ] || return 1
  _egress_again= _egress_line=
}
printf '%s %s\n' "$1" $$ >&7
while _egress_next; do
  [ -n "$_egress_line" ] || continue
  _egress_line=$(printf '%b.' "$_egress_line")
  _egress_line=${_egress_line%.}
  _egress_line=${_egress_line#.}
  # When it began, in hundredths of a second: what is younger belongs to this command.
  _egress_since=
  { IFS=' ' read -r _egress_since _egress_rest </proc/uptime; }
  printf '%s %s\n' "$_egress_mark" "${_egress_since%%.*}${_egress_since#*.}" >&7
  _egress_busy=1
  _egress_do "$_egress_mark"
  _egress_status=$? _egress_busy=
  printf '%s %s\n' "$_egress_mark" "$_egress_status" >&7
  printf '%s %s\n' "$_egress_mark" "$_egress_status" >&8
done
