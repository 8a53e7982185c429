# A persistent shell: reads commands line by line, and reports the end of each.
#
# Each command comes as two lines: an unguessable marker, and the command, packed into one line for `printf %b`, with a
# leading dot, so that no line is empty. At its end the marker is written to both original outputs, with the status. The
# command has neither these outputs nor the input of the loop: it reads nothing, and cannot write over the markers. It
# runs in this shell itself, so variables and the working directory stay.
#
# USR1 asks the shell to return from the current command. That is safe only outside of the command's own functions, or
# the rest of the command would run after all; the positional parameters tell, because they belong to the innermost
# function. Inside a function the shell kills itself.
exec 9<&0 7>&1 8>&2 </dev/null >/dev/null 2>&1
_egress_busy= _egress_again=
_egress_leave='_egress_again=1; if [ -n "$_egress_busy" ]; then
  if [ "${1-}" = "$_egress_mark" ]; then return 143; else kill -KILL $$; fi
fi'
trap "$_egress_leave" USR1
_egress_do() { command eval "$_egress_line" >&7 2>&8 7>&- 8>&- 9<&-; }
_egress_next() {
  IFS= read -r _egress_mark <&9 && IFS= read -r _egress_line <&9 && return
  # A signal after the end of a command must not end the session.
  [ -n "$_egress_again" ] || return 1
  _egress_again= _egress_line=
}
printf '%s %s\n' "$1" $$ >&7
while _egress_next; do
  [ -n "$_egress_line" ] || continue
  _egress_line=$(printf '%b.' "$_egress_line")
  _egress_line=${_egress_line%.}
  _egress_line=${_egress_line#.}
  # The start in hundredths of a second: younger processes belong to this command.
  _egress_since=
  { IFS=' ' read -r _egress_since _egress_rest </proc/uptime; }
  printf '%s %s\n' "$_egress_mark" "${_egress_since%%.*}${_egress_since#*.}" >&7
  _egress_busy=1
  _egress_do "$_egress_mark"
  _egress_status=$? _egress_busy=
  printf '%s %s\n' "$_egress_mark" "$_egress_status" >&7
  printf '%s %s\n' "$_egress_mark" "$_egress_status" >&8
done
