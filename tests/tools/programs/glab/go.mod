module egress.test/glab

go 1.25.0

require github.com/profclems/glab v1.22.0
