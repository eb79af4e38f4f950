# Read by the engines' scripts: what MUNIMENT_STACK_TLS=1 means. Every engine then
# speaks TLS alone and wants a password. The authority and the servers' certificate
# are made once, in $stack/tls; a client that trusts tls/ca.crt trusts all of them at
# 127.0.0.1 and localhost. Data keep the mode in which they were made.
tls=${MUNIMENT_STACK_TLS:-}

# certificates makes them where there are none.
certificates() {
	local dir=$stack/tls
	[ -s "$dir/server.pem" ] && return
	mkdir -p "$dir"
	local key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
	openssl req -x509 "${key[@]}" -keyout "$dir/ca.key" -out "$dir/ca.crt" -subj "/CN=stack authority" -days 365 2>/dev/null
	openssl req "${key[@]}" -keyout "$dir/server.key" -out "$dir/server.csr" -subj "/CN=stack" 2>/dev/null
	printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n' >"$dir/server.ext"
	openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial \
		-extfile "$dir/server.ext" -days 365 -out "$dir/server.crt" 2>/dev/null
	(umask 077 && cat "$dir/server.key" "$dir/server.crt" >"$dir/server.pem")
}

# drawn makes a password once; the file holds it.
drawn() {
	[ -s "$1" ] || (umask 077 && openssl rand -hex 16 >"$1")
}
