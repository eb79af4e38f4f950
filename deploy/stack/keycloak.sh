#!/usr/bin/env bash
# A real Keycloak on a bare machine, for tests of OpenID Connect: keycloak.sh up|down|env.
#
# It comes out of Maven Central, keeps its data in files, and has the realm muniment of
# keycloak.realm.json, with its clients and persons, anew at each up.
#
#   MUNIMENT_STACK          where everything lives; default ./bin/stack
#   MUNIMENT_STACK_CACHE    where downloads are kept; default $MUNIMENT_STACK/cache
#   MUNIMENT_KEYCLOAK_PORT  port; default 18180
#   MUNIMENT_KEYCLOAK_HEAP  heap; default 512m
#
# Needs bash, curl, unzip, Java 17 and mvn.
set -euo pipefail

version=26.5.6

here=$(cd "$(dirname "$0")" && pwd)
stack=${MUNIMENT_STACK:-$here/../../bin/stack}
mkdir -p "$stack"
stack=$(cd "$stack" && pwd)
cache=${MUNIMENT_STACK_CACHE:-$stack/cache}
port=${MUNIMENT_KEYCLOAK_PORT:-18180}
heap=${MUNIMENT_KEYCLOAK_HEAP:-512m}
home=$stack/keycloak
issuer=http://127.0.0.1:$port/realms/muniment

fetch() {
	local archive=$cache/keycloak-$version.zip
	if [ ! -e "$archive" ]; then
		echo "keycloak: fetching Keycloak $version (165 MB)" >&2
		mkdir -p "$cache/keycloak.new"
		mvn -q -B -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -Dartifact="org.keycloak:keycloak-quarkus-dist:$version:zip" -DoutputDirectory="$cache/keycloak.new" >&2
		mv "$cache/keycloak.new/keycloak-quarkus-dist-$version.zip" "$archive"
		rmdir "$cache/keycloak.new"
	fi
	if [ ! -d "$home/keycloak-$version" ]; then
		mkdir -p "$home"
		unzip -q -o "$archive" -d "$home/new"
		mv "$home/new/keycloak-$version" "$home/"
		rmdir "$home/new"
	fi
}

alive() { [ -s "$home/pid" ] && kill -0 "$(cat "$home/pid")" 2>/dev/null; }

up() {
	fetch
	if ! alive; then
		rm -rf "$home/keycloak-$version/data"
		mkdir -p "$home/keycloak-$version/data/import"
		cp "$here/keycloak.realm.json" "$home/keycloak-$version/data/import/muniment-realm.json"
		# Of its own process group, so that a Ctrl-C at make ends the tests and not the server.
		JAVA_OPTS_KC_HEAP="-Xms128m -Xmx$heap" setsid "$home/keycloak-$version/bin/kc.sh" start-dev --http-host 127.0.0.1 --http-port "$port" --import-realm >"$home/log" 2>&1 </dev/null &
		echo $! >"$home/pid"
	fi
	for _ in $(seq 600); do
		if curl -sf -o "$home/answer" "$issuer/.well-known/openid-configuration"; then
			echo "keycloak: up on $issuer, Keycloak $version" >&2
			return
		fi
		alive || break
		sleep 1
	done
	echo "keycloak: it does not start:" >&2
	tail -n 20 "$home/log" >&2
	return 1
}

down() {
	if alive; then
		# kc.sh becomes java, or has it as a child: both are of one group.
		kill -TERM -- "-$(cat "$home/pid")"
		while alive; do sleep 0.1; done
	fi
	rm -f "$home/pid"
}

# env prints what the tests want to know.
env() { echo "export MUNIMENT_TEST_KEYCLOAK=$issuer"; }

case "${1:-}" in
up | down | env) "$1" ;;
*)
	echo "usage: $0 up|down|env" >&2
	exit 2
	;;
esac
