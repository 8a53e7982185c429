<?php
// Asks by way of the curl extension, which is told nothing: it reads the proxy from the environment.
[, $verb, $url] = $argv;
$ask = curl_init($url);
if ($verb === "put") {
    curl_setopt($ask, CURLOPT_UPLOAD, true);
    curl_setopt($ask, CURLOPT_INFILE, fopen($argv[3], "rb"));
    curl_setopt($ask, CURLOPT_INFILESIZE, filesize($argv[3]));
}
$denied = "";
curl_setopt($ask, CURLOPT_HEADERFUNCTION, function ($_, $line) use (&$denied) {
    if (stripos($line, "egress-denied:") === 0) {
        $denied = $line;
    }
    return strlen($line);
});
$status = fn () => curl_getinfo($ask, CURLINFO_RESPONSE_CODE);
$write = fn ($_, $part) => intdiv($status(), 100) === 2 ? fwrite(STDOUT, $part) : strlen($part);
curl_setopt($ask, CURLOPT_WRITEFUNCTION, $write);

if (!curl_exec($ask)) {
    // Where there was no answer this is all that a program shows; the header of a proxy is nobody's business.
    fwrite(STDERR, curl_error($ask) . "\n");
    exit(1);
}
if (intdiv($status(), 100) !== 2) {
    fwrite(STDERR, $status() . " $denied");
    exit(1);
}
