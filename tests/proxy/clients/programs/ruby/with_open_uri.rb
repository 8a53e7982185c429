# Asks by way of open-uri, which is told nothing: what it needs to know is in its environment.
require "open-uri"

URI(ARGV[1]).open { |page| IO.copy_stream(page, $stdout) }
