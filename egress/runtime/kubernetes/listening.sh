# Whether a program listens on a TCP port of the pod: exits with 0 if one does, and with 44 otherwise. Needs a POSIX
# shell and /proc.
#
#   sh -c TEXT sh HEX        the port in four digits
look() {
  while read -r _ local _ state _; do
    case $local:$state in *":$port:0A") exit 0 ;; esac
  done <"$1"
}
port=$1
look /proc/net/tcp 2>/dev/null
look /proc/net/tcp6 2>/dev/null
exit 44
