# Asks by way of LWP, which is told nothing: what it needs to know is in its environment.
use strict;
use warnings;
use LWP::UserAgent;

$| = 1;
my ($verb, $url, $file) = @ARGV;
my $request = HTTP::Request->new($verb eq "put" ? "PUT" : "GET", $url);
if ($verb eq "put") {
    open my $body, "<:raw", $file or die $!;
    $request->header("content-length" => -s $file);
    $request->content(sub { read($body, my $part, 65536); return $part });
}

my $answer = LWP::UserAgent->new->request($request, sub { print $_[0] });
die $answer->status_line, "\n" unless $answer->is_success;
# What went wrong while the body came is here, and nowhere else.
die $answer->header("x-died"), "\n" if $answer->header("x-died");
