#!/usr/bin/env bash
# A real PgBouncer on a bare machine, in front of the PostgreSQL of postgres.sh, for tests:
# pgbouncer.sh up|down|env.
#
# It is Debian's, which up installs where apt-get can: one process for each of its modes, session,
# transaction and statement. It refuses to run as root: as root it is started as the user postgres,
# or nobody where there is none.
#
#   MUNIMENT_STACK           where everything lives; default ./bin/stack
#   MUNIMENT_POSTGRES_PORT   of the server; default 15432
#   MUNIMENT_PGBOUNCER_PORT  of the first mode, session; the next two are those of transaction and
#                            statement; default 16432
#
# Needs bash, and a running postgres.sh. With MUNIMENT_STACK_TLS=1 it does nothing.
set -euo pipefail
[ "${MUNIMENT_STACK_TLS:-}" != 1 ] || exit 0

here=$(cd "$(dirname "$0")" && pwd)
stack=${MUNIMENT_STACK:-$here/../../bin/stack}
mkdir -p "$stack"
stack=$(cd "$stack" && pwd)
server=${MUNIMENT_POSTGRES_PORT:-15432}
port=${MUNIMENT_PGBOUNCER_PORT:-16432}
home=$stack/pgbouncer
modes=(session transaction statement)

owner=postgres
getent passwd postgres >/dev/null || owner=nobody

# as runs a command as the poolers' owner.
as() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u "$owner" -- "$@"
	else
		"$@"
	fi
}

alive() { [ -s "$home/$1.pid" ] && as kill -0 "$(cat "$home/$1.pid")" 2>/dev/null; }

install() {
	if ! command -v pgbouncer >/dev/null; then
		echo "pgbouncer: installing it" >&2
		apt-get install -y -q pgbouncer >"$stack/pgbouncer.install.log" 2>&1 || { tail -n 5 "$stack/pgbouncer.install.log" >&2; return 1; }
	fi
}

up() {
	install
	mkdir -p "$home"
	printf '"postgres" "%s"\n' "$(cat "$stack/postgres/password")" >"$home/users"
	local at=$port
	for mode in "${modes[@]}"; do
		cat >"$home/$mode.ini" <<-END
			[databases]
			* = host=127.0.0.1 port=$server
			[pgbouncer]
			listen_addr = 127.0.0.1
			listen_port = $at
			unix_socket_dir =
			pool_mode = $mode
			default_pool_size = 60
			max_client_conn = 1000
			auth_type = plain
			auth_file = $home/users
			logfile = $home/$mode.log
			pidfile = $home/$mode.pid
		END
		at=$((at + 1))
	done
	[ "$(id -u)" != 0 ] || chown -R "$owner" "$home"
	chmod 700 "$home"
	for mode in "${modes[@]}"; do
		alive "$mode" || as pgbouncer -q -d "$home/$mode.ini"
	done
	echo "pgbouncer: up on 127.0.0.1:$port, $(pgbouncer --version | head -n 1)" >&2
}

down() {
	for mode in "${modes[@]}"; do
		if alive "$mode"; then
			as kill "$(cat "$home/$mode.pid")"
		fi
	done
}

# env prints what the tests want to know; it holds the password.
env() {
	local at=$port
	for mode in "${modes[@]}"; do
		echo "export MUNIMENT_TEST_PGBOUNCER_${mode^^}='postgres://postgres:$(cat "$stack/postgres/password")@127.0.0.1:$at/postgres?sslmode=disable'"
		at=$((at + 1))
	done
}

case "${1:-}" in
up | down | env)
	cd /
	"$1"
	;;
*)
	echo "usage: $0 up|down|env" >&2
	exit 2
	;;
esac
