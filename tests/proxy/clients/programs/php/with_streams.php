<?php
// Asks by way of PHP's own streams. They know of no proxy variable: a program has to read it for them.
[, $verb, $url] = $argv;
$options = ["proxy" => str_replace("http://", "tcp://", getenv("HTTPS_PROXY"))];
if ($verb === "put") {
    // The whole body is a string in memory: there is no other way to give it.
    $options += ["method" => "PUT", "content" => file_get_contents($argv[3])];
    $options["header"] = "content-type: application/octet-stream";
}

$page = fopen($url, "r", false, stream_context_create(["http" => $options]));
// The warning that has been printed is all that this user is shown.
if ($page === false) {
    exit(1);
}
if ($verb !== "stream") {
    stream_copy_to_stream($page, STDOUT);
    exit(0);
}
// Anything that reads more at once waits for 8 KiB of it when the answer comes in chunks.
while (($byte = fgetc($page)) !== false) {
    fwrite(STDOUT, $byte);
}
