# What the example workload does: shows what it can do, and what it cannot. Put your own in its place.

echo "== allowed, with a credential that this container does not have"
curl --silent --show-error --max-time 30 --output /dev/null --write-out '%{http_code}\n' https://api.github.com/user

echo "== a host that no rule names"
curl --silent --show-error --max-time 30 --output /dev/null --write-out '%{http_code}\n' https://example.com/

echo "== the same without variables: the name leads to the proxy, which answers"
curl --silent --show-error --max-time 30 --noproxy '*' https://example.com/

echo "== an address: there is no way there"
curl --silent --show-error --max-time 5 --noproxy '*' https://192.0.2.1/

echo "== secrets in the environment or in files of this container"
env | grep --ignore-case --count -e token -e secret
exit 0
