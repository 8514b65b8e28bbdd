#!/usr/bin/env bash
# Runs a command of the toy with every rank behind its own slow network card.
#
#   ./shaped_link.sh 2 1gbit python -m tensor_parallel_toy profile --ranks 2
#
# One network namespace per rank, joined by a bridge; `tc tbf` limits what each rank may send.
# Needs Linux, root, and iproute2. Everything it makes carries its process number and is removed
# when it ends, also after Ctrl-C. The burst is large on purpose: with a small one the shaper itself
# costs so much processor time that it hides the overlap.
set -euo pipefail
if [ $# -lt 3 ]; then
    echo "usage: $0 RANKS RATE COMMAND...   (for example: $0 2 1gbit python -m tensor_parallel_toy profile --ranks 2)" >&2
    exit 2
fi
ranks=$1 rate=$2
shift 2
if [ "$(id -u)" -ne 0 ] || ! command -v tc >/dev/null || ! command -v ip >/dev/null; then
    echo "$0 needs root and the commands ip and tc; without them use --link simulated:$rate" >&2
    exit 2
fi
id=tp$$
hub=${id}h
child=
cleanup() {
    if [ -n "$child" ]; then kill "$child" 2>/dev/null && wait "$child" || true; fi
    for ((rank = 0; rank < ranks; rank++)); do ip netns del "${id}r$rank" 2>/dev/null || true; done
    ip netns del "$hub" 2>/dev/null || true
}
trap cleanup EXIT
trap 'exit 130' INT TERM
ip netns add "$hub"
ip -n "$hub" link add br0 type bridge
ip -n "$hub" link set br0 up
for ((rank = 0; rank < ranks; rank++)); do
    ns=${id}r$rank
    ip netns add "$ns"
    ip -n "$ns" link set lo up
    ip -n "$hub" link add "port$rank" type veth peer name eth0 netns "$ns"
    ip -n "$hub" link set "port$rank" master br0 up
    ip -n "$ns" addr add "10.111.0.$((rank + 1))/24" dev eth0
    ip -n "$ns" link set eth0 up
    tc -n "$ns" qdisc add dev eth0 root tbf rate "$rate" burst 2mbit latency 200ms
done
export TOY_WRAPPER="tensor_parallel_toy/shaped_link.sh $ranks $rate "
export TOY_LINK_NAME="tc tbf $rate, burst 2mbit, latency 200ms, one namespace per rank"
export TOY_RANK_PREFIX="ip netns exec ${id}r{rank} env GLOO_SOCKET_IFNAME=eth0"
"$@" &
child=$!
wait "$child" && status=0 || status=$?
child=
exit "$status"
