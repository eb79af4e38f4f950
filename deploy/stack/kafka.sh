#!/usr/bin/env bash
# A real Apache Kafka on a bare machine, for tests: kafka.sh up|down|env, and for
# faults: kafka.sh kill NODE.
#
# The brokers come out of Maven Central (kafka.pom.xml) and run in KRaft mode, each
# of them broker and controller. up starts those that are not running.
#
#   MUNIMENT_STACK         where everything lives; default ./bin/stack
#   MUNIMENT_STACK_CACHE   where downloads are kept; default $MUNIMENT_STACK/cache
#   MUNIMENT_KAFKA_PORT    port of the first broker; default 19092. The next ones are
#                          100 further each, controllers one behind their broker.
#   MUNIMENT_KAFKA_NODES   how many brokers; default 1. It stays for the life of the
#                          data in $MUNIMENT_STACK/kafka.
#   MUNIMENT_KAFKA_ADVERTISED  port that clients are sent to, of a proxy in
#                          front of a single broker; default: the broker's
#   MUNIMENT_STACK_TLS     1: TLS and SCRAM-SHA-512 alone, for the user muniment; see tls.sh
#   MUNIMENT_KAFKA_HEAP    heap of a broker; default 320m
#
# Needs bash, Java 17 and mvn.
set -euo pipefail

version=4.1.1

here=$(cd "$(dirname "$0")" && pwd)
stack=${MUNIMENT_STACK:-$here/../../bin/stack}
mkdir -p "$stack"
stack=$(cd "$stack" && pwd)
cache=${MUNIMENT_STACK_CACHE:-$stack/cache}
port=${MUNIMENT_KAFKA_PORT:-19092}
nodes=${MUNIMENT_KAFKA_NODES:-1}
heap=${MUNIMENT_KAFKA_HEAP:-320m}
home=$stack/kafka
libs=$cache/kafka-$version
. "$here/tls.sh"
protocol=PLAINTEXT
[ -z "$tls" ] || protocol=SASL_SSL

fetch() {
	if [ ! -d "$libs" ]; then
		echo "kafka: fetching Apache Kafka $version (43 MB)" >&2
		mkdir -p "$cache"
		mvn -q -B -Dstyle.color=never -f "$here/kafka.pom.xml" dependency:copy-dependencies -DoutputDirectory="$libs.new" -DincludeScope=runtime >&2
		mv "$libs.new" "$libs"
	fi
}

broker_port() { echo $((port + 100 * ($1 - 1))); }

# configure writes the properties of every node and formats new ones, all with one
# cluster id.
configure() {
	local i voters="" majority=$((nodes / 2 + 1)) new=()
	for i in $(seq "$nodes"); do
		voters="$voters,$i@127.0.0.1:$(($(broker_port "$i") + 1))"
	done
	mkdir -p "$home"
	if [ -n "$tls" ]; then
		certificates
		drawn "$home/muniment.password"
		drawn "$home/broker.password"
	fi
	cat >"$home/log4j2.properties" <<-PROPERTIES
		appender.o.type=Console
		appender.o.name=o
		appender.o.layout.type=PatternLayout
		appender.o.layout.pattern=[%d] %p %m (%c)%n
		rootLogger=info, o
	PROPERTIES
	for i in $(seq "$nodes"); do
		local p
		p=$(broker_port "$i")
		# A short session: a broker that was killed is let in again only when it has ended.
		cat >"$home/node$i.properties" <<-PROPERTIES
			process.roles=broker,controller
			node.id=$i
			controller.quorum.voters=${voters#,}
			listeners=$protocol://127.0.0.1:$p,CONTROLLER://127.0.0.1:$((p + 1))
			advertised.listeners=$protocol://127.0.0.1:${MUNIMENT_KAFKA_ADVERTISED:-$p}
			listener.security.protocol.map=$protocol:$protocol,CONTROLLER:PLAINTEXT
			controller.listener.names=CONTROLLER
			inter.broker.listener.name=$protocol
			log.dirs=$home/node$i
			auto.create.topics.enable=false
			default.replication.factor=$nodes
			min.insync.replicas=$majority
			unclean.leader.election.enable=false
			offsets.topic.num.partitions=4
			offsets.topic.replication.factor=$nodes
			transaction.state.log.num.partitions=4
			transaction.state.log.replication.factor=$nodes
			transaction.state.log.min.isr=$majority
			group.initial.rebalance.delay.ms=0
			log.cleaner.dedupe.buffer.size=33554432
			broker.heartbeat.interval.ms=500
			broker.session.timeout.ms=$((nodes > 1 ? 3000 : 2000))
		PROPERTIES
		[ -z "$tls" ] || secure >>"$home/node$i.properties"
		[ -e "$home/node$i/meta.properties" ] || new+=("$i")
	done
	if [ ${#new[@]} -gt 0 ]; then
		tool() { java -cp "$libs/*" -Dlog4j2.configurationFile="$home/log4j2.properties" kafka.tools.StorageTool "$@" 2>>"$home/format.log"; }
		[ -s "$home/cluster" ] || tool random-uuid | tail -n 1 >"$home/cluster"
		local users=() user
		if [ -n "$tls" ]; then
			for user in muniment broker; do
				users+=(--add-scram "SCRAM-SHA-512=[name=$user,password=$(cat "$home/$user.password")]")
			done
		fi
		for i in "${new[@]}"; do
			tool format -t "$(cat "$home/cluster")" -c "$home/node$i.properties" ${users[@]+"${users[@]}"} >>"$home/format.log"
		done
	fi
}

# secure prints what a node needs for TLS and SCRAM; the brokers are users as well.
secure() {
	cat <<-PROPERTIES
		sasl.enabled.mechanisms=SCRAM-SHA-512
		sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
		listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="$(cat "$home/broker.password")";
		ssl.keystore.type=PEM
		ssl.keystore.location=$stack/tls/server.pem
		ssl.truststore.type=PEM
		ssl.truststore.location=$stack/tls/ca.crt
		ssl.enabled.protocols=TLSv1.3
	PROPERTIES
}

alive() { [ -s "$home/node$1.pid" ] && kill -0 "$(cat "$home/node$1.pid")" 2>/dev/null; }

start() {
	local log=$home/node$1.log from
	touch "$log"
	from=$(($(wc -c <"$log") + 1))
	# Of its own process group, so that a Ctrl-C at make ends the tests and not the stack.
	setsid java -Xms128m -Xmx"$heap" -XX:+UseG1GC -XX:+ExitOnOutOfMemoryError -Dlog4j2.configurationFile="$home/log4j2.properties" \
		-cp "$libs/*" kafka.Kafka "$home/node$1.properties" >>"$log" 2>&1 </dev/null &
	echo $! >"$home/node$1.pid"
	for _ in $(seq 900); do
		if tail -c "+$from" "$log" | grep -q 'Kafka Server started'; then
			return
		fi
		if ! alive "$1"; then
			break
		fi
		sleep 0.1
	done
	echo "kafka: node $1 does not start:" >&2
	tail -n 20 "$log" >&2
	return 1
}

up() {
	local i starting=()
	fetch
	configure
	# Together: a quorum needs a majority.
	for i in $(seq "$nodes"); do
		if ! alive "$i"; then
			start "$i" &
			starting+=($!)
		fi
	done
	for i in ${starting[@]+"${starting[@]}"}; do
		wait "$i"
	done
	echo "kafka: up on $(addresses), Apache Kafka $version" >&2
}

# finish ends a node and waits for it.
finish() {
	if alive "$1"; then
		kill "-$2" "$(cat "$home/node$1.pid")"
		while alive "$1"; do sleep 0.05; done
	fi
	rm -f "$home/node$1.pid"
}

down() {
	local i
	for i in $(seq "$nodes"); do
		finish "$i" TERM &
	done
	wait
}

addresses() {
	local i list=""
	for i in $(seq "$nodes"); do
		list="$list,127.0.0.1:$(broker_port "$i")"
	done
	echo "${list#,}"
}

# env prints what the tests want to know.
env() {
	if [ -n "$tls" ]; then
		echo "export MUNIMENT_TEST_TLS_CA='$stack/tls/ca.crt'"
		echo "export MUNIMENT_TEST_TLS_KAFKA=$(addresses)"
		echo "export MUNIMENT_TEST_TLS_KAFKA_PASSWORD='$home/muniment.password'"
		return
	fi
	echo "export MUNIMENT_TEST_KAFKA=$(addresses)"
	echo "export MUNIMENT_TEST_KAFKA_CACHE='$cache'"
}

case "${1:-}" in
up | down | env) "$1" ;;
kill) finish "${2:?which node}" KILL ;;
*)
	echo "usage: $0 up|down|env|kill NODE" >&2
	exit 2
	;;
esac
