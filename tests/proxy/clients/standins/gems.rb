# Prints what an index of gems says about the gem `tiny` 1.0.0: for `yaml` as it stands in the gem itself, else
# as it stands beside it. Only Ruby can write the second.
require "zlib"

spec = Gem::Specification.new("tiny", "1.0.0") do |about|
  about.authors = ["lab"]
  about.summary = "nothing much"
  about.files = ["lib/tiny.rb"]
end
$stdout.binmode.write(ARGV == ["yaml"] ? spec.to_yaml : Zlib::Deflate.deflate(Marshal.dump(spec)))
