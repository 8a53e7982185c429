# Asks by way of HTTP::Tiny, which is told nothing but to look whom it talks to.
use strict;
use warnings;
use HTTP::Tiny;

$| = 1;
my ($verb, $url, $file) = @ARGV;
my %options = (data_callback => sub { print $_[0] });
if ($verb eq "put") {
    open my $body, "<:raw", $file or die $!;
    $options{content} = sub { read($body, my $part, 65536); return $part };
    $options{headers} = { "content-length" => -s $file };
}

my $answer = HTTP::Tiny->new(verify_SSL => 1)->request($verb eq "put" ? "PUT" : "GET", $url, \%options);
exit 0 if $answer->{success};
# Its own mistakes have the status 599, and the message in place of a body.
die "$answer->{status} $answer->{reason}\n", $answer->{status} == 599 ? $answer->{content} : "";
