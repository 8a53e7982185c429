# Asks by way of net/http, which is told nothing: what it needs to know is in its environment.
require "net/http"

$stdout.sync = true
verb, url, file = ARGV
uri = URI(url)
request = verb == "put" ? Net::HTTP::Put.new(uri) : Net::HTTP::Get.new(uri)
if verb == "put"
  request.body_stream = File.open(file, "rb")
  request.content_length = File.size(file)
  request.content_type = "application/octet-stream"
end

Net::HTTP.start(uri.host, uri.port, use_ssl: true) do |http|
  http.request(request) do |answer|
    answer.value
    answer.read_body { |part| $stdout.write(part) }
  end
end
