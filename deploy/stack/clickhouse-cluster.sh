#!/usr/bin/env bash
# A ClickHouse cluster on a bare machine, for tests: the replicas of one shard, and a
# ZooKeeper between them. clickhouse-cluster.sh up|down|env, and for faults: kill REPLICA,
# start REPLICA (1, 2, …).
#
# The replicas are the server of clickhouse.sh, started by clickhouse-replica.c as
# members of a cluster; that server carries no Keeper, so ZooKeeper stands in for it,
# out of Maven Central (zookeeper.pom.xml). The cluster's name is muniment. What is said there of
# stops and crashes holds here: a replica that ends by itself is started again, one that
# was killed stays away until it is started.
#
#   MUNIMENT_STACK            where everything lives; default ./bin/stack
#   MUNIMENT_STACK_CACHE      where downloads are kept; default $MUNIMENT_STACK/cache
#   MUNIMENT_CLUSTER_REPLICAS how many; default 2
#   MUNIMENT_CLUSTER_TCP      port of the first replica's native protocol; default 19010.
#                             The next ones are 100 further each.
#   MUNIMENT_CLUSTER_HTTP     port of its HTTP protocol; default 18133, the same. The
#                             replicas fetch from each other at this port of 127.0.0.2.
#   MUNIMENT_CLUSTER_KEEPER   port of ZooKeeper; default 12181
#
# Needs what clickhouse.sh needs, Java 17 and mvn.
set -euo pipefail

version=3.9.4

here=$(cd "$(dirname "$0")" && pwd)
stack=${MUNIMENT_STACK:-$here/../../bin/stack}
mkdir -p "$stack"
stack=$(cd "$stack" && pwd)
cache=${MUNIMENT_STACK_CACHE:-$stack/cache}
tcp=${MUNIMENT_CLUSTER_TCP:-19010}
http=${MUNIMENT_CLUSTER_HTTP:-18133}
replicas=$(seq "${MUNIMENT_CLUSTER_REPLICAS:-2}")
keeper=${MUNIMENT_CLUSTER_KEEPER:-12181}
home=$stack/clickhouse-cluster
libs=$cache/zookeeper-$version

tcp_port() { echo $((tcp + 100 * ($1 - 1))); }
http_port() { echo $((http + 100 * ($1 - 1))); }

fetch() {
	MUNIMENT_STACK_CACHE=$cache "$here/clickhouse.sh" fetch
	if [ ! -d "$libs" ]; then
		echo "clickhouse-cluster: fetching Apache ZooKeeper $version (16 MB)" >&2
		mvn -q -B -Dstyle.color=never -f "$here/zookeeper.pom.xml" dependency:copy-dependencies -DoutputDirectory="$libs.new" -DincludeScope=runtime >&2
		mv "$libs.new" "$libs"
	fi
}

# configure writes the configurations; passwords are drawn once and stay.
configure() {
	mkdir -p "$home/zookeeper"
	chmod 700 "$home"
	local user i members=""
	for i in $replicas; do
		mkdir -p "$home/$i/data"
		members+="<replica><host>127.0.0.1</host><port>$(tcp_port "$i")</port></replica>"
	done
	for user in muniment analyst; do
		if [ ! -s "$home/$user.password" ]; then
			(umask 077 && openssl rand -hex 16 >"$home/$user.password")
		fi
	done
	hash() { tr -d '\n' <"$home/$1.password" | openssl dgst -sha256 -r | cut -d' ' -f1; }
	sed -e "s|@MUNIMENT_SHA256@|$(hash muniment)|" -e "s|@ANALYST_SHA256@|$(hash analyst)|" \
		"$here/clickhouse.users.xml" >"$home/users.xml"
	# A short session: the others notice a replica that was killed when it has ended.
	cat >"$home/zookeeper.cfg" <<-CFG
		tickTime=500
		dataDir=$home/zookeeper
		clientPort=$keeper
		clientPortAddress=127.0.0.1
		admin.enableServer=false
	CFG
	for i in $replicas; do
		cat >"$home/$i/config.xml" <<-XML
			<clickhouse>
				<path>$home/$i/data/</path>
				<users_config>$home/users.xml</users_config>
				<listen_host>127.0.0.1</listen_host>
				<listen_host>127.0.0.2</listen_host>
				<tcp_port>$(tcp_port "$i")</tcp_port>
				<http_port>$(http_port "$i")</http_port>
				<logger><level>information</level><log>$home/$i/server.log</log><errorlog>$home/$i/error.log</errorlog></logger>
				<mark_cache_size>67108864</mark_cache_size>
				<max_server_memory_usage>2000000000</max_server_memory_usage>
				<zookeeper>
					<node><host>127.0.0.1</host><port>$keeper</port></node>
					<session_timeout_ms>4000</session_timeout_ms>
					<sessions_path>/clickhouse/sessions/$i</sessions_path>
				</zookeeper>
				<macros><shard>1</shard><replica>$i</replica></macros>
				<default_replica_path>/clickhouse/tables/{uuid}/{shard}</default_replica_path>
				<default_replica_name>{replica}</default_replica_name>
				<distributed_ddl><path>/clickhouse/task_queue/ddl</path></distributed_ddl>
				<remote_servers><muniment><shard>
					<internal_replication>true</internal_replication>
					$members
				</shard></muniment></remote_servers>
			</clickhouse>
		XML
	done
}

runs() { [ -s "$home/$1" ] && kill -0 "$(cat "$home/$1")" 2>/dev/null; }
answers() { curl --silent --fail --max-time 2 --output /dev/null "http://127.0.0.1:$(http_port "$1")/ping"; }

keeper_serves() { (exec 3<>"/dev/tcp/127.0.0.1/$keeper" && echo srvr >&3 && grep -q '^Mode: ' <&3) 2>/dev/null; }

up() {
	fetch
	configure
	if ! runs zookeeper.pid; then
		setsid java -Xmx128m -cp "$libs/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$home/zookeeper.cfg" \
			</dev/null >"$home/zookeeper.log" 2>&1 &
		echo $! >"$home/zookeeper.pid"
	fi
	local end=$((SECONDS + 120))
	while ((SECONDS < end)); do
		if keeper_serves; then break; fi
		sleep 0.1
	done
	local i
	for i in $replicas; do launch "$i"; done
	for i in $replicas; do await "$i"; done
	echo "clickhouse-cluster: up on $(addresses tcp_port) (native) and $(addresses http_port) (HTTP)" >&2
}

# launch starts a replica and the loop that restarts it.
launch() {
	[ ! -e "$home/$1/wanted" ] || return 0
	touch "$home/$1/wanted"
	# The server lives as long as its first query, so that one sleeps.
	setsid bash -c 'while [ -e "$1/wanted" ]; do
			"${@:2}" & echo $! >"$1/pid"
			wait $! || sleep 0.2
		done' clickhouse "$home/$1" \
		"$cache/clickhouse-replica" "$cache/libchdb.so" "127.0.0.2:$(http_port "$1")" --config-file="$home/$1/config.xml" --path="$home/$1/data" \
		--query="SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP;
			SELECT sleepEachRow(1) FROM numbers(100000000) SETTINGS max_block_size = 1, max_execution_time = 0,
				function_sleep_max_microseconds_per_block = 100000000 FORMAT Null" \
		</dev/null >"$home/$1/out.log" 2>&1 &
	echo $! >"$home/$1/keeper"
}

# await returns once a replica answers.
await() {
	local end=$((SECONDS + 120))
	while ((SECONDS < end)); do
		if runs "$1/pid" && answers "$1"; then
			return
		fi
		sleep 0.1
	done
	echo "clickhouse-cluster: replica $1 does not answer; the end of $home/$1/out.log:" >&2
	tail -n 20 "$home/$1/out.log" >&2
	down
	return 1
}

# finish ends a replica with SIGKILL.
finish() {
	rm -f "$home/$1/wanted"
	for _ in $(seq 100); do
		if runs "$1/pid"; then
			kill -9 "$(cat "$home/$1/pid")" 2>/dev/null || true
		elif ! runs "$1/keeper"; then
			break
		fi
		sleep 0.1
	done
	rm -f "$home/$1/pid" "$home/$1/keeper"
}

down() {
	local i
	for i in $replicas; do finish "$i"; done
	if runs zookeeper.pid; then
		kill "$(cat "$home/zookeeper.pid")"
		while runs zookeeper.pid; do sleep 0.05; done
	fi
	rm -f "$home/zookeeper.pid"
}

# addresses are those of all replicas, at one of their ports.
addresses() {
	local i list=""
	for i in $replicas; do
		list="$list,127.0.0.1:$("$1" "$i")"
	done
	echo "${list#,}"
}

# env prints what the tests want to know; it holds passwords.
env() {
	local password analyst
	password=$(cat "$home/muniment.password")
	analyst=$(cat "$home/analyst.password")
	echo "export MUNIMENT_TEST_CLICKHOUSE='clickhouse://muniment:$password@$(addresses tcp_port)'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_HTTP='http://muniment:$password@$(addresses http_port)'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_ANALYST='clickhouse://analyst:$analyst@$(addresses tcp_port)'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_CACHE='$cache'"
	echo "export MUNIMENT_TEST_CLICKHOUSE_CLUSTER=muniment"
}

case "${1:-}" in
up | down | env) "$1" ;;
kill) finish "${2:?which replica}" ;;
start) launch "${2:?which replica}" && await "$2" ;;
*)
	echo "usage: $0 up|down|env|kill REPLICA|start REPLICA" >&2
	exit 2
	;;
esac
