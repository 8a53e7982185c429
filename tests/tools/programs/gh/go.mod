module egress.test/gh

go 1.25.0

require github.com/cli/cli/v2 v2.83.2
