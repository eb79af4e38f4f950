#!/usr/bin/env bash
# The engines of the scaled service on a bare machine, for tests:
# stack.sh up|down|env, of all engines or of those named behind it.
#
# Each engine has a script of its own beside this one, <engine>.sh up|down|env. up
# starts it and returns once it answers, or says why not and fails; down stops it,
# and its data stay; env prints lines for a shell to evaluate. Messages go to the
# standard error. State lives under $MUNIMENT_STACK, by default ./bin/stack;
# downloads, which outlive it, under $MUNIMENT_STACK_CACHE. With MUNIMENT_STACK_TLS=1
# the engines speak TLS alone and ask for passwords: see tls.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
verb=${1:-}
engines=("${@:2}")
[ ${#engines[@]} -gt 0 ] || engines=(kafka clickhouse postgres pgbouncer)

case $verb in
up)
	# One after the other: two cores start three servers no faster at once.
	for engine in "${engines[@]}"; do "$here/$engine.sh" up; done
	;;
down)
	failed=0
	for engine in "${engines[@]}"; do "$here/$engine.sh" down || failed=1; done
	exit "$failed"
	;;
env)
	for engine in "${engines[@]}"; do "$here/$engine.sh" env; done
	;;
*)
	echo "usage: $0 up|down|env [engine …]" >&2
	exit 2
	;;
esac
